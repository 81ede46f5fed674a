"""Attacks on other processes, on what the kernel reveals about the machine, and on the filter of system calls."""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket

from .trying import attack, content, libc, lines, processes_here, status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

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
                if name == "1":  # the sandbox's own, which nobody may open
                    continue
                return False, "a process outside the sandbox is visible"
            except OSError:
                continue
            return False, "a process outside the sandbox is visible and can be killed"
    return True, "%d processes visible, all in the sandbox" % len(here)


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
        return None, "no shared memory could be created outside the sandbox"
    own = [line.split()[1] for line in lines("/proc/sysvipc/shm")[1:]]
    found = str(planted["segment"]) in own
    return not found, "shared memory of the machine is visible" if found else "shared memory of the machine is not visible"


@attack
def control_groups(planted: Planted) -> Outcome:
    """A path other than "/" reveals where the sandbox's group is on the machine, and so what else runs there."""
    paths = {line.split(":", 2)[2] for line in lines("/proc/self/cgroup")}
    strange = sorted(paths - {"/"})
    is_shared = bool(planted["cgroup_namespace"]) and os.readlink("/proc/self/ns/cgroup") == planted["cgroup_namespace"]
    if strange:
        return False, "the machine's control groups are visible: %s" % strange[0]
    return not is_shared, "the worker's control groups are visible" if is_shared else "only its own control group is visible"


@attack
def host_name(planted: Planted) -> Outcome:
    same = os.uname().nodename == planted["hostname"]
    return not same, "the machine's host name is visible" if same else "the host name is %s" % os.uname().nodename[:64]


@attack
def session(planted: Planted) -> Outcome:
    """A session that began outside the sandbox belongs to somebody's terminal."""
    return os.getsid(0) != 0, "the session began outside the sandbox" if os.getsid(0) == 0 else "the code has its own session"


CLONE_NEWUSER = 0x10000000
# Numbers on x86-64 and aarch64. With these arguments, a kernel that allows the call returns at once and changes nothing. It
# rejects the arguments before it checks for a capability, so EPERM comes from the filter.
CALLS = {
    "keyctl": ((250, 219), (0, -2, 0)),
    "add_key": ((248, 217), (0, 0, 0, 0, 0)),
    "request_key": ((249, 218), (0, 0, 0, 0)),
    "io_uring_setup": ((425, 425), (0, 0)),
    "io_uring_enter": ((426, 426), (-1, 0, 0, 0, 0)),
    "io_uring_register": ((427, 427), (-1, 0, 0, 0)),
    "userfaultfd": ((323, 282), (1,)),
    "ptrace": ((101, 117), (2, 0, 0, 0)),
    "process_vm_readv": ((310, 270), (0, 0, 0, 0, 0, 0)),
    "process_vm_writev": ((311, 271), (0, 0, 0, 0, 0, 0)),
    "perf_event_open": ((298, 241), (0, 0, -1, -1, -1)),
    "bpf": ((321, 280), (1, 0, 0)),
    "mount": ((165, 40), (0, 0, 0, 0, 0)),
    "umount2": ((166, 39), (0, -1)),
    "setns": ((308, 268), (-1, 0)),
    "open_tree": ((428, 428), (-1, 0, 0)),
    "fsconfig": ((431, 431), (-1, 0, 0, 0, 0)),
    "name_to_handle_at": ((303, 264), (-1, 0, 0, 0, 0)),
    "vmsplice": ((278, 75), (-1, 0, 0, 0)),
    "move_pages": ((279, 239), (0, 0, 0, 0, 0, 0)),
    "mbind": ((237, 235), (0, 0, -1, 0, 0, 0)),
}


def call(number: int, *arguments: int) -> int:
    """Errno of one system call, 0 on success. ENOSYS counts as a refusal by the filter."""
    ctypes.set_errno(0)
    done = libc().syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return ctypes.get_errno() if done == -1 else 0


def in_a_child(work: Callable[[], int]) -> int:
    """Exit code of a child that runs `work`, so that its changes end with the child."""
    child = os.fork()
    if not child:
        code = -1
        try:
            code = work()
        finally:  # the child must never continue the attack
            os._exit(code & 0xFF)
    status_word = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status_word) if os.WIFEXITED(status_word) else -1


@attack
def kernel_filter(planted: Planted) -> Outcome:
    return status().get("Seccomp") == "2", "seccomp is in mode %s" % status().get("Seccomp", "unknown")


def capable_first() -> list[str]:
    """Calls that this kernel itself refuses with EPERM for any arguments, which shows nothing about the filter."""
    refused = []
    version = os.uname().release.split("-")[0].split(".")
    if [int(part) for part in version[:2] if part.isdigit()] < [5, 19]:
        refused.append("bpf")
    try:
        if lines("/proc/sys/kernel/io_uring_disabled")[0].strip() != "0":
            refused.append("io_uring_setup")
    except (OSError, IndexError):
        pass
    return refused


@attack
def system_calls(planted: Planted) -> Outcome:
    machine = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
    if machine is None:
        return None, "the system call numbers of %s are not known" % os.uname().machine
    through: list[str] = []
    tried = [name for name in planted["calls"] if name not in capable_first()]
    for name, (numbers, arguments) in CALLS.items():
        if name in tried:
            number = numbers[machine]
            answer = in_a_child(lambda: call(number, *arguments))  # noqa: B023 - called before the next round
            if answer not in (errno.EPERM, errno.ENOSYS):
                through.append(name)
    return not through, "not filtered: %s" % ", ".join(through) if through else "%d system calls refused" % len(tried)


@attack
def user_namespaces(planted: Planted) -> Outcome:
    """A new user namespace would give the code capabilities in it, and access to the most fragile parts of the kernel."""
    clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)

    def by_clone() -> int:
        ctypes.set_errno(0)
        child = libc().syscall(ctypes.c_long(clone), ctypes.c_long(CLONE_NEWUSER | signal.SIGCHLD), 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        return ctypes.get_errno() if child == -1 else 0

    for work in (lambda: 0 if libc().unshare(CLONE_NEWUSER) == 0 else ctypes.get_errno(), by_clone):
        if in_a_child(work) == 0:
            return False, "a new user namespace could be created"
    return True, "no new user namespace could be created"


@attack
def terminal_input(planted: Planted) -> Outcome:
    """TIOCSTI types characters into a terminal; without a terminal, a kernel that allows it answers ENOTTY."""
    done = libc().ioctl(0, ctypes.c_ulong(0x5412), ctypes.c_char_p(b"\0"))
    refused = done == -1 and ctypes.get_errno() == errno.EPERM
    return refused, "TIOCSTI is refused" if refused else "TIOCSTI is not filtered"


@attack
def sockets(planted: Planted) -> Outcome:
    opened = []
    for name, family in (("netlink", 16), ("packet", 17), ("alg", 38), ("vsock", 40), ("bluetooth", 31), ("can", 29)):
        for kind in (socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_STREAM):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            opened.append(name)
            break
    return not opened, "unusual sockets can be opened: %s" % ", ".join(opened) if opened else "only Unix and Internet sockets"
