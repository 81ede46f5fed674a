"""The worker's files, the system's, and its devices."""

from __future__ import annotations

import hashlib
import os
import sys

from .trying import attack, content, lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .trying import Mark, Outcome, Planted


@attack
def files_of_the_worker(planted: Planted) -> Outcome:
    """Canary files by their paths outside, also through every root that is reachable."""
    if not planted["files"]:
        return None, "the worker has no canary file: its folders can be neither written nor read"
    for path, mark in planted["files"].items():
        for root in ("", "/proc/1/root", "/proc/%d/root" % os.getppid(), "/mnt", "/oldroot", "/newroot"):
            try:
                found = is_that(mark, root + path)
            except OSError:
                continue
            if found:
                return False, "%s of the worker's machine was read" % path
    return True, "none of %d canary files could be read" % len(planted["files"])


def is_that(mark: Mark, path: str) -> bool:
    """Whether this file is the marked one, or a copy of it; a file of the same name is neither."""
    data, about = content(path), os.stat(path)
    same_content = hashlib.sha256(data).hexdigest() == mark["digest"]
    return same_content or (about.st_dev, about.st_ino) == (mark["device"], mark["inode"])


def mounts() -> Iterator[tuple[str, list[str], str]]:
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        yield words[4], words[5].split(","), words[words.index("-") + 1]


@attack
def system_files(planted: Planted) -> Outcome:
    """Only the repository and temporary folders are writable, whoever owns the rest."""
    ours = tuple(planted["writable"])
    # A mount that hides a file of /proc (a device, an empty folder) gives no access to that file.
    kinds = ("proc", "devtmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2")
    home = planted["root"]  # can be inside a mount of its own
    tried = ["/", "/usr", "/etc", "/usr/bin", "/tools", os.path.dirname(sys.argv[0]), "/dev", "/env"]
    for where, options, kind in mounts():
        if where != "/" and home.startswith(where + "/"):
            continue
        if "rw" in options and where not in ours and kind not in kinds and not where.startswith(("/proc/", "/dev/")):
            if kind != "tmpfs":
                return False, "%s is mounted writable" % where
            tried.append(where)  # memory without anybody's files: try whether it is writable
    for folder in tried:
        path = os.path.join(folder, ".%s" % planted["token"])
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            continue
        os.unlink(path)
        return False, "a file could be created in %s" % folder
    return True, "the system, the tools and /dev are read-only"


@attack
def devices(planted: Planted) -> Outcome:
    known = "null zero full random urandom tty ptmx pts shm mqueue core fd stdin stdout stderr console".split()
    strange = sorted(name for name in os.listdir("/dev") if name not in known)
    return not strange, "devices of the machine are visible: " + ", ".join(strange[:5]) if strange else "only harmless ones"
