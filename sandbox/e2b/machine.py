"""One machine at E2B, by its SDK: kept alive, and reached through whatever happens on the line."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import IO, Any, TypeVar

from e2b import AsyncSandbox
from e2b.exceptions import NotFoundException
from e2b.sandbox.commands.command_handle import CommandExitException
from e2b.sandbox.sandbox_api import SandboxNetworkUpdate

from sandbox.base import SandboxError, SandboxLost
from sandbox.e2b.account import LEASE_SECONDS, kill
from sandbox.e2b.errors import RETRIED, Trouble, broken, trouble_of
from sandbox.e2b.plan import Account

T = TypeVar("T")
_log = logging.getLogger(__name__)

RENEWED_EVERY = 150.0
SAID = 256 * 1024  # bytes of output kept of a command of ours; one that says more is killed


class E2BMachine:
    """`sandbox.remote.asking.Machine`, and what its owner does with it. `disk` is the bound to name when it is full."""

    def __init__(self, account: Account, sandbox: AsyncSandbox, disk: int) -> None:
        self._account, self._sandbox, self._disk = account, sandbox, disk
        self._patience = account.patience
        self._silent: float | None = None  # since when no command could be started
        self._ends = time.monotonic() + account.lifetime  # by the plan, whatever is asked for

    async def put(self, path: str, content: bytes | IO[bytes], seconds: float) -> None:
        async def write() -> None:
            if not isinstance(content, bytes):
                content.seek(0)
            await self._sandbox.files.write(path, content, user="root", use_octet_stream=True, request_timeout=seconds)

        await self._insist(write, seconds)

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
            return await self._insist(read, seconds)
        except NotFoundException:
            return None

    async def run(self, script: str, seconds: float) -> bytes:
        """A command of ours, as root. When the stream is lost its process goes on, and is found again by its number."""
        told, until = _Said(), time.monotonic() + seconds
        # A kill reaches `timeout` alone: what it waits for must die with it.
        guarded = f"exec timeout -k 5 {int(seconds) + 1} setpriv --pdeathsig KILL {script}"
        starting = partial(
            self._sandbox.commands.run,
            guarded,
            background=True,
            user="root",
            cwd="/",
            timeout=seconds + 10.0,
            request_timeout=self._patience.call,
            on_stdout=told.add,
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
                except Exception as error:
                    if told.over:
                        raise SandboxLost("a command of ours said more than it can") from error
                    if trouble_of(error) is not Trouble.LINE:
                        raise self._broken(error) from error
                    if time.monotonic() > until:  # perhaps only the stream is dead: the asker looks for the answer
                        told.lost = True
                        await self._stop(opening, handle)
                        break
                handle = await self._found_again(handle.pid, told, until)
        except BaseException:
            await asyncio.shield(self._stop(opening, handle))
            raise
        return told.value

    async def start(self, script: str, env: Mapping[str, str], seconds: float) -> str:
        """Start what shall run as long as the machine does; returns its first line, or what it said until it ended."""
        said: asyncio.Queue[str] = asyncio.Queue()
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
                    on_stdout=said.put_nowait,
                    on_stderr=said.put_nowait,
                    retain_output=False,
                )
                ending = asyncio.ensure_future(handle.wait())
                try:
                    text = ""
                    while "\n" not in text:
                        hearing = asyncio.ensure_future(said.get())
                        await asyncio.wait((hearing, ending), return_when=asyncio.FIRST_COMPLETED)
                        if not hearing.done():
                            hearing.cancel()
                            break
                        text += hearing.result()
                finally:
                    ending.cancel()
                    await asyncio.wait((ending,))
                    await handle.disconnect()
        except Exception as error:
            raise self._broken(error) from error
        return text.strip()

    async def update_network(self, rules: SandboxNetworkUpdate) -> None:
        await self._insist(lambda: self._sandbox.update_network(rules), self._patience.line)

    async def keep(self) -> None:
        """Renew the lease for as long as this runs and the plan allows."""
        while True:
            await asyncio.sleep(RENEWED_EVERY)
            if (left := int(self._ends - time.monotonic())) <= 0:
                return
            try:
                async with asyncio.timeout(self._patience.call):
                    await self._sandbox.set_timeout(min(LEASE_SECONDS, left))
            except Exception as error:  # noqa: BLE001 - tried again soon, and a machine that has gone is noticed by its use
                _log.warning("the lease of a sandbox could not be renewed: %s", error)

    async def kill(self) -> None:
        await kill(self._account, self._sandbox.sandbox_id)

    def _broken(self, error: Exception) -> SandboxError:
        if trouble_of(error) is Trouble.GONE and time.monotonic() >= self._ends - RENEWED_EVERY:
            return SandboxLost(f"E2B: the machine's {self._account.lifetime:.0f} s are over, which the plan allows it")
        return broken(error, self._disk)

    async def _start(self, starting: Callable[[], Awaitable[Any]], seconds: float) -> Any:
        """A command is started once; a line that was lost before its number was known is the asker's business."""
        try:
            async with asyncio.timeout(min(seconds, self._patience.call) + 1.0):
                handle = await starting()
        except Exception as error:
            now = time.monotonic()
            self._silent = self._silent or now
            if trouble_of(error) not in (*RETRIED, Trouble.LIMITED) or now - self._silent > self._patience.line:
                raise self._broken(error) from error
            # Raises where the machine is gone; it is asked elsewhere, as what does not answer here may still be there.
            await self._insist(self._sandbox.get_info, self._patience.line)
            return None
        self._silent = None
        return handle

    async def _found_again(self, pid: int, told: _Said, until: float) -> Any:
        """The running command; None when it has ended meanwhile."""
        told.lost = True

        async def connect() -> Any:
            try:
                return await self._sandbox.commands.connect(
                    pid,
                    timeout=max(until - time.monotonic(), 1.0) + 10.0,
                    request_timeout=self._patience.call,
                    on_stdout=told.add,
                    retain_output=False,
                )
            except NotFoundException as error:
                if trouble_of(error) is Trouble.MISSING:
                    return None
                raise

        return await self._insist(connect, self._patience.line)

    async def _stop(self, opening: asyncio.Task[Any], handle: Any) -> None:
        """A command whose asker has gone dies: nobody else would end it."""
        with suppress(SandboxError, asyncio.CancelledError):
            handle = handle or await opening
        if handle is None:
            return
        with suppress(Exception):  # the machine may have gone with it
            async with asyncio.timeout(self._patience.call):
                await handle.kill()
        with suppress(Exception):
            await handle.disconnect()

    async def _insist(self, work: Callable[[], Awaitable[T]], seconds: float) -> T:
        """Do what can be done twice until it succeeds, or `seconds` are over. Raises `SandboxError`; lets a missing file by."""
        until, wait = time.monotonic() + seconds, 0.1
        while True:
            try:
                async with asyncio.timeout(max(until - time.monotonic(), 0.1)):
                    return await work()
            except SandboxError:
                raise
            except Exception as error:
                trouble = trouble_of(error)
                if trouble is Trouble.MISSING:
                    raise
                if trouble not in (*RETRIED, Trouble.LIMITED) or time.monotonic() + wait > until:
                    raise self._broken(error) from error
            await asyncio.sleep(wait)
            wait = min(wait * 2, 5.0)


class _Said:
    """Output of a command of ours, as far as it is kept."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.over = self.lost = False

    def add(self, text: str) -> None:
        """Raises `ValueError` for too much: the SDK then ends the stream, and whoever waits for it kills the command."""
        self._size += len(text)
        self.over = self._size > SAID
        if self.over:
            raise ValueError("too much")
        self._parts.append(text)

    @property
    def value(self) -> bytes:
        """Nothing, where some of it was lost."""
        return b"" if self.lost else "".join(self._parts).encode()
