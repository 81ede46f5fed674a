"""The local sandbox's kernel filter: the system calls that code inside may never make.

A deny list on top of namespaces and dropped capabilities: calls that widen the kernel's attack surface (key rings, io_uring,
BPF, userfaultfd, new namespaces and mounts, tracing), unusual socket families, and injecting characters into a terminal.
"""

from __future__ import annotations

import errno
import tempfile
from functools import cache

DENIED = (
    "add_key", "keyctl", "request_key", "bpf", "perf_event_open", "userfaultfd",
    "io_uring_setup", "io_uring_enter", "io_uring_register",
    "mount", "umount2", "pivot_root", "chroot", "unshare", "setns", "open_tree", "move_mount",
    "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr",
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff",
    "acct", "quotactl", "syslog", "ptrace", "process_vm_readv", "process_vm_writev", "modify_ldt",
    "name_to_handle_at", "open_by_handle_at", "lookup_dcookie", "iopl", "ioperm",
    "move_pages", "mbind", "migrate_pages", "vmsplice", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "pidfd_getfd",
)  # fmt: skip
CLONE_NEWUSER = 0x10000000
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SOCKETS = (1, 2, 10)  # AF_UNIX, AF_INET, AF_INET6


@cache
def program() -> bytes:
    """The filter as BPF, for `bwrap --seccomp`. It kills code that makes calls of a foreign architecture (32-bit calls).

    Raises `ImportError` or `RuntimeError` if libseccomp is missing; nothing may run without the filter.
    """
    import pyseccomp  # loads libseccomp; only worker processes that open a local sandbox need it

    rules = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
    refused = pyseccomp.ERRNO(errno.EPERM)
    for name in DENIED:
        try:
            rules.add_rule(refused, name)
        except (OSError, ValueError):  # unknown to this architecture or libseccomp
            continue
    flags = pyseccomp.Arg(0, pyseccomp.MASKED_EQ, CLONE_NEWUSER, CLONE_NEWUSER)
    rules.add_rule(refused, "clone", flags)
    # A filter cannot see clone3's flags, which are behind a pointer; on ENOSYS libc falls back to clone.
    rules.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")
    for request in (TIOCSTI, TIOCLINUX):
        rules.add_rule(refused, "ioctl", pyseccomp.Arg(1, pyseccomp.MASKED_EQ, 0xFFFFFFFF, request))
    # libseccomp has no "none of these": refuse each gap between the allowed families.
    unsupported = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in range(SOCKETS[-1]):
        if family not in SOCKETS:
            rules.add_rule(unsupported, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    rules.add_rule(unsupported, "socket", pyseccomp.Arg(0, pyseccomp.GT, SOCKETS[-1]))
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()
