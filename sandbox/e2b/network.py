"""The machine's way out: none, but to the package index while somebody downloads or builds.

E2B filters outside of the machine, by name. That it is closed is not believed but tried, from inside: a machine that can still
reach anything is not used any more.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from e2b.sandbox.network import ALL_TRAFFIC

from sandbox.base import SandboxLost
from sandbox.e2b.machine import E2BMachine
from sandbox.remote import wire

TRIED = ("1.1.1.1:443", "8.8.8.8:443")  # answer from everywhere, and have no name that would have to be found
PROBE_SECONDS, PROBES = 30.0, 5
# Bytes must come back: a connection alone may have been accepted by the filter itself.
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


class E2BWay:
    """`sandbox.remote.asking.Way`. `hosts` are what the index is made of ("name:port")."""

    def __init__(self, machine: E2BMachine, hosts: frozenset[str]) -> None:
        self._machine, self._hosts = machine, hosts
        self._inside = 0
        self._changing = asyncio.Lock()
        self._is_open = self._is_closed = False  # as far as was seen

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self._inside += 1  # whatever becomes of it, it is left again
        try:
            async with self._changing:
                if not self._is_open:
                    self._is_closed = False  # an update that fails may have been made
                    names = sorted(host.rpartition(":")[0] for host in self._hosts)
                    # An update replaces all rules.
                    await self._machine.update_network({"allow_out": names, "deny_out": [ALL_TRAFFIC]})
                    self._is_open = True
            yield
        finally:
            await asyncio.shield(self._leave())

    async def closed(self) -> None:
        """While somebody installs, commands of candidates run too: they have no network of their own in any case."""
        async with self._changing:
            if not self._inside and not self._is_closed:
                await self._close()

    async def _leave(self) -> None:
        self._inside -= 1
        await self.closed()

    async def _close(self) -> None:
        self._is_open = False
        await self._machine.update_network({"allow_internet_access": False})
        command = shlex.join((wire.INTERPRETER, "-I", "-c", _PROBE, *TRIED, *sorted(self._hosts)))
        for _ in range(PROBES):  # a line that breaks says nothing of the network
            said = (await self._machine.run(command, PROBE_SECONDS)).decode(errors="replace").strip()
            if said == "closed":
                self._is_closed = True
                return
            if said:
                break
        await self._machine.kill()
        raise SandboxLost(f"the network of the sandbox cannot be closed ({said or 'the probe said nothing'})")
