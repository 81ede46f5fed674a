"""The confinement of one command's container, as the engine's API expects it.

Each command gets a fresh container: no network, no capabilities and no way to gain any, a read-only root file system, an
unprivileged user, the engine's system call filter, and limits on every resource. Of the host it sees only `binds`. Process 1 is
a script of ours: background processes die with the command, signal numbers survive, and memory kills are reported even where
the engine does not report them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sandbox.base import MIB, Limits
from sandbox.host.job import Job, Mount

USER = 65532  # unused elsewhere: with a rootful engine it is the same number on the host
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
"""Runs as process 1 (`$0` is unique to this command). A subshell's `exec` finds programs, not builtins."""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """What all containers of one sandbox share."""

    image: str
    limits: Limits
    processors: float
    labels: Mapping[str, str]
    volumes: Sequence[str] = ()  # declared by the image; mounted in memory, with a size, instead of on the engine's disk

    def create_body(self, job: Job, mark: str, binds: Sequence[Mount] = ()) -> dict[str, Any]:
        """The body of `POST /containers/create`; `binds` are host folders, mounted read-only."""
        fed = bool(job.stdin)
        return {
            "Image": self.image,
            "Entrypoint": ["/bin/sh", "-c", FIRST, mark],
            "Cmd": [job.cwd, *job.argv],
            "Env": [f"{name}={value}" for name, value in job.env.items()],
            "WorkingDir": "/",  # the engine would create any other folder, as root
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
            "Healthcheck": {"Test": ["NONE"]},  # the image's own check would be one more process
            "HostConfig": self._host(job, binds),
        }

    def _host(self, job: Job, binds: Sequence[Mount]) -> dict[str, Any]:
        limits = self.limits
        ulimits = {
            "fsize": limits.file_size,
            "nofile": limits.open_files,
            "cpu": limits.cpu_seconds,
            "core": 0,
            "memlock": 65536,
            # Counts the user's processes in all sandboxes, so `PidsLimit` is the real bound. Without a value Podman requests a
            # million, which fails where it may not raise limits.
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
            "MemorySwap": limits.memory,  # memory plus swap: no swap
            "PidsLimit": limits.processes,
            "NanoCpus": int(self.processors * 1e9),
            "Ulimits": [{"Name": name, "Soft": value, "Hard": value} for name, value in ulimits.items()],
            "Tmpfs": {"/tmp": f"rw,nosuid,nodev,exec,size={min(limits.disk, TMP_BYTES)},mode=1777"},  # noqa: S108 - inside
            "ShmSize": 64 * MIB,
            "LogConfig": {"Type": "none", "Config": {}},  # otherwise the engine keeps all output on its disk
            "RestartPolicy": {"Name": "no"},
            "Mounts": [
                *(self._in_memory(target) for target in self.volumes),
                *(_mount("volume", one.source, one.target, read_only=not one.writable) for one in job.mounts),
                *(_mount("bind", one.source, one.target, read_only=True) for one in binds),
            ],
        }

    def _in_memory(self, target: str) -> dict[str, Any]:
        size = min(self.limits.disk, TMP_BYTES)
        return {"Type": "tmpfs", "Target": target, "TmpfsOptions": {"SizeBytes": size, "Mode": 0o1777}}


def _mount(kind: str, source: str, target: str, *, read_only: bool) -> dict[str, Any]:
    return {"Type": kind, "Source": source, "Target": target, "ReadOnly": read_only}
