"""Attacks on the limits on resources."""

from __future__ import annotations

import errno
import os
import resource
import signal
import time

from .trying import attack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .trying import Outcome, Planted

SECONDS_TO_TAKE = 3.0


@attack
def processes(planted: Planted) -> Outcome:
    bound = planted["limits"]["processes"]
    children: list[int] = []
    reading, writing = os.pipe()
    try:
        while len(children) <= bound:
            try:
                child = os.fork()
            except OSError:
                break
            if not child:
                os.close(writing)
                os.read(reading, 1)
                os._exit(0)
            children.append(child)
    finally:
        os.close(writing)
        for child in children:
            os.waitpid(child, 0)
        os.close(reading)
    held = len(children) < bound
    return held, "%d processes at once%s" % (len(children), ", and no more" if held else ", without reaching a limit")


@attack
def file_size(planted: Planted) -> Outcome:
    bound, path = planted["limits"]["file_size"], os.path.join(planted["root"], ".%s" % planted["token"])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, b"x", bound)
    except OSError as error:
        return error.errno == errno.EFBIG, "a file is limited to %d bytes" % bound
    finally:
        os.close(descriptor)
        os.unlink(path)
        signal.signal(signal.SIGXFSZ, before)
    return False, "a file of more than %d bytes could be written" % bound


@attack
def open_files(planted: Planted) -> Outcome:
    bound = planted["limits"]["open_files"]
    opened: list[int] = []
    try:
        while len(opened) <= bound:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    finally:
        for descriptor in opened:
            os.close(descriptor)
    held = len(opened) <= bound
    return held, "%d files at once" % len(opened) if held else "more than %d files at once" % bound


def fill(folder: str, most: int) -> int:
    """How many bytes fit into `folder`, up to `most`. Removes what it wrote."""
    chunk, written = b"\0" * (1 << 20), 0
    paths: list[str] = []
    try:
        while written < most:
            paths.append(os.path.join(folder, ".%s-%d" % ("fill", len(paths))))
            with open(paths[-1], "wb", 0) as file:
                for _ in range(8):
                    written += file.write(chunk)
    except OSError:
        pass
    finally:
        for path in paths:
            try:
                os.unlink(path)
            except OSError:
                pass
    return written


@attack
def disk(planted: Planted) -> Outcome:
    """Files take up the machine's memory, so the size of every writable folder must be limited."""
    for folder, bound in planted["sizes"].items():
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            if fill(folder, bound + (9 << 20)) > bound + (8 << 20):
                return False, "more than %d MiB fit into %s" % (bound >> 20, folder)
    return True, "; ".join("%s is limited to %d MiB" % (folder, bound >> 20) for folder, bound in planted["sizes"].items())


def take(share: int, reading: int, writing: int) -> int:
    """Take `share` bytes in a child process; returns its exit code. Raises nothing, so the child never continues the attack."""
    try:
        os.close(writing)
        taken = bytearray(b"x") * share
        os.read(reading, 1)
        return int(not taken)
    except BaseException:  # usually MemoryError
        return 1


@attack
def memory(planted: Planted) -> Outcome:
    """Two processes together take more than the limit, and each takes less: only a limit on their sum stops them."""
    share = planted["limits"]["memory"] * 6 // 10
    children: list[int] = []
    reading, writing = os.pipe()
    for _ in range(2):
        child = os.fork()
        if not child:
            os._exit(take(share, reading, writing))
        children.append(child)
    os.close(reading)
    ended = os.waitpid(-1, os.WNOHANG)
    until = time.monotonic() + SECONDS_TO_TAKE
    while not ended[0] and time.monotonic() < until:
        time.sleep(0.01)
        ended = os.waitpid(-1, os.WNOHANG)
    os.close(writing)
    for child in children:
        if child != ended[0]:
            os.waitpid(child, 0)
    bound = planted["limits"]["memory"] >> 20
    if ended[0] and not (os.WIFSIGNALED(ended[1]) and os.WTERMSIG(ended[1]) == signal.SIGKILL):
        return None, "a process ended before it had %d MiB, so the sum was not tested" % (share >> 20)
    if ended[0]:
        return True, "two processes together could not use more than %d MiB" % bound
    return False, "two processes together used more than %d MiB" % bound


@attack
def locked_memory(planted: Planted) -> Outcome:
    bound = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    held = 0 <= bound <= planted["locked_memory"]
    return held, "%s bytes of memory can be locked" % (bound if bound >= 0 else "unlimited")


@attack
def processor_time(planted: Planted) -> Outcome:
    bound = resource.getrlimit(resource.RLIMIT_CPU)[1]
    held = bound != resource.RLIM_INFINITY and bound <= planted["limits"]["cpu_seconds"]
    return held, "%s CPU seconds per process" % (bound if held else "unlimited")


@attack
def core_dumps(planted: Planted) -> Outcome:
    held = resource.getrlimit(resource.RLIMIT_CORE)[1] == 0
    return held, "no core dumps" if held else "a crash can write memory to the machine's disk"
