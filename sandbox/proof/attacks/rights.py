"""Whose rights the code has outside, and whether it can gain more."""

import os
import sys

from selfheal_proof.trying import attack, status


@attack
def root(planted):
    if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()):
        return False, "it is root, uid %d gid %d" % (os.geteuid(), os.getegid())
    return True, "uid %d" % os.geteuid()


@attack
def owner(planted):
    """What belongs to the machine's root must not look as if it were its own: then outside it is root."""
    system, script = os.stat("/usr"), os.stat(sys.argv[0])
    if system.st_uid == os.geteuid():
        return False, "the system's files belong to it: outside it is their owner"
    if system.st_gid == os.getegid():
        return False, "the system's files belong to its group: outside it is in theirs"
    if planted["other_uid"] and script.st_uid == os.geteuid():
        return False, "the worker's files belong to it: outside it has the worker's uid"
    return True, "nothing that it did not make belongs to it"


@attack
def groups(planted):
    found = sorted(set(os.getgroups()) - {os.getegid()})
    return not found, "it has further groups: %s" % found if found else "no further groups"


@attack
def capabilities(planted):
    now = status()
    found = [name for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb") if int(now.get(name, "0"), 16)]
    return not found, "it has capabilities (%s)" % ", ".join(found) if found else "none, and none can be had"


@attack
def new_privileges(planted):
    return status().get("NoNewPrivs") == "1", "no_new_privs is %s" % status().get("NoNewPrivs", "unknown")
