"""Runs one process tree: bounded output, a deadline, and a kill of the whole tree at the end."""

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
UMASK = 0o022  # of every program: the worker's own must neither change tests nor hide files from the sandbox's uid


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """How the process ended. `returncode` is negative for a signal; `timed_out` is set if our deadline killed it."""

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    truncated: bool
    timed_out: bool


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start: a program by its absolute path, all environment variables, inherited descriptors."""

    argv: Sequence[str]
    env: Mapping[str, str]
    timeout: float  # seconds
    stdin: bytes = b""
    output_limit: int = 1 << 20  # bytes per stream
    descriptors: tuple[int, ...] = ()
    cwd: str | None = None
    started: Callable[[int], None] | None = None  # gets the process id
    heard: Callable[[bytes], None] | None = None  # gets standard error as it arrives
    kill: Callable[[], None] | None = None  # kills processes that left the process group


class BoundedOutput:
    """Keeps the first and the last half of `limit` bytes of a stream; drops the rest."""

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


async def run(launch: Launch) -> ProcessResult:
    """Run to the end; kill at the deadline or when cancelled. Raises `SandboxUnavailable` if it cannot start.

    Waits on a pidfd. In some Python versions, asyncio's `wait` also waits for every copy of the pipes, so a background child
    would delay the result until the deadline.
    """
    started = time.monotonic()
    out, err = BoundedOutput(launch.output_limit), BoundedOutput(launch.output_limit)
    with ExitStack() as opened:
        stdin = opened.enter_context(_file_of(launch.stdin)) if launch.stdin else subprocess.DEVNULL
        pipes = [_pipe(opened) for _ in range(2)]
        try:
            process = subprocess.Popen(  # noqa: ASYNC220 - returns after the exec; we wait on the pidfd
                launch.argv,
                env=dict(launch.env),
                cwd=launch.cwd,
                stdin=stdin,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                pass_fds=launch.descriptors,
                start_new_session=True,
                umask=UMASK,
            )
        except OSError as error:
            raise SandboxUnavailable(f"{launch.argv[0]} cannot be started: {error.strerror}") from error
        if launch.started is not None:
            launch.started(process.pid)
        for _, writing in pipes:
            writing.close()
        (printed, _), (said, _) = pipes
        readers = asyncio.gather(
            _drain(printed, out.add), _drain(said, err.add, *(() if launch.heard is None else (launch.heard,)))
        )
        timed_out = False
        try:
            async with asyncio.timeout(launch.timeout):
                await _exit_of(process)
        except TimeoutError:
            timed_out = True
        finally:
            # After a normal end too, because background processes must die with their command.
            await asyncio.shield(_end(process, launch, readers))
    code = process.returncode if process.returncode is not None else -signal.SIGKILL
    return ProcessResult(code, out.value(), err.value(), time.monotonic() - started, out.truncated or err.truncated, timed_out)


async def printed(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> str | None:
    """The output of a program run outside any project; None if it cannot be started, fails or exceeds `seconds`."""
    try:
        ended = await run(Launch(argv, env, seconds, cwd="/"))
    except SandboxUnavailable:
        return None
    return ended.stdout.decode(errors="replace").strip() if ended.returncode == 0 and not ended.timed_out else None


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


async def _end(process: subprocess.Popen[bytes], launch: Launch, readers: asyncio.Future[tuple[None, None]]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await asyncio.wait_for(_exit_of(process), 5.0)
    if launch.kill is not None:
        await asyncio.to_thread(launch.kill)
    # The pipes close when the last dying process is gone.
    with suppress(TimeoutError):
        await asyncio.wait_for(readers, 5.0)


async def _drain(pipe: IO[bytes], *into: Callable[[bytes], None]) -> None:
    stream = asyncio.StreamReader(limit=CHUNK)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), pipe)
    try:
        while chunk := await stream.read(CHUNK):
            for take in into:
                take(chunk)
    finally:
        transport.close()


def _pipe(opened: ExitStack) -> tuple[IO[bytes], IO[bytes]]:
    reading, writing = os.pipe()
    return opened.enter_context(open(reading, "rb", 0)), opened.enter_context(open(writing, "wb", 0))


def _file_of(content: bytes) -> IO[bytes]:
    """An anonymous file with `content`. Unlike a pipe, it need not be fed while the command runs."""
    file = open(os.memfd_create("stdin"), "w+b", 0)  # noqa: SIM115 - the caller's stack closes it
    view = memoryview(content)
    while view:
        view = view[file.write(view) :]
    file.seek(0)
    return file
