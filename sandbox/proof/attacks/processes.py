"""Other processes, and what the kernel reveals of the machine."""

from __future__ import annotations

import ctypes
import os
import signal

from .trying import attack, content, libc, lines, processes_here

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trying import Outcome, Planted


@attack
def other_processes(planted: Planted) -> Outcome:
    token, here = planted["token"].encode(), processes_here()
    for name in here:
        for file in ("cmdline", "environ"):
            try:
                if token not in content("/proc/%s/%s" % (name, file)):
                    continue
                os.kill(int(name), 0)
            except PermissionError:
                return False, "another process of the machine is visible"
            except OSError:
                continue
            return False, "another process of the machine is visible and can be killed"
    return True, "%d processes, all its own" % len(here)


@attack
def kernel_settings(planted: Planted) -> Outcome:
    for path in (
        "/proc/sys/kernel/core_pattern",
        "/proc/sys/kernel/hostname",
        "/proc/sysrq-trigger",
        "/sys/kernel/uevent_helper",
    ):
        try:
            os.close(os.open(path, os.O_WRONLY))
        except OSError:
            continue
        return False, "%s can be written" % path
    return True, "nothing in /proc/sys can be written"


@attack
def shared_memory(planted: Planted) -> Outcome:
    if planted["segment"] is None:
        return None, "no segment could be created outside"
    own = [line.split()[1] for line in lines("/proc/sysvipc/shm")[1:]]
    found = str(planted["segment"]) in own
    return not found, "shared memory of the machine is visible" if found else "shared memory of the machine is not visible"


@attack
def control_groups(planted: Planted) -> Outcome:
    """A root other than its own group shows where it is, and so who else is there."""
    paths = {line.split(":", 2)[2] for line in lines("/proc/self/cgroup")}
    strange = sorted(paths - {"/"})
    is_shared = bool(planted["cgroup_namespace"]) and os.readlink("/proc/self/ns/cgroup") == planted["cgroup_namespace"]
    if strange:
        return False, "it sees the machine's control groups: %s" % strange[0]
    return not is_shared, "it shares the worker's view of control groups" if is_shared else "it sees only its own"


@attack
def host_name(planted: Planted) -> Outcome:
    same = os.uname().nodename == planted["hostname"]
    return not same, "it knows the machine's name" if same else "called %s" % os.uname().nodename[:64]


@attack
def session(planted: Planted) -> Outcome:
    """A session that began outside is that of somebody's terminal."""
    return os.getsid(0) != 0, "its session was started outside" if os.getsid(0) == 0 else "a session of its own"


@attack
def death_with_the_worker(planted: Planted) -> Outcome:
    """Only if the parent's death ends it: an engine's container has another owner."""
    if not planted["dies_with_parent"]:
        return None, "this kind of sandbox does not end with the worker's process"
    signal_number = ctypes.c_int()
    if libc().prctl(2, ctypes.byref(signal_number), 0, 0, 0):
        return None, "the kernel does not report it"
    return (
        signal_number.value == signal.SIGKILL,
        "dies with its parent" if signal_number.value else "it outlives a killed worker",
    )
