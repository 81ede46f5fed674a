"""One process tree from start to end: bounded output, a deadline of our own, dead as a whole afterwards.

Knows pipes, signals and time; nothing of bubblewrap or of what the command means.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import IO

from sandbox.base import SandboxUnavailable

CHUNK = 1 << 18


@dataclass(frozen=True, slots=True)
class Ended:
    """How the launched process ended. `returncode` is negative for a signal; `late` when our deadline killed it."""

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool
    late: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: absolute program, whole environment, descriptors to hand down."""

    argv: Sequence[str]
    env: Mapping[str, str]
    timeout: float  # seconds
    stdin: bytes = b""
    output_limit: int = 1 << 20  # bytes per stream
    descriptors: tuple[int, ...] = ()
    cwd: str | None = None
    kill: Callable[[], None] | None = None  # finds and kills what left the process group


class Ends:
    """The first and the last half of a stream; what is between is dropped without being kept."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail: deque[bytes] = deque()
        self._tail_size = self.dropped = 0

    def add(self, chunk: bytes) -> None:
        room = self._half - len(self._head)
        if room > 0:
            self._head += chunk[:room]
            chunk = chunk[room:]
        if chunk:
            self._tail.append(chunk)
            self._tail_size += len(chunk)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            gone = len(self._tail.popleft())
            self._tail_size -= gone
            self.dropped += gone

    def value(self) -> bytes:
        tail = b"".join(self._tail)
        over = max(len(tail) - self._half, 0)
        gone = self.dropped + over
        note = f"\n… {gone} bytes were dropped here …\n".encode() if gone else b""
        return bytes(self._head) + note + tail[over:]

    @property
    def truncated(self) -> bool:
        return self.dropped > 0 or self._tail_size > self._half


async def run(launch: Launch) -> Ended:
    """Start, feed, read, wait, and kill at the deadline or when cancelled. Raises `SandboxUnavailable` if it cannot start.

    Waits on a pidfd and not with asyncio's own process, whose `wait` in some Pythons also waits for every copy of the pipes: a
    child in the background would hold us until the deadline.
    """
    started = time.monotonic()
    out, err = Ends(launch.output_limit), Ends(launch.output_limit)
    with ExitStack() as opened:
        stdin = opened.enter_context(_file_of(launch.stdin)) if launch.stdin else subprocess.DEVNULL
        pipes = [_pipe(opened) for _ in range(2)]
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - returns after the exec, and the waiting is ours
                launch.argv,
                env=dict(launch.env),
                cwd=launch.cwd,
                stdin=stdin,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                pass_fds=launch.descriptors,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxUnavailable(f"{launch.argv[0]} cannot be started: {error.strerror}") from error
        for _, writing in pipes:
            writing.close()
        readers = asyncio.gather(*(_drain(reading, into) for (reading, _), into in zip(pipes, (out, err), strict=True)))
        late = False
        try:
            async with asyncio.timeout(launch.timeout):
                await _exit_of(process)
        except TimeoutError:
            late = True
        finally:
            # Also after an ordinary end: what was left behind in the background dies with its command.
            await asyncio.shield(_end(process, launch, readers))
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return Ended(code, out.value(), err.value(), time.monotonic() - started, out.truncated or err.truncated, late)


async def _exit_of(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    try:
        loop.add_reader(descriptor, gone.set)
        await gone.wait()
        process.poll()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)


async def _end(process: subprocess.Popen[bytes], launch: Launch, readers: asyncio.Future[list[None]]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await asyncio.wait_for(_exit_of(process), 5.0)
    if launch.kill is not None:
        await asyncio.to_thread(launch.kill)
    # The pipes close with the last process that holds them: all of them are dying now.
    with suppress(TimeoutError):
        await asyncio.wait_for(readers, 5.0)


async def _drain(pipe: IO[bytes], into: Ends) -> None:
    stream = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    try:
        while chunk := await stream.read(CHUNK):
            into.add(chunk)
    finally:
        transport.close()


def _pipe(opened: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return opened.enter_context(open(reading, "rb", 0)), opened.enter_context(open(writing, "wb", 0))


def _file_of(content: bytes) -> IO[bytes]:
    """A file without a name, read from its start: nobody has to feed a pipe while the command runs."""
    file = open(os.memfd_create("stdin"), "w+b", 0)  # noqa: SIM115 - the caller's stack closes it
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]
    file.seek(0)
    return file
