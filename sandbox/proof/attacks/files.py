"""The worker's files, the system's, and its devices."""

import hashlib
import os
import sys

from selfheal_proof.trying import attack, lines, told


@attack
def files_of_the_worker(planted):
    """Canary files by their paths outside, also through the roots that are at hand. A digest tells ours from a namesake."""
    for path, digest in planted["files"].items():
        for root in ("", "/proc/1/root", "/proc/%d/root" % os.getppid(), "/mnt", "/oldroot", "/newroot"):
            try:
                same = hashlib.sha256(told(root + path)).hexdigest() == digest
            except OSError:
                continue
            if same:
                return False, "%s of the worker's machine was read" % path
    return True, "none of %d canary files could be read" % len(planted["files"])


def mounts():
    for line in lines("/proc/self/mountinfo"):
        words = line.split(" ")
        yield words[4], words[5].split(","), words[words.index("-") + 1]


@attack
def system_files(planted):
    """Nothing but the repository and what is thrown away may be written, whoever owns it."""
    ours = tuple(planted["writable"])
    # A mask over a file of /proc (a device, an empty folder) is no way to what is below it.
    kinds = ("proc", "devtmpfs", "devpts", "mqueue", "sysfs", "cgroup", "cgroup2")
    home = planted["root"]  # may lie in a place of its own that is mounted
    tried = ["/", "/usr", "/etc", "/usr/bin", "/tools", os.path.dirname(sys.argv[0]), "/dev", "/env"]
    for where, options, kind in mounts():
        if where != "/" and home.startswith(where + "/"):
            continue
        if "rw" in options and where not in ours and kind not in kinds and not where.startswith(("/proc/", "/dev/")):
            if kind != "tmpfs":
                return False, "%s is mounted to be written" % where
            tried.append(where)  # memory, and nobody's files: whose it is decides
    for folder in tried:
        path = os.path.join(folder, ".%s" % planted["token"])
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        except OSError:
            continue
        os.unlink(path)
        return False, "a file could be made in %s" % folder
    return True, "the system, the tools and /dev are read-only"


@attack
def devices(planted):
    known = "null zero full random urandom tty ptmx pts shm mqueue core fd stdin stdout stderr console".split()
    strange = sorted(name for name in os.listdir("/dev") if name not in known)
    return not strange, "devices of the machine are there: " + ", ".join(strange[:5]) if strange else "only harmless ones"
