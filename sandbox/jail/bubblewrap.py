"""Builds the arguments with which bubblewrap isolates untrusted code.

Pure, except that it looks at this machine's system folders. Facts about the host leak through `/proc/1/environ` and
`/proc/1/cmdline` (seen in 0.8), so the caller starts bwrap with an empty environment and passes the arguments by descriptor.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from sandbox.base import MIB, Limits
from sandbox.host.job import Mount

BWRAP = "/usr/bin/bwrap"
OLDEST = (0, 8)  # the first version with --disable-userns
REPO, ENV, TOOLS, INIT = "/repo", "/env", "/tools", "/init"
INSIDE_UID = 1000
PASSWD = f"root:x:0:0:root:/:/bin/sh\nsandbox:x:{INSIDE_UID}:{INSIDE_UID}:sandbox:/tmp:/bin/sh\n"
GROUP = f"root:x:0:\nsandbox:x:{INSIDE_UID}:\n"
HOSTS = "127.0.0.1 localhost sandbox\n::1 localhost\n"
# As on a runner: a name has all its addresses, and a name that is not in the file is asked for.
HOST_CONF = "multi on\n"
NSSWITCH = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
FIRST = """
exec 3<&0 4>&1 5>&2 </dev/null >/dev/null 2>&1
/usr/bin/env --default-signal=INT,QUIT "$@" <&3 >&4 2>&5 3<&- 4>&- 5>&- &
exec 3<&- 4>&- 5>&-
wait "$!"
"""
"""Runs as process 1: starts the command, closes its own descriptors, and waits.

Its shell is a copy that can be executed but not read (`jail.stage`). The kernel does not let other processes of the same user
open the memory, the descriptors or the environment of such a process, as after `PR_SET_DUMPABLE`. With bwrap's own process 1,
the code under test could read the request and write the answer through `/proc/1/fd`. A shell ignores two signals for what it
starts in the background; `env` restores them.
"""
SYSTEM_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
SYSTEM_FILES = (
    "/etc/ld.so.cache",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/services",
    "/etc/protocols",
    "/etc/os-release",
    "/etc/fonts",
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/maven",
)


def isolation_arguments(
    limits: Limits, mounts: Sequence[Mount], env: Mapping[str, str], cwd: str, hosts: int | None = None
) -> list[str]:
    """All arguments before the command. Later mounts cover earlier ones; `hosts` is the descriptor of an /etc/hosts."""
    arguments = [
        "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-net", "--unshare-cgroup",
        "--disable-userns", "--assert-userns-disabled", "--die-with-parent", "--as-pid-1", "--new-session", "--cap-drop", "ALL",
        "--uid", str(INSIDE_UID), "--gid", str(INSIDE_UID), "--hostname", "sandbox", "--clearenv",
    ]  # fmt: skip
    for name, value in env.items():
        arguments += ["--setenv", name, value]
    arguments += _system()
    scratch = str(scratch_bytes(limits))
    arguments += ["--proc", "/proc", "--dev", "/dev", "--size", str(64 * MIB), "--tmpfs", "/dev/shm"]  # noqa: S108 - inside
    arguments += ["--remount-ro", "/dev", "--perms", "1777", "--size", scratch, "--tmpfs", "/tmp"]  # noqa: S108 - inside
    for mount in mounts:
        arguments += ["--bind" if mount.writable else "--ro-bind", mount.source, mount.target]
    if hosts is not None:
        arguments += ["--ro-bind-data", str(hosts), "/etc/hosts"]
    return [*arguments, "--remount-ro", "/", "--chdir", cwd]


def hosts_file(names: Sequence[str]) -> str:
    """HOSTS plus `names`, which come from repositories; invalid names are left out."""
    return HOSTS + "".join(f"127.0.0.1 {name}\n" for name in names if re.fullmatch(r"\w[\w.-]{0,62}", name, re.ASCII))


def scratch_bytes(limits: Limits) -> int:
    """Size of /tmp and of a candidate's changes. Both are kept in memory, so neither may take all of it."""
    return min(limits.disk, limits.memory // 2)


def _system() -> list[str]:
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in SYSTEM_FOLDERS:
        path = Path("/", name)
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for file in (*SYSTEM_FILES, *sorted(map(str, Path("/etc").glob("java-*")))):
        arguments += ["--ro-bind-try", file, file]
    return arguments


def exit_code(status: bytes) -> int | None:
    """The command's exit code from bwrap's status lines; None if it never started or bwrap itself died.

    bwrap reports a signal as 128 + its number; the result is negative, as in `subprocess`.
    """
    for line in status.splitlines():
        try:
            code = json.loads(line).get("exit-code")
        except ValueError:
            continue
        if isinstance(code, int):
            return 128 - code if 128 < code < 128 + 65 else code
    return None


def why_it_failed(stderr: str) -> str:
    """bwrap's own error message, with a remedy if one is known."""
    if "No permissions to create" in stderr or "Operation not permitted" in stderr or "setting up uid map" in stderr:
        return (
            f"bubblewrap may not create namespaces ({stderr.strip()[:200]}): in a container, allow user namespaces "
            "(for Docker, with a seccomp profile that permits them); on Ubuntu, allow them for bwrap in AppArmor"
        )
    return f"bubblewrap does not work on this machine: {stderr.strip()[:300] or 'no error message'}"


def is_installed() -> bool:
    return os.access(BWRAP, os.X_OK)


def version(output: bytes) -> tuple[int, ...]:
    """`bubblewrap 0.8.0` → (0, 8, 0); empty for anything else."""
    words = output.decode(errors="replace").split()
    return tuple(int(part) for part in words[-1].split(".") if part.isdecimal()) if words else ()
