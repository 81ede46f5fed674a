"""Memory and process limits for a whole process tree, if a control group (v1 or v2) is available.

A sandbox has one group with its limits, and a child group per command, so that an out-of-memory kill can be attributed to the
command and all its processes can be found.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import Limits

MOUNT = Path("/sys/fs/cgroup")
PREFIX = "selfheal-"


@dataclass(frozen=True, slots=True)
class Group:
    """Folders of one control group: one in v2, one per controller in v1."""

    memory: Path
    pids: Path
    unified: bool

    @property
    def folders(self) -> tuple[Path, ...]:
        return (self.memory,) if self.unified else (self.memory, self.pids)

    def child(self, name: str) -> Group:
        """A group below this one, under the same limits. Raises `OSError`."""
        for folder in self.folders:
            (folder / name).mkdir()
        return Group(self.memory / name, self.pids / name, self.unified)

    def _limit(self, memory: int, processes: int) -> None:
        if self.unified:
            (self.memory / "memory.max").write_text(str(memory))
            with suppress(OSError):  # no swap accounting
                (self.memory / "memory.swap.max").write_text("0")
            (self.memory / "cgroup.subtree_control").write_text("+memory +pids")
        else:
            (self.memory / "memory.limit_in_bytes").write_text(str(memory))
            with suppress(OSError):
                (self.memory / "memory.memsw.limit_in_bytes").write_text(str(memory))
        (self.pids / "pids.max").write_text(str(processes))

    @property
    def join(self) -> tuple[str, ...]:
        """The start of an argv that joins the group and then executes the rest."""
        script = 'for f in "$1" "$2"; do echo $$ > "$f" || exit 125; done; shift 2; exec "$@"'
        return ("/bin/sh", "-c", script, "sh", *(str(folder / "cgroup.procs") for folder in (self.memory, self.pids)))

    def memory_kills(self) -> int:
        """How many of the group's processes were killed for lack of memory."""
        name = "memory.events" if self.unified else "memory.oom_control"
        with suppress(OSError):
            for line in (self.memory / name).read_text().splitlines():
                if line.startswith("oom_kill "):
                    return int(line.split()[1])
        return 0

    def kill(self) -> None:
        """Kill the processes of this group, without those of its children. Does not wait for them to end."""
        for folder in self.folders:
            _kill(folder)

    def remove(self, seconds: float = 2.0) -> None:
        """Kill all processes in this group and its children, and remove them. Blocks; gives up silently after `seconds`."""
        deadline = time.monotonic() + seconds
        while any(folder.exists() for folder in self.folders):
            for folder in self.folders:
                for below in (Path(walked) for walked, _, _ in os.walk(folder, topdown=False)):
                    _kill(below)
                    with suppress(OSError):
                        below.rmdir()
            if time.monotonic() > deadline:
                return
            time.sleep(0.001)


def _kill(folder: Path) -> None:
    with suppress(OSError, ValueError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def make(name: str, limits: Limits, mount: Path = MOUNT, own: str | None = None) -> Group | None:
    """Create the group `selfheal-NAME` below or next to our own; None without permission or controllers.

    It limits all its processes together: their memory (without swap), and the number of processes and threads.
    """
    group = find(name, mount, own)
    if group is None:
        return None
    try:
        for folder in group.folders:
            folder.mkdir()
        group._limit(limits.memory, limits.processes)
    except OSError:
        group.remove(0.0)
        return None
    return group


def find(name: str, mount: Path = MOUNT, own: str | None = None) -> Group | None:
    """The group `selfheal-NAME`, whether or not it exists yet; None without permission or controllers."""
    memberships = _memberships(Path("/proc/self/cgroup").read_text() if own is None else own)
    found = _parents_v1(memberships, mount) or _parent_v2(memberships, mount)
    if found is None:
        return None
    memory, pids, unified = found
    return Group(memory / (PREFIX + name), pids / (PREFIX + name), unified)


def _memberships(text: str) -> dict[str, str]:
    """Controller ("" for v2) → path of our group."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            found[controller] = path.lstrip("/")
    return found


def _parents_v1(memberships: dict[str, str], mount: Path) -> tuple[Path, Path, bool] | None:
    folders = []
    for controller in ("memory", "pids"):
        if controller not in memberships:
            return None
        # In a container, the path may be the one on the host; then the mount's top is our own group.
        here = mount / controller / memberships[controller]
        folders.append(here if here.is_dir() else mount / controller)
    if not all(os.access(folder, os.W_OK) for folder in folders):
        return None
    return folders[0], folders[1], False


def _parent_v2(memberships: dict[str, str], mount: Path) -> tuple[Path, Path, bool] | None:
    """Our group if it delegates its controllers, else its parent (a group with processes cannot delegate)."""
    if "" not in memberships:
        return None
    own = mount / memberships[""]
    for folder in (own, own.parent):
        with suppress(OSError):
            handed_on = (folder / "cgroup.subtree_control").read_text().split()
            if folder.is_relative_to(mount) and {"memory", "pids"} <= set(handed_on) and os.access(folder, os.W_OK):
                return folder, folder, True
    return None
