"""Attacks on the worker's environment variables, files and privileges, which code in the sandbox must not have."""

from __future__ import annotations

import hashlib
import os
import sys

from .trying import attack, content, lines, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .trying import Mark, Outcome, Planted


SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "proc", "sys", "dev", "etc")


@attack
def own_environment(planted: Planted) -> Outcome:
    found = [name for name, value in os.environ.items() if planted["token"] in value or planted["token"] in name]
    return not found, "the worker's variable %s is visible" % found[0] if found else "the worker's canary is not visible"


@attack
def first_environment(planted: Planted) -> Outcome:
    """The code can read the environment of process 1, so whatever started the sandbox must not have passed anything on."""
    try:
        environment = content("/proc/1/environ")
    except PermissionError:
        return True, "/proc/1/environ cannot be read"
    given = [entry.partition(b"=") for entry in environment.split(b"\0") if entry]
    strange = [name.decode("utf-8", "replace") for name, _, value in given if os.environb.get(name) != value]
    if planted["token"].encode() in environment:
        return False, "the worker's environment is in /proc/1/environ"
    return not strange, "process 1 was started with %s" % ", ".join(strange[:5]) if strange else "/proc/1/environ shows nothing"


@attack
def first_process(planted: Planted) -> Outcome:
    """Process 1 starts the supervisor of the tests; who opens its streams or its memory reads requests and writes verdicts."""
    if os.getpid() == 1:
        return False, "the code is process 1 itself"
    for name in ("mem", "fd/0", "fd/1", "fd/2"):
        for way in (os.O_RDONLY, os.O_WRONLY):
            try:
                os.close(os.open("/proc/1/" + name, way))
            except OSError:
                continue
            return False, "/proc/1/%s can be opened" % name
    try:
        found = os.listdir("/proc/1/fd")
    except OSError:
        return True, "neither its memory nor its open files can be reached"
    return False, "its open files can be listed: %s" % ", ".join(found[:5])


@attack
def descriptors(planted: Planted) -> Outcome:
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                found.append("%s (%s)" % (name, os.readlink("/proc/self/fd/" + name)))
            except OSError:
                continue  # the listing itself
    return not found, "the worker passed in open files: " + ", ".join(
        found[:3]
    ) if found else "only the three standard streams are open"


@attack
def files_of_the_worker(planted: Planted) -> Outcome:
    """Tries to read the canary files at their paths outside, also through other roots that may be reachable."""
    if not planted["files"]:
        return None, "the worker has no canary file, because it can neither write nor read its folders"
    for path, mark in planted["files"].items():
        for root in ("", "/proc/1/root", "/proc/%d/root" % os.getppid(), "/mnt", "/oldroot", "/newroot"):
            try:
                found = is_that(mark, root + path)
            except OSError:
                continue
            if found:
                return False, "%s on the worker's machine was read" % path
    for top in os.listdir("/"):
        if top not in SYSTEM:
            for folder, _, names in os.walk("/" + top):
                if any(planted["token"] in name for name in names):
                    return False, "a folder of the worker is visible as %s" % folder
    return True, "none of %d canary files could be read" % len(planted["files"])


def is_that(mark: Mark, path: str) -> bool:
    """Whether this file is the marked file or a copy of it; the same name alone does not count."""
    data, about = content(path), os.stat(path)
    same_content = hashlib.sha256(data).hexdigest() == mark["digest"]
    return same_content or (about.st_dev, about.st_ino) == (mark["device"], mark["inode"])


def mounts() -> Iterator[tuple[str, list[str], str]]:
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        yield words[4], words[5].split(","), words[words.index("-") + 1]


@attack
def system_files(planted: Planted) -> Outcome:
    """Only the repository and temporary folders may be writable, whoever owns the other folders."""
    ours = tuple(planted["writable"])
    # A mount that hides a file of /proc (a device, an empty folder) gives no access to that file.
    kinds = ("proc", "devtmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2")
    home = planted["root"]  # can be inside a mount of its own
    tried = ["/", "/usr", "/etc", "/usr/bin", "/tools", "/dev", "/wheels", "/installer"]
    tried += [folder for folder in (os.path.dirname(sys.argv[0]), "/env") if folder not in ours]
    for where, options, kind in mounts():
        if where != "/" and home.startswith(where + "/"):
            continue
        if "rw" in options and where not in ours and kind not in kinds and not where.startswith(("/proc/", "/dev/")):
            if kind != "tmpfs":
                return False, "%s is mounted writable" % where
            tried.append(where)  # in memory, without anybody's files: test whether it is writable
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
    return not strange, "the machine's devices are visible: " + ", ".join(strange[:5]) if strange else "only harmless devices"


@attack
def root(planted: Planted) -> Outcome:
    if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()):
        return False, "the code runs as root (uid %d, gid %d)" % (os.geteuid(), os.getegid())
    return True, "the code runs as uid %d" % os.geteuid()


@attack
def owner(planted: Planted) -> Outcome:
    """If files of the machine's root appear as the code's own, the code is root outside the sandbox."""
    system, script = os.stat("/usr"), os.stat(sys.argv[0])
    if system.st_uid == os.geteuid():
        return False, "the code owns the system's files, so outside the sandbox it has their owner's uid"
    if system.st_gid == os.getegid():
        return False, "the code's group owns the system's files, so outside the sandbox the code is in that group"
    if planted["other_uid"] and script.st_uid == os.geteuid():
        return False, "the code owns the worker's files: its uid on the host is the worker's"
    return True, "the code owns only files that it created"


@attack
def groups(planted: Planted) -> Outcome:
    found = sorted(set(os.getgroups()) - {os.getegid()})
    return not found, "the code has additional groups: %s" % found if found else "no additional groups"


@attack
def capabilities(planted: Planted) -> Outcome:
    now = status()
    found = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(now.get(name, "0"), 16)]
    return not found, "the code has capabilities (%s)" % ", ".join(found) if found else "none, and none can be gained"


@attack
def new_privileges(planted: Planted) -> Outcome:
    return status().get("NoNewPrivs") == "1", "no_new_privs is %s" % status().get("NoNewPrivs", "unknown")
