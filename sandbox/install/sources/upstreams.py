"""Where crates and Go modules come from. Needs no library: E2B's machines fetch none, and have none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Upstreams:
    """A sparse index of crates, and a module proxy; "" for neither."""

    crates: str = ""
    go: str = ""


PUBLIC, NOTHING = Upstreams(), Upstreams("", "")


def unfetched(name: str) -> str:
    """The note on a lock whose sources are not fetched."""
    return f"what {name} names is not fetched for this sandbox: only vendored dependencies are available"
