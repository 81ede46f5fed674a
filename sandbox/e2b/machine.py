"""One E2B machine, through the SDK: renews its lease and survives lost connections."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any, TypeVar

from e2b_code_interpreter import AsyncSandbox, CommandExitException, NotFoundException, SandboxNetworkUpdate

from sandbox.base import SandboxError, SandboxLost
from sandbox.e2b.account import LEASE_SECONDS, kill
from sandbox.e2b.errors import RETRIED, Failure, broken, failure_of
from sandbox.e2b.plan import Account

T = TypeVar("T")
_log = logging.getLogger(__name__)

RENEWED_EVERY = 150.0
OUTPUT_LIMIT = 256 * 1024  # bytes of output; a command of ours with more is killed


class E2BMachine:
    """`sandbox.remote.client.Machine`, and its life cycle. `disk` is the limit that a full disk reports."""

    def __init__(self, account: Account, sandbox: AsyncSandbox, disk: int) -> None:
        self._account, self._sandbox, self._disk = account, sandbox, disk
        self._patience = account.timeouts
        self._silent: float | None = None  # since when no command could be started
        self._ends = time.monotonic() + account.lifetime  # by the plan, whatever the lease

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        async def write() -> None:
            if not isinstance(content, bytes):
                content.seek(0)
            await self._sandbox.files.write(path, content, user="root", use_octet_stream=True, request_timeout=seconds)

        await self._retry(write, seconds)

    async def get(self, path: str, limit: int, seconds: float) -> bytes | None:
        async def read() -> bytes | None:
            reader = await self._sandbox.files.read(path, format="stream", user="root", request_timeout=seconds)
            content = bytearray()
            async with reader:
                async for chunk in reader:
                    content += chunk
                    if len(content) > limit:
                        raise SandboxLost(f"the machine's answer is longer than {limit} bytes")
            return bytes(content)

        try:
            return await self._retry(read, seconds)
        except NotFoundException:
            return None

    async def run(self, script: str, seconds: float) -> bytes:
        """Run a command of ours as root. If the stream is lost, reconnect to the process by its number."""
        output, until = _Output(), time.monotonic() + seconds
        # A kill reaches only `timeout`, so its child must die with it.
        guarded = f"exec timeout -k 5 {int(seconds) + 1} setpriv --pdeathsig KILL {script}"
        starting = partial(
            self._sandbox.commands.run,
            guarded,
            background=True,
            user="root",
            cwd="/",
            timeout=seconds + 10.0,
            request_timeout=self._patience.call,
            on_stdout=output.add,
            retain_output=False,
        )
        opening = asyncio.create_task(self._start(starting, seconds))
        handle: Any = None
        try:
            handle = await asyncio.shield(opening)
            while handle is not None:
                try:
                    async with asyncio.timeout(max(until - time.monotonic(), 0.0) + 10.0):
                        await handle.wait()
                    break
                except CommandExitException:
                    break
                except Exception as error:  # the SDK raises bare `Exception` and transport errors too
                    if output.is_full:
                        raise SandboxLost("a command of ours printed too much") from error
                    if failure_of(error) is not Failure.CONNECTION:
                        raise self._broken(error) from error
                    if time.monotonic() > until:  # perhaps only the stream is dead: the client fetches the answer as a file
                        output.lost = True
                        await self._stop(opening, handle)
                        break
                handle = await self._reconnect(handle.pid, output, until)
        except BaseException:
            await asyncio.shield(self._stop(opening, handle))
            raise
        return output.value

    async def start(self, script: str, env: Mapping[str, str], seconds: float) -> str:
        """Start a process that runs as long as the machine; returns its first line, or its output if it ends."""
        lines: asyncio.Queue[str] = asyncio.Queue()
        try:
            async with asyncio.timeout(seconds):
                handle = await self._sandbox.commands.run(
                    script,
                    background=True,
                    user="root",
                    cwd="/",
                    envs=dict(env),
                    timeout=0,
                    request_timeout=self._patience.call,
                    on_stdout=lines.put_nowait,
                    on_stderr=lines.put_nowait,
                    retain_output=False,
                )
                ending = asyncio.ensure_future(handle.wait())
                try:
                    text = ""
                    while "\n" not in text:
                        reading = asyncio.ensure_future(lines.get())
                        await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
                        if not reading.done():
                            reading.cancel()
                            break
                        text += reading.result()
                finally:
                    ending.cancel()
                    await asyncio.wait((ending,))
                    await handle.disconnect()
        except Exception as error:  # as in `run`
            raise self._broken(error) from error
        return text.strip()

    async def update_network(self, rules: SandboxNetworkUpdate) -> None:
        await self._retry(lambda: self._sandbox.update_network(rules), self._patience.line)

    async def keep(self) -> None:
        """Renew the lease until cancelled, or as long as the plan allows."""
        while True:
            await asyncio.sleep(RENEWED_EVERY)
            if (left := int(self._ends - time.monotonic())) <= 0:
                return
            try:
                async with asyncio.timeout(self._patience.call):
                    await self._sandbox.set_timeout(min(LEASE_SECONDS, left))
            except Exception as error:  # noqa: BLE001 - as in `run`; retried soon, and use shows whether the machine is gone
                _log.warning("could not renew a sandbox lease: %s", error)

    async def kill(self) -> None:
        await kill(self._account, self._sandbox.sandbox_id)

    def _broken(self, error: Exception) -> SandboxError:
        if failure_of(error) is Failure.GONE and time.monotonic() >= self._ends - RENEWED_EVERY:
            return SandboxLost(f"E2B: the machine reached the plan's lifetime of {self._account.lifetime:.0f} s")
        return broken(error, self._disk)

    async def _start(self, starting: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """Start a command once. If the connection is lost before its number is known, return None: the client repeats it."""
        try:
            async with asyncio.timeout(min(seconds, self._patience.call) + 1.0):
                handle = await starting()
        except Exception as error:  # as in `run`
            now = time.monotonic()
            self._silent = self._silent or now
            if failure_of(error) not in (*RETRIED, Failure.LIMITED) or now - self._silent > self._patience.line:
                raise self._broken(error) from error
            # Raises if the machine is gone; the API knows even when the machine itself does not answer.
            await self._retry(self._sandbox.get_info, self._patience.line)
            return None
        self._silent = None
        return handle

    async def _reconnect(self, pid: int, output: _Output, until: float) -> Any:
        """Reconnect to the running command; None if it has ended."""
        output.lost = True

        async def connect() -> Any:
            try:
                return await self._sandbox.commands.connect(
                    pid,
                    timeout=max(until - time.monotonic(), 1.0) + 10.0,
                    request_timeout=self._patience.call,
                    on_stdout=output.add,
                    retain_output=False,
                )
            except NotFoundException as error:
                if failure_of(error) is Failure.MISSING:
                    return None
                raise

        return await self._retry(connect, self._patience.line)

    async def _stop(self, opening: asyncio.Task[Any], handle: Any) -> None:
        """Kill a command whose client is gone."""
        with suppress(SandboxError, asyncio.CancelledError):
            handle = handle or await opening
        if handle is None:
            return
        with suppress(Exception):  # the machine may be gone
            async with asyncio.timeout(self._patience.call):
                await handle.kill()
        with suppress(Exception):  # likewise
            await handle.disconnect()

    async def _retry(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Retry idempotent `work` for `seconds`. Raises `SandboxError`, and `NotFoundException` for a missing file."""
        until, wait = time.monotonic() + seconds, 0.1
        while True:
            try:
                async with asyncio.timeout(max(until - time.monotonic(), 0.1)):
                    return await work()
            except SandboxError:
                raise
            except Exception as error:  # as in `run`
                failure = failure_of(error)
                if failure is Failure.MISSING:
                    raise
                if failure not in (*RETRIED, Failure.LIMITED) or time.monotonic() + wait > until:
                    raise self._broken(error) from error
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


class _Output:
    """Bounded output of a command of ours."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.is_full = self.lost = False

    def add(self, text: str) -> None:
        """Raises `ValueError` above the limit; the SDK then ends the stream and the waiting `run` kills the command."""
        self._size += len(text)
        self.is_full = self._size > OUTPUT_LIMIT
        if self.is_full:
            raise ValueError("too much")
        self._parts.append(text)

    @property
    def value(self) -> bytes:
        """The output; empty if some of it was lost."""
        return b"" if self.lost else "".join(self._parts).encode()
