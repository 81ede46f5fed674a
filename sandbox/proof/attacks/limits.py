"""How much of everything can be had."""

import errno
import os
import resource
import signal
import time

from selfheal_proof.trying import attack

SECONDS_TO_TAKE = 3.0


@attack
def processes(planted):
    bound, children = planted["limits"]["processes"], []
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
    return held, "%d processes at once%s" % (len(children), ", and then no more" if held else ", and no end")


@attack
def file_size(planted):
    bound, path = planted["limits"]["file_size"], os.path.join(planted["root"], ".%s" % planted["token"])
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        os.pwrite(descriptor, b"x", bound)
    except OSError as error:
        return error.errno == errno.EFBIG, "a file ends at %d bytes" % bound
    finally:
        os.close(descriptor)
        os.unlink(path)
        signal.signal(signal.SIGXFSZ, before)
    return False, "a file of more than %d bytes could be written" % bound


@attack
def open_files(planted):
    bound, opened = planted["limits"]["open_files"], []
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


def fill(folder, most):
    """How many bytes fit, up to `most`; what was written is removed."""
    chunk, written, paths = b"\0" * (1 << 20), 0, []
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
def disk(planted):
    """What is written costs the machine memory: the sizes of all places together must have an end."""
    for folder, bound in planted["sizes"].items():
        if os.path.isdir(folder) and os.access(folder, os.W_OK):
            if fill(folder, bound + (9 << 20)) > bound + (8 << 20):
                return False, "more than %d MiB fit into %s" % (bound >> 20, folder)
    return True, "; ".join("%s ends at %d MiB" % (folder, bound >> 20) for folder, bound in planted["sizes"].items())


@attack
def memory(planted):
    """Two processes that together take more than the bound, each less: only a bound on their sum stops them."""
    share, children = planted["limits"]["memory"] * 6 // 10, []
    reading, writing = os.pipe()
    for _ in range(2):
        child = os.fork()
        if not child:
            os.close(writing)
            taken = bytearray(b"x") * share
            os.read(reading, 1)
            os._exit(not taken)
        children.append(child)
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
    if ended[0]:
        return True, "two processes could not have more than %d MiB together" % bound
    return False, "two processes had more than %d MiB together" % bound


@attack
def locked_memory(planted):
    bound = resource.getrlimit(resource.RLIMIT_MEMLOCK)[1]
    held = 0 <= bound <= planted["locked_memory"]
    return held, "%s bytes of memory may be locked" % (bound if bound >= 0 else "all")


@attack
def processor_time(planted):
    bound = resource.getrlimit(resource.RLIMIT_CPU)[1]
    held = bound != resource.RLIM_INFINITY and bound <= planted["limits"]["cpu_seconds"]
    return held, "%s seconds of a processor for each process" % (bound if held else "endless")


@attack
def core_dumps(planted):
    held = resource.getrlimit(resource.RLIMIT_CORE)[1] == 0
    return held, "no core dumps" if held else "a crash may leave its memory on the machine's disk"
