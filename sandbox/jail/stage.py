"""A private mount namespace of one sandbox (its stage), where its parts are assembled before bubblewrap mounts them.

The host's mount table stays untouched. The namespace has no process: it exists while the worker has its descriptors open, and
disappears with all its mounts when they are closed or the worker dies. If the worker is root, it is a plain mount namespace;
otherwise it has a user namespace in which the worker is root. The host reaches its folders through its top's descriptor.

It is needed because the sandbox's uid cannot reach an interpreter in a home folder of mode 0700, but can use a bind mount made
here; and because each candidate's overlay, with its size limit, is mounted here.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sandbox.base import SandboxUnavailable
from sandbox.host import launch

# Exists on every distribution. The host's content of this folder is hidden only inside the namespace.
TOP = "/mnt"
PATH = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
SECONDS = 20.0  # mounting takes milliseconds; allow for a machine that swaps
_REMEDY = {
    True: "give the container CAP_SYS_ADMIN and a seccomp profile that permits namespaces",
    False: "allow this user to create user namespaces (on Ubuntu: sysctl kernel.apparmor_restrict_unprivileged_userns=0)",
}
_SET_UP = """
set -e
umask 022
stage=$1; shift
mount -t tmpfs -o size=64m,mode=0755,nosuid,nodev stage "$stage"
while [ $# -gt 0 ]; do
    mkdir -p "$stage/$2"
    mount --bind "$1" "$stage/$2"
    shift 2
done
mkdir -p "$stage/c" "$stage/bound" "$stage/etc" "$stage/init"
install -m 0111 /bin/sh "$stage/init/sh"
mount --rbind "$stage" /mnt
echo ready
read -r _ || :
"""

# On disk, only folders change their owner, so that an installer can replace the files in them.
LAYER = """
mkdir -p "$1"
[ -z "$4" ] || mount -t tmpfs -o "size=$4,nr_inodes=1000000,mode=0755,nosuid,nodev" candidate "$1"
mkdir "$1/changes" "$1/work" "$1/root"
[ -z "$3" ] || chown "$3:$3" "$1/changes" "$1/root"
if [ "$5" = overlay ]; then
    mount -t overlay -o "lowerdir=$2,upperdir=$1/changes,workdir=$1/work,index=off,metacopy=off$6" overlay "$1/root"
    [ -z "$3" ] || [ -n "$4" ] || find "$1/root" -type d -exec chown "$3:$3" {} +
else
    cp -a "$2/." "$1/root/"
    [ -z "$3" ] || [ -n "$4" ] || chown -Rh "$3:$3" "$1/root"
fi
"""
_USED = """find "$@" -xdev -printf '%b\\n' 2>/dev/null | awk '{ blocks += $1 + 1 } END { printf "%.0f", 512 * blocks }'"""
_DROP = """
umount -l "$1/root" 2>/dev/null || :
umount -l "$1" 2>/dev/null || :
rm -rf --one-file-system "$1"
"""


class Stage:
    """An open namespace. `root`: whether the real root created it."""

    def __init__(self, mount: int, user: int | None, top: int) -> None:
        self._mount, self._user, self.top = mount, user, top

    @property
    def root(self) -> bool:
        return self._user is None

    @property
    def enter(self) -> tuple[str, ...]:
        """The start of an argv that runs the rest inside the namespace.

        It names our descriptors by path, because inherited descriptors would stay open in the code under test.
        """
        mount = f"--mount=/proc/{os.getpid()}/fd/{self._mount}"
        if self._user is None:
            return ("/usr/bin/nsenter", mount, "--")
        return ("/usr/bin/nsenter", f"--user=/proc/{os.getpid()}/fd/{self._user}", mount, "--preserve-credentials", "--")

    async def shell(self, script: str, *arguments: str) -> None:
        """Run one of Selfheal's own short scripts inside. Raises `SandboxUnavailable` with its error output."""
        await self._output(script, arguments, "mount the sandbox's files")

    async def used_bytes(self, folders: Sequence[str]) -> int:
        """Space on disk of folders, of any depth and with any permissions; 512 bytes more for each file and folder.

        Raises `SandboxUnavailable`, also if this takes too long.
        """
        return int(await self._output(_USED, folders, "measure what the sandbox wrote"))

    async def _output(self, script: str, arguments: Sequence[str], purpose: str) -> bytes:
        ended = await launch.run(launch.Launch((*self.enter, "/bin/sh", "-ec", script, "sh", *arguments), PATH, SECONDS))
        if ended.returncode:
            why = f"it took more than {SECONDS:.0f} s" if ended.timed_out else ended.stderr.decode(errors="replace").strip()
            raise SandboxUnavailable(f"cannot {purpose}: {why}")
        return ended.stdout

    async def bind(self, source: Path, name: str) -> str:
        """Bind-mount the host's `source` (file or folder); returns its path inside."""
        target = f"{TOP}/bound/{name}"
        await self.shell('if [ -d "$1" ]; then mkdir -p "$2"; else : > "$2"; fi; mount --bind "$1" "$2"', str(source), target)
        return target

    async def layer(self, home: str, source: str, owner: str, size: int | None = None) -> str:
        """A writable layer over `source`, kept in `home` until `drop`; returns its path inside.

        With a `size` (bytes), the layer is in memory, and `source` must belong to `owner`; otherwise the layer is on disk.
        """
        memory = "" if size is None else str(size)
        # In a user namespace, overlayfs keeps its metadata in attributes that a file's owner may write.
        options = "" if self.root else ",userxattr"
        try:
            await self.shell(LAYER, home, source, owner, memory, "overlay", options)
        except SandboxUnavailable:  # no overlayfs here; a copy takes longer and shares nothing with `source`
            await self.drop(home)
            await self.shell(LAYER, home, source, owner, memory, "copy", "")
        return f"{home}/root"

    async def drop(self, home: str) -> None:
        """Unmount whatever is mounted in a folder, and remove the folder.

        Never raises: on a slow disk, the folder is removed together with the sandbox.
        """
        with suppress(SandboxUnavailable):
            await self.shell(_DROP, home)

    def close(self) -> None:
        for descriptor in (self.top, self._mount, *(() if self._user is None else (self._user,))):
            with suppress(OSError):
                os.close(descriptor)


async def open_stage(folder: Path, binds: Sequence[tuple[Path, str]]) -> Stage:
    """Create the namespace. `binds` are host folders with their names below `TOP`; `folder` is an empty folder of the worker.

    Raises `SandboxUnavailable` if the machine refuses.
    """
    root = os.geteuid() == 0
    flags = ("--mount", "--propagation", "private") if root else ("--user", "--map-root-user", "--mount")
    pairs = [text for source, name in binds for text in (str(source), name)]
    try:
        process = await asyncio.create_subprocess_exec(
            "/usr/bin/unshare",
            *flags,
            "/bin/sh",
            "-c",
            _SET_UP,
            "sh",
            str(folder),
            *pairs,
            env=PATH,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise SandboxUnavailable(f"cannot start unshare (util-linux): {error.strerror}") from error
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    opened: list[int] = []
    try:
        async with asyncio.timeout(SECONDS):
            if await process.stdout.readline() != b"ready\n":
                reason = (await process.stderr.read(4096)).decode(errors="replace").strip()
                raise SandboxUnavailable(f"this machine refuses a private mount namespace ({reason}): {_REMEDY[root]}")
        here = f"/proc/{process.pid}"
        opened.append(os.open(f"{here}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
        opened.append(os.open(f"{here}/root{TOP}", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        user = None if root else os.open(f"{here}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        return Stage(opened[0], user, opened[1])
    except (OSError, TimeoutError) as error:
        for descriptor in opened:
            os.close(descriptor)
        raise SandboxUnavailable(f"cannot enter a private mount namespace: {error}") from error
    finally:
        process.stdin.close()
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
