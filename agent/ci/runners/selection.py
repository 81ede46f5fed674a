"""Chooses among environments for several Pythons the one that is run."""

from __future__ import annotations

from collections.abc import Sequence

_NAMED = 6


def one_of_each(names: Sequence[str], kinds: Sequence[tuple[str, str | None]], python: str | None) -> tuple[list[str], str]:
    """Of environments that differ by their Python alone, the one of the wanted Python, else the last.

    `kinds` has for each name the name without its Python, and its Python. Returns the chosen names, and the others as text for
    a note ("" when there are none).
    """
    groups: dict[str, list[tuple[str, str | None]]] = {}
    for name, (kind, own) in zip(names, kinds, strict=True):
        groups.setdefault(kind, []).append((name, own))
    chosen = [next((name for name, own in group if python and own == python), group[-1][0]) for group in groups.values()]
    others = [name for name in names if name not in chosen]
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    return chosen, ", ".join(others[:_NAMED])[:200] + more
