"""How one command's container is made: the whole of its confinement, as the engine's API wants it said.

One container a command, from nothing: no network, no capability, no way to gain any, a root file system that cannot be
written, another user than root, the engine's own system call filter, bounds on everything that can be bounded, and of the
host nothing but what `Bind` names. A command's processes end with its first one, which is ours: so what went into the
background dies, a signal's number is kept, and what the kernel killed for memory is told where the engine does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.base import MIB, Limits

USER = 65532  # nobody's number: on an engine of root's it is the same number outside
TMP_BYTES = 512 * MIB
FIRST = """
cd -- "$1" || exit 126
shift
(exec "$@"); code=$?
for kills in /sys/fs/cgroup/memory.events /sys/fs/cgroup/memory/memory.oom_control; do
    if [ -r "$kills" ]; then
        while read -r name count; do
            if [ "$name" = oom_kill ] && [ "$count" != 0 ]; then printf '%s' "$0" >&2; fi
        done <"$kills"
    fi
done
exit "$code"
"""
"""Runs as process 1 (`$0` is a mark of this command alone). A subshell's `exec` finds programs only, and no builtins."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A volume, as a command sees it."""

    volume: str
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Bind:
    """A folder of the worker's own machine, read-only: the socket of an install step's way out, and nothing else ever."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Job:
    """One command and what it sees."""

    argv: Sequence[str]
    mounts: Sequence[Mount]
    env: Mapping[str, str]
    cwd: str
    timeout: float  # seconds
    stdin: bytes = b""
    output_limit: int = MIB  # bytes per stream
    binds: Sequence[Bind] = ()
    hosts: Sequence[str] = ()  # names that lead to the sandbox itself


@dataclass(frozen=True, slots=True)
class Recipe:
    """What all containers of one sandbox have in common."""

    image: str
    limits: Limits
    processors: float
    labels: Mapping[str, str]
    volumes: Sequence[str] = ()  # folders that the image itself wants on the engine's disk: they are had in memory, bounded

    def of(self, job: Job, mark: str) -> dict[str, Any]:
        """The body of `POST /containers/create`."""
        fed = bool(job.stdin)
        return {
            "Image": self.image,
            "Entrypoint": ["/bin/sh", "-c", FIRST, mark],
            "Cmd": [job.cwd, *job.argv],
            "Env": [f"{name}={value}" for name, value in job.env.items()],
            "WorkingDir": "/",  # an engine would make it, as root
            "User": f"{USER}:{USER}",
            "Hostname": "sandbox",
            "Labels": dict(self.labels),
            "NetworkDisabled": True,
            "Tty": False,
            "OpenStdin": fed,
            "StdinOnce": fed,
            "AttachStdin": fed,
            "AttachStdout": True,
            "AttachStderr": True,
            "Healthcheck": {"Test": ["NONE"]},  # the image's own would be one more process
            "HostConfig": self._host(job),
        }

    def _host(self, job: Job) -> dict[str, Any]:
        limits = self.limits
        ulimits = {
            "fsize": limits.file_size,
            "nofile": limits.open_files,
            "cpu": limits.cpu_seconds,
            "core": 0,
            "memlock": 65536,
            # Counts all processes of the user, of other sandboxes too: `PidsLimit` is the bound. Unsaid, Podman asks for a
            # million, which one that may not raise limits is refused.
            "nproc": max(8192, limits.processes),
        }
        return {
            "NetworkMode": "none",
            "ExtraHosts": [f"{name}:127.0.0.1" for name in job.hosts],
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "Privileged": False,
            "IpcMode": "private",
            "Memory": limits.memory,
            "MemorySwap": limits.memory,  # together with swap: none of it
            "PidsLimit": limits.processes,
            "NanoCpus": int(self.processors * 1e9),
            "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits.items()],
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={min(limits.disk, TMP_BYTES)},mode=1777"},  # noqa: S108 - inside
            "ShmSize": 64 * MIB,
            "LogConfig": {"Type": "none", "Config": {}},  # or the engine would keep all output on its disk
            "RestartPolicy": {"Name": "no"},
            "Mounts": [
                *(self._in_memory(target) for target in self.volumes),
                *(_mount("volume", one.volume, one.target, read_only=not one.writable) for one in job.mounts),
                *(_mount("bind", one.source, one.target, read_only=True) for one in job.binds),
            ],
        }

    def _in_memory(self, target: str) -> dict[str, Any]:
        size = min(self.limits.disk, TMP_BYTES)
        return {"Type": "tmpfs", "Target": target, "TmpfsOptions": {"SizeBytes": size, "Mode": 0o1777}}


def _mount(kind: str, source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": kind, "Source": source, "Target": target, "ReadOnly": read_only}
