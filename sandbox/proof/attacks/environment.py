"""What the worker knows and code must not: its variables, and the files it has open."""

import os

from selfheal_proof.trying import attack, told


@attack
def own_environment(planted):
    found = [name for name, value in os.environ.items() if planted["token"] in value or planted["token"] in name]
    return not found, "the worker's variable %s is there" % found[0] if found else "%d variables of its own" % len(os.environ)


@attack
def first_environment(planted):
    """Of process 1, which the code can read: what started the sandbox must not have told it anything."""
    given = [entry.partition(b"=") for entry in told("/proc/1/environ").split(b"\0") if entry]
    strange = [name.decode("utf-8", "replace") for name, _, value in given if os.environb.get(name) != value]
    if planted["token"].encode() in told("/proc/1/environ"):
        return False, "the worker's environment is in /proc/1/environ"
    return not strange, "process 1 began with %s" % ", ".join(strange[:5]) if strange else "/proc/1/environ tells nothing"


@attack
def descriptors(planted):
    found = []
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                found.append("%s (%s)" % (name, os.readlink("/proc/self/fd/" + name)))
            except OSError:
                continue  # the listing itself
    return not found, "open files of the worker were handed in: " + ", ".join(found[:3]) if found else "only its own three"
