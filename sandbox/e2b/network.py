"""The machine's network access: none, except to the package index while packages are downloaded or built.

E2B filters by name outside the machine. A probe inside verifies that access is closed; a machine that still reaches anything is
killed.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2b_code_interpreter import ALL_TRAFFIC

from sandbox.base import SandboxLost
from sandbox.e2b.machine import E2BMachine
from sandbox.remote import wire

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
    """Access to `hosts`, those of the index ("name:port"), which is closed except during installs."""

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
        """Close it unless an install needs it; candidates have no network in any case."""
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
