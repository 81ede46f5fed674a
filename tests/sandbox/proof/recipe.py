"""The local sandbox's real recipe with something left out, for tests of what must notice it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from sandbox.jail import bubblewrap

OPERANDS = {
    "--cap-drop": 1, "--uid": 1, "--gid": 1, "--hostname": 1, "--setenv": 2, "--ro-bind": 2, "--ro-bind-try": 2, "--bind": 2,
    "--ro-bind-data": 2, "--symlink": 2, "--proc": 1, "--dev": 1, "--size": 1, "--tmpfs": 1, "--remount-ro": 1, "--perms": 1,
    "--chdir": 1, "--reuid": 1, "--regid": 1, "--bounding-set": 1, "--inh-caps": 1, "--groups": 1,
}  # fmt: skip

Patch = pytest.MonkeyPatch
Drop = Callable[[Patch], None]


def options(arguments: Sequence[str]) -> list[tuple[str, ...]]:
    """Each option with its operands."""
    found, at = [], 0
    while at < len(arguments):
        size = 1 + (0 if "=" in arguments[at] else OPERANDS.get(arguments[at], 0))
        found.append(tuple(arguments[at : at + size]))
        at += size
    return found


def recipe_without(*dropped: str, instead: Mapping[str, Sequence[str]] | None = None) -> Drop:
    """bubblewrap's arguments without those whose words begin so ("--remount-ro /dev"), or with others in their place."""

    def drop(patch: Patch) -> None:
        whole = bubblewrap.isolation_arguments

        def arguments(*given: Any) -> list[str]:
            kept: list[str] = []
            for option in options(whole(*given)):
                told = " ".join(option)
                other = next((words for start, words in (instead or {}).items() if told.startswith(start)), None)
                if other is not None:
                    kept += other
                elif not any(told == start or told.startswith(f"{start} ") for start in dropped):
                    kept += option
            return kept

        patch.setattr(bubblewrap, "isolation_arguments", arguments)

    return drop
