"""A command with the mounts, environment and limits under which a jail or a container runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sandbox.base import KIB, MIB, Command, Limits
from sandbox.host.tree import parts_of


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder, file or volume (`source`), visible to the command at `target`."""

    source: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Job:
    """One command and everything it sees."""

    argv: Sequence[str]
    mounts: Sequence[Mount]
    env: Mapping[str, str]
    cwd: str  # absolute, as seen inside
    timeout: float  # seconds
    stdin: bytes = b""
    output_limit: int = MIB  # bytes per stream
    hosts: Sequence[str] = ()  # names that resolve to the sandbox itself
    heard: Callable[[bytes], None] | None = None  # as in `Command`
    started: Callable[[int], None] | None = None  # gets the process id, if the command runs on this machine


def job_of(command: Command, root: str, mounts: Sequence[Mount], env: Mapping[str, str]) -> Job:
    """`command` in the workspace at `root`. Raises `ValueError` for a `cwd` outside it."""
    cwd = root if command.cwd in ("", ".") else "/".join((root, *parts_of(command.cwd)))
    argv, timeout, stdin = command.argv, command.timeout, command.stdin
    return Job(argv, mounts, {**env, **command.env}, cwd, timeout, stdin, command.output_limit, command.hosts, command.heard)


LOCKED_MEMORY = 64 * KIB  # bytes per process


def environment(home: str, programs: str) -> dict[str, str]:
    """All environment variables of a command; `programs` is the folder of the dependencies' commands."""
    return {
        "PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin",
        "HOME": home,
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def with_limits(limits: Limits, argv: Sequence[str], *, processes: bool = True) -> tuple[str, ...]:
    """`argv` with its limits. Outside a user namespace, a limit on `processes` would count all of the user's processes."""
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
