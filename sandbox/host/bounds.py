"""The environment and per-process limits of every command, in every backend."""

from __future__ import annotations

from collections.abc import Sequence

from sandbox.base import KIB, Limits

LOCKED_MEMORY = 64 * KIB  # bytes per process


def environment(home: str, programs: str) -> dict[str, str]:
    """The whole environment; `programs` is the folder of the dependencies' commands."""
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def with_limits(limits: Limits, argv: Sequence[str], *, processes: bool = True) -> tuple[str, ...]:
    """`argv` under its limits. Outside a user namespace, limiting `processes` would count all of the user's."""
    return (
        "/usr/bin/prlimit",
        *((f"--nproc={limits.processes}",) if processes else ()),
        f"--fsize={limits.file_size}",
        f"--nofile={limits.open_files}",
        f"--cpu={limits.cpu_seconds}",
        "--core=0",
        f"--memlock={LOCKED_MEMORY}",
        "--",
        *argv,
    )
