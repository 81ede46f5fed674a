"""Where crates and Go modules come from. Needs no library: E2B's machines fetch none, and have none."""

from __future__ import annotations

import asyncio
import os
import shutil
import tomllib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.host import launch


@dataclass(frozen=True, slots=True)
class Upstreams:
    """A sparse index of crates, and a module proxy; "" for neither."""

    crates: str = ""
    go: str = ""


NOTHING = Upstreams()


async def configured(crates: str | None, go: str | None) -> Upstreams:
    """The given addresses; instead of an empty one, that of cargo's or Go's own configuration on this machine."""
    of_cargo = crates if crates else await asyncio.to_thread(_of_cargo)
    return Upstreams(of_cargo, go if go else await _of_go())


def _of_cargo() -> str:
    """The sparse index that replaces the public one; "" if the configuration names none."""
    home = Path(os.environ.get("CARGO_HOME") or "~/.cargo").expanduser()
    for name in ("config.toml", "config"):
        with suppress(OSError, ValueError, KeyError, TypeError):
            sources = tomllib.loads((home / name).read_text("utf-8"))["source"]
            kind, _, address = str(sources[sources["crates-io"]["replace-with"]]["registry"]).partition("+")
            return address if kind == "sparse" else ""
    return ""


async def _of_go() -> str:
    """The first proxy of `GOPROXY`; "" without Go, or if it uses none."""
    go = shutil.which("go")
    said = os.environ.get("GOPROXY", "")
    if not said and go is not None:
        told = await launch.run(launch.Launch((go, "env", "GOPROXY"), dict(os.environ), 20.0, cwd="/"))
        said = told.stdout.decode(errors="replace")
    return next((each for each in said.strip().replace("|", ",").split(",") if each.startswith(("https://", "http://"))), "")


def unfetched(name: str, setting: str = "") -> str:
    """The note on a lock whose sources are not fetched. `setting` would name where to fetch them from."""
    way = f" unless `{setting}` says where from" if setting else " for this sandbox"
    return f"what {name} names is not fetched{way}: only vendored dependencies are available"
