"""The E2B sandbox: one virtual machine an attempt, where this package's local sandbox runs and is asked by name.

The machine keeps the attempt from this computer and from others; the jail inside it keeps candidates from each other, from
the network and from what serves them, and makes them start as the base at the same path. No token enters.
"""

from __future__ import annotations

import asyncio
import base64
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from sandbox import folders
from sandbox.base import Isolation, Limits, Promise, SandboxLost, SandboxUnavailable
from sandbox.e2b import account as accounts
from sandbox.e2b.admission import Admission
from sandbox.e2b.machine import E2BMachine
from sandbox.e2b.network import E2BWay
from sandbox.e2b.orphans import Orphans
from sandbox.e2b.plan import Account
from sandbox.install.index_access import IndexAccess
from sandbox.install.packages import Shop
from sandbox.remote import wire
from sandbox.remote.asking import Line, RemoteSandbox
from sandbox.remote.bundle import sandbox_bundle

BOOT_SECONDS = 90.0
RETRY_AFTER = 30.0
CODE, CERTIFICATES = f"{wire.HOME}/code", f"{wire.HOME}/certificates.pem"
ISOLATION = Isolation(
    "e2b",
    untrusted=True,
    shortcomings=(
        "the code leaves this computer: it runs on E2B's, under your account there",
        "while packages are downloaded or built, the hosts of the package index can be reached",
    ),
    promises=frozenset(("files", "network", "processes", "disk")),
)


class E2BSandboxes:
    """Opens sandboxes at E2B. `folder` notes which ones workers here hold; `shop` keeps downloads, names the index."""

    isolation = ISOLATION

    def __init__(self, folder: Path, shop: Shop, account: Account) -> None:
        self._folder, self._shop, self._account = folder, shop, account
        self._admission = Admission(account.at_once, account.per_second)
        self._orphans = Orphans(account, folder)

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[RemoteSandbox]:
        limits = limits or Limits()
        await self._orphans.sweep()
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(self._admission.place())
            yield await self._opened(label, limits, closing)

    async def _opened(self, label: str, limits: Limits, closing: AsyncExitStack) -> RemoteSandbox:
        """A machine that is lost before anything was done in it is replaced, once."""
        for _ in range(2):
            async with AsyncExitStack() as trying:
                try:
                    sandbox = await self._start(label, limits, trying)
                except SandboxLost as error:
                    lost = error
                    continue
                closing.push_async_exit(trying.pop_all())
                return sandbox
        raise SandboxUnavailable(f"two machines were lost while they started ({lost})", RETRY_AFTER) from lost

    async def _start(self, label: str, limits: Limits, closing: AsyncExitStack) -> RemoteSandbox:
        holder, _ = await closing.enter_async_context(folders.held(self._folder, label, None))
        metadata = await self._orphans.metadata(holder.path.name, label)
        created = await accounts.create(self._account, label, metadata, self._admission)
        there = E2BMachine(self._account, created, limits.disk)
        closing.push_async_callback(_shielded_kill, there)
        keeping = asyncio.create_task(there.keep())
        closing.callback(keeping.cancel)
        await self._boot(there, label, limits)
        line = Line(there)
        hello, _ = await line.ask({"do": "hello"})
        way = E2BWay(there, self._shop.index.hosts)
        with wire.understood():  # memory is bounded where its kernel has control groups
            memory: tuple[Promise, ...] = ("memory",) if "memory" in hello["promises"] else ()
        isolation = replace(self.isolation, promises=self.isolation.promises.union(memory))
        return RemoteSandbox(line, hello, isolation, way, self._shop.cache / "e2b")

    async def _boot(self, there: E2BMachine, label: str, limits: Limits) -> None:
        """Bring this package over and start what answers."""
        index = self._shop.index
        await there.put(f"{CODE}.zip", sandbox_bundle(), BOOT_SECONDS)
        certificates = await asyncio.to_thread(index.certificates.read_bytes) if index.certificates else b""
        if certificates:
            await there.put(CERTIFICATES, certificates, BOOT_SECONDS)
        told = {
            "label": label,
            "limits": wire.limits_to(limits),
            "urls": list(index.urls),
            "hosts": sorted(index.hosts),
            "certificates": CERTIFICATES if certificates else "",
        }
        python, question = wire.INTERPRETER, base64.b64encode(wire.pack(told)).decode()
        unpacking = shlex.join((python, "-m", "zipfile", "-e", f"{CODE}.zip", CODE))
        serving = shlex.join((python, "-s", "-m", "sandbox.remote.serving", question))
        script = f"mkdir -p {CODE} && {unpacking} && cd {CODE} && exec {serving}"
        said = await there.start(script, _environment(index, CERTIFICATES if certificates else None), BOOT_SECONDS)
        if said != "ready":
            why = said.removeprefix("refused ")[:300] or "no word"
            raise SandboxUnavailable(
                f"the template {self._account.template!r} cannot run a sandbox ({why}); "
                "build it with: python -m deploy.e2b.build"
            )


def _environment(index: IndexAccess, certificates: str | None) -> dict[str, str]:
    """How the package client over there finds the index: addresses without passwords, as `index_access` leaves them."""
    first, *others = index.urls or ("",)
    named = {"PIP_INDEX_URL": first, "PIP_EXTRA_INDEX_URL": " ".join(others), "PIP_CERT": certificates or ""}
    return {name: value for name, value in named.items() if value}


async def _shielded_kill(there: E2BMachine) -> None:
    await asyncio.shield(there.kill())
