"""The kernel's corners that nobody needs: the filter of system calls."""

import ctypes
import errno
import os
import signal
import socket

from selfheal_proof.trying import attack, libc, status

CLONE_NEWUSER = 0x10000000
# x86-64, aarch64. Arguments are such that a kernel which lets the call through answers at once, and changes nothing.
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
    "perf_event_open": ((298, 241), (0, 0, -1, -1, 0)),
    "bpf": ((321, 280), (0, 0, 0)),
    "mount": ((165, 40), (0, 0, 0, 0, 0)),
    "umount2": ((166, 39), (0, 0)),
    "setns": ((308, 268), (-1, 0)),
    "open_tree": ((428, 428), (-1, 0, 0)),
    "fsopen": ((430, 430), (0, 0)),
    "fsconfig": ((431, 431), (-1, 0, 0, 0, 0)),
    "name_to_handle_at": ((303, 264), (-1, 0, 0, 0, 0)),
    "vmsplice": ((278, 75), (-1, 0, 0, 0)),
    "move_pages": ((279, 239), (0, 0, 0, 0, 0, 0)),
    "mbind": ((237, 235), (0, 0, -1, 0, 0, 0)),
}


def call(number, *arguments):
    """Errno of one system call, 0 when it was done. ENOSYS counts as an answer of the filter."""
    ctypes.set_errno(0)
    done = libc().syscall(ctypes.c_long(number), *(ctypes.c_long(argument) for argument in arguments))
    return ctypes.get_errno() if done == -1 else 0


def in_a_child(work):
    """Exit code of a child that does `work`: what it changes is gone with it."""
    child = os.fork()
    if not child:
        os._exit(work() & 0xFF)
    status_word = os.waitpid(child, 0)[1]
    return os.WEXITSTATUS(status_word) if os.WIFEXITED(status_word) else -1


@attack
def kernel_filter(planted):
    return status().get("Seccomp") == "2", "seccomp is in mode %s" % status().get("Seccomp", "unknown")


@attack
def system_calls(planted):
    machine = {"x86_64": 0, "aarch64": 1}.get(os.uname().machine)
    if machine is None:
        return None, "numbers of system calls are not known on %s" % os.uname().machine
    through = []
    for name, (numbers, arguments) in CALLS.items():
        if name in planted["calls"]:
            answer = in_a_child(lambda: call(numbers[machine], *arguments))  # noqa: B023 - called before the next round
            if answer not in (errno.EPERM, errno.ENOSYS):
                through.append(name)
    return not through, "the kernel answered %s" % ", ".join(through) if through else "%d calls refused" % len(planted["calls"])


@attack
def user_namespaces(planted):
    """A new one would give it capabilities inside, and the kernel's most fragile corners with them."""
    clone = {"x86_64": 56, "aarch64": 220}.get(os.uname().machine, -1)

    def by_clone():
        ctypes.set_errno(0)
        child = libc().syscall(ctypes.c_long(clone), ctypes.c_long(CLONE_NEWUSER | signal.SIGCHLD), 0, 0, 0, 0)
        if child == 0:
            os._exit(0)
        return ctypes.get_errno() if child == -1 else 0

    for work in (lambda: 0 if libc().unshare(CLONE_NEWUSER) == 0 else ctypes.get_errno(), by_clone):
        if in_a_child(work) == 0:
            return False, "a new user namespace could be made"
    return True, "no new user namespace"


@attack
def terminal_input(planted):
    """TIOCSTI pushes characters into whoever's terminal it is; without a terminal a kernel that allows it says ENOTTY."""
    done = libc().ioctl(0, ctypes.c_ulong(0x5412), ctypes.c_char_p(b"\0"))
    refused = done == -1 and ctypes.get_errno() == errno.EPERM
    return refused, "TIOCSTI is refused" if refused else "TIOCSTI is not filtered"


@attack
def sockets(planted):
    opened = []
    for name, family in (("netlink", 16), ("packet", 17), ("alg", 38), ("vsock", 40), ("bluetooth", 31), ("can", 29)):
        for kind in (socket.SOCK_RAW, socket.SOCK_SEQPACKET, socket.SOCK_DGRAM, socket.SOCK_STREAM):
            try:
                socket.socket(family, kind).close()
            except OSError:
                continue
            opened.append(name)
            break
    return not opened, "sockets of the kind %s can be made" % ", ".join(opened) if opened else "only Unix and Internet sockets"
