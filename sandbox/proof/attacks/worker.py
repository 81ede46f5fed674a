"""The worker's variables, files and rights, which code must not have."""

from __future__ import annotations

import hashlib
import os
import sys

from .trying import attack, content, lines, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .trying import Mark, Outcome, Planted


@attack
def own_environment(planted: Planted) -> Outcome:
    found = [name for name, value in os.environ.items() if planted["token"] in value or planted["token"] in name]
    return not found, "the worker's variable %s is visible" % found[0] if found else "%d variables of its own" % len(os.environ)


@attack
def first_environment(planted: Planted) -> Outcome:
    """Of process 1, which the code can read: what started the sandbox must not have passed anything on."""
    given = [entry.partition(b"=") for entry in content("/proc/1/environ").split(b"\0") if entry]
    strange = [name.decode("utf-8", "replace") for name, _, value in given if os.environb.get(name) != value]
    if planted["token"].encode() in content("/proc/1/environ"):
        return False, "the worker's environment is in /proc/1/environ"
    return not strange, "process 1 was started with %s" % ", ".join(strange[:5]) if strange else "/proc/1/environ shows nothing"


@attack
def descriptors(planted: Planted) -> Outcome:
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                found.append("%s (%s)" % (name, os.readlink("/proc/self/fd/" + name)))
            except OSError:
                continue  # the listing itself
    return not found, "open files of the worker were passed in: " + ", ".join(
        found[:3]
    ) if found else "only its three standard streams"


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


@attack
def root(planted: Planted) -> Outcome:
    if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()):
        return False, "it is root, uid %d gid %d" % (os.geteuid(), os.getegid())
    return True, "uid %d" % os.geteuid()


@attack
def owner(planted: Planted) -> Outcome:
    """Files of the machine's root must not appear as its own: then outside it is root."""
    system, script = os.stat("/usr"), os.stat(sys.argv[0])
    if system.st_uid == os.geteuid():
        return False, "it owns the system's files: outside it has their owner's uid"
    if system.st_gid == os.getegid():
        return False, "its group owns the system's files: outside it is in that group"
    if planted["other_uid"] and script.st_uid == os.geteuid():
        return False, "it owns the worker's files: outside it has the worker's uid"
    return True, "it owns only files that it created"


@attack
def groups(planted: Planted) -> Outcome:
    found = sorted(set(os.getgroups()) - {os.getegid()})
    return not found, "it has further groups: %s" % found if found else "no further groups"


@attack
def capabilities(planted: Planted) -> Outcome:
    now = status()
    found = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(now.get(name, "0"), 16)]
    return not found, "it has capabilities (%s)" % ", ".join(found) if found else "none, and none can be gained"


@attack
def new_privileges(planted: Planted) -> Outcome:
    return status().get("NoNewPrivs") == "1", "no_new_privs is %s" % status().get("NoNewPrivs", "unknown")
