"""One E2B machine, through the SDK: renews its lease, survives lost connections, and has no network except during installs.

E2B filters network access by host name, outside the machine. A probe inside the machine verifies that access is closed; a
machine that can still reach anything is killed.
"""

from __future__ import annotations

import asyncio
import logging
import shlex
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, TypeVar

from e2b_code_interpreter import ALL_TRAFFIC, AsyncSandbox, CommandExitException, NotFoundException, SandboxNetworkUpdate

from sandbox.base import SandboxError, SandboxLost
from sandbox.e2b.account import LEASE_SECONDS, kill
from sandbox.e2b.errors import RETRIED, Failure, broken, failure_of
from sandbox.e2b.plan import Account
from sandbox.remote import wire

T = TypeVar("T")
_log = logging.getLogger(__name__)

RENEWED_EVERY = 150.0
OUTPUT_LIMIT = 256 * 1024  # bytes; one of Selfheal's own commands is killed if it prints more


class E2BMachine:
    """One machine. `disk` is the limit that is reported if its disk is full."""

    def __init__(self, account: Account, sandbox: AsyncSandbox, disk: int) -> None:
        self._account, self._sandbox, self._disk = account, sandbox, disk
        self._patience = account.timeouts
        self._silent: float | None = None  # when the connection began to fail
        self._ends = time.monotonic() + account.lifetime  # when the plan ends the machine, regardless of its lease

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

    async def run(self, script: str, seconds: float) -> str:
        """Run one of Selfheal's own short commands as root; returns its output until it ended or the connection was lost."""
        output = _Output()
        # A kill reaches only `timeout`, so its child must die with it.
        guarded = f"exec timeout -k 5 {int(seconds) + 1} setpriv --pdeathsig KILL {script}"
        handle: Any = None
        try:
            async with asyncio.timeout(min(seconds, self._patience.call) + 1.0):
                handle = await self._sandbox.commands.run(
                    guarded,
                    background=True,
                    user="root",
                    cwd="/",
                    timeout=seconds + 10.0,
                    request_timeout=self._patience.call,
                    on_stdout=output.add,
                    retain_output=False,
                )
            self._silent = None
            async with asyncio.timeout(seconds + 10.0):
                await handle.wait()
        except CommandExitException:
            pass
        except BaseException as error:  # also a cancellation; the SDK raises bare `Exception` and transport errors too
            if handle is not None:
                await asyncio.shield(_kill(handle))
            if not isinstance(error, Exception):
                raise
            if output.is_full:
                raise SandboxLost("one of Selfheal's own commands printed too much") from error
            await self._wait_for_connection(error)
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
            except Exception as error:  # noqa: BLE001 - as in `run`; retried soon, and requests show if the machine is gone
                _log.warning("could not extend the lifetime of an E2B machine: %s", error)

    async def kill(self) -> None:
        await kill(self._account, self._sandbox.sandbox_id)

    def _broken(self, error: Exception) -> SandboxError:
        if failure_of(error) is Failure.GONE and time.monotonic() >= self._ends - RENEWED_EVERY:
            return SandboxLost(f"E2B: the machine reached the plan's lifetime of {self._account.lifetime:.0f} s")
        return broken(error, self._disk)

    async def _wait_for_connection(self, error: Exception) -> None:
        """Raises `SandboxError` if `error` is not a lost connection, the machine is gone, or commands failed for too long."""
        now = time.monotonic()
        self._silent = self._silent or now
        if failure_of(error) not in (*RETRIED, Failure.LIMITED) or now - self._silent > self._patience.line:
            raise self._broken(error) from error
        # The API knows whether the machine is gone even when the machine itself does not answer.
        await self._retry(self._sandbox.get_info, self._patience.line)

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


async def _kill(handle: Any) -> None:
    """Kill a command that nobody waits for."""
    for end in (handle.kill, handle.disconnect):
        with suppress(Exception):  # the machine may be gone
            async with asyncio.timeout(5.0):
                await end()


class _Output:
    """Bounded output of one of Selfheal's own commands."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._size = 0
        self.is_full = False

    def add(self, text: str) -> None:
        """Raises `ValueError` above the limit; the SDK then ends the stream and the waiting `run` kills the command."""
        self._size += len(text)
        self.is_full = self._size > OUTPUT_LIMIT
        if self.is_full:
            raise ValueError("too much output")
        self._parts.append(text)

    @property
    def value(self) -> str:
        return "".join(self._parts)


TRIED = ("1.1.1.1:443", "8.8.8.8:443")  # reachable from everywhere, without name resolution
PROBE_SECONDS, PROBES = 30.0, 5
# Wait for bytes: the filter itself may accept a connection.
_PROBE = """
import socket, ssl, sys, threading
reached = []
def probe(host, port):
    try:
        with socket.create_connection((host, int(port)), 3) as plain:
            plain.settimeout(3)
            if port == "443":
                context = ssl._create_unverified_context()
                with context.wrap_socket(plain, server_hostname=host):
                    reached.append(host)
            else:
                plain.sendall(b"HEAD / HTTP/1.0\\r\\n\\r\\n")
                if plain.recv(1):
                    reached.append(host)
    except OSError:
        pass
threads = [threading.Thread(target=probe, args=place.rsplit(":", 1)) for place in sys.argv[1:]]
for each in threads: each.start()
for each in threads: each.join()
print("reached", *reached) if reached else print("closed")
"""


class E2BNetworkGate:
    """Network access to `hosts` (the package index's, "name:port"), which is closed except during installs."""

    def __init__(self, machine: E2BMachine, hosts: frozenset[str]) -> None:
        self._machine, self._hosts = machine, hosts
        self._users = 0
        self._changing = asyncio.Lock()
        self._is_open = self._is_closed = False  # last known state

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self._users += 1  # decremented in any case
        try:
            async with self._changing:
                if not self._is_open:
                    self._is_closed = False  # a failed update may have been applied
                    names = sorted(host.rpartition(":")[0] for host in self._hosts)
                    # An update replaces all rules.
                    await self._machine.update_network({"allow_out": names, "deny_out": [ALL_TRAFFIC]})
                    self._is_open = True
            yield
        finally:
            await asyncio.shield(self._leave())

    async def closed(self) -> None:
        """Close the network access unless an install needs it; candidates never have network access."""
        async with self._changing:
            if not self._users and not self._is_closed:
                await self._close()

    async def _leave(self) -> None:
        self._users -= 1
        await self.closed()

    async def _close(self) -> None:
        self._is_open = False
        await self._machine.update_network({"allow_internet_access": False})
        command = shlex.join((wire.INTERPRETER, "-I", "-c", _PROBE, *TRIED, *sorted(self._hosts)))
        for _ in range(PROBES):  # a lost connection says nothing about the network
            output = (await self._machine.run(command, PROBE_SECONDS)).strip()
            if output == "closed":
                self._is_closed = True
                return
            if output:
                break
        await self._machine.kill()
        raise SandboxLost(f"cannot close the sandbox's network ({output or 'no output from the probe'})")
