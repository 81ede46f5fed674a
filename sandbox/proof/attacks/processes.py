"""What else runs, and what the kernel tells of the machine."""

import ctypes
import os
import signal

from selfheal_proof.trying import attack, libc, lines, processes_here, told


@attack
def other_processes(planted):
    token, here = planted["token"].encode(), processes_here()
    for name in here:
        for file in ("cmdline", "environ"):
            try:
                if token not in told("/proc/%s/%s" % (name, file)):
                    continue
                os.kill(int(name), 0)
            except PermissionError:
                return False, "another process of the machine is seen"
            except OSError:
                continue
            return False, "another process of the machine is seen, and could be ended"
    return True, "%d processes, all its own" % len(here)


@attack
def kernel_settings(planted):
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
def shared_memory(planted):
    if planted["segment"] is None:
        return None, "no segment could be made outside"
    own = [line.split()[1] for line in lines("/proc/sysvipc/shm")[1:]]
    found = str(planted["segment"]) in own
    return not found, "shared memory of the machine is seen" if found else "shared memory of the machine is out of sight"


@attack
def control_groups(planted):
    """Another root than its own group tells where it is, and so of whom else."""
    paths = {line.split(":", 2)[2] for line in lines("/proc/self/cgroup")}
    strange = sorted(paths - {"/"})
    told_outside = planted["cgroup_namespace"] and os.readlink("/proc/self/ns/cgroup") == planted["cgroup_namespace"]
    if strange:
        return False, "it sees its place among the machine's control groups: %s" % strange[0]
    return not told_outside, "it shares the worker's view of control groups" if told_outside else "it sees its own alone"


@attack
def host_name(planted):
    same = os.uname().nodename == planted["hostname"]
    return not same, "it knows the machine's name" if same else "called %s" % os.uname().nodename[:64]


@attack
def session(planted):
    """A session that began outside is that of somebody's terminal."""
    return os.getsid(0) != 0, "its session began outside" if os.getsid(0) == 0 else "a session of its own"


@attack
def death_with_the_worker(planted):
    """Only where a parent's death is what ends it: an engine's container has an owner of its own."""
    if not planted["dies_with_parent"]:
        return None, "its life is not tied to the worker's process here"
    signal_number = ctypes.c_int()
    if libc().prctl(2, ctypes.byref(signal_number), 0, 0, 0):
        return None, "it cannot be asked"
    return (
        signal_number.value == signal.SIGKILL,
        "dies with its parent" if signal_number.value else "it outlives a killed worker",
    )
