"""The rights of the code outside the sandbox, and whether it can gain more."""

from __future__ import annotations

import os
import sys

from .trying import attack, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trying import Outcome, Planted


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
