"""The worker's environment variables and open files, which code must not see."""

from __future__ import annotations

import os

from .trying import attack, content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trying import Outcome, Planted


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
