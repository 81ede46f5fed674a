"""The E2B sandbox: one virtual machine an attempt, where this package's local sandbox runs and is asked by name.

The machine keeps the attempt from this computer and from others; the jail inside it keeps candidates from each other, from
the network and from what serves them, and makes them start as the base at the same path. No token enters.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sandbox import folders
from sandbox.base import InstallFailed, Isolation, Limits, Promise, SandboxLost, SandboxUnavailable
from sandbox.e2b import account as accounts
from sandbox.e2b.admission import Admission
from sandbox.e2b.machine import E2BMachine
from sandbox.e2b.network import E2BWay
from sandbox.e2b.orphans import Orphans
from sandbox.e2b.plan import Account
from sandbox.install.index.access import IndexAccess
from sandbox.install.node import registry as npm_registry
from sandbox.install.node.registry import Registry
from sandbox.install.packages import Shop
from sandbox.remote import wire
from sandbox.remote.client import Line, RemoteSandbox, Supply
from sandbox.remote.code_bundle import sandbox_bundle
from sandbox.remote.wire import Head

BOOT_SECONDS = 90.0
RETRY_AFTER = 30.0
CODE, CERTIFICATES = f"{wire.HOME}/code", f"{wire.HOME}/certificates.pem"
_HOST = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}")
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
        npm = await asyncio.to_thread(_npm_here)
        await self._boot(there, label, limits, npm.registry)
        line = Line(there)
        hello, _ = await line.ask({"do": "hello"})
        hosts, no_node = await self._npm(line, hello, npm)
        supply = Supply(E2BWay(there, (await self._shop.access()).hosts | hosts), self._shop.cache / "e2b", no_node)
        with wire.understood():  # memory is bounded where its kernel has control groups
            memory: tuple[Promise, ...] = ("memory",) if "memory" in hello["promises"] else ()
        isolation = replace(self.isolation, promises=self.isolation.promises.union(memory))
        return RemoteSandbox(line, hello, isolation, supply)

    async def _npm(self, line: Line, hello: Head, here: _Npm) -> tuple[frozenset[str], str]:
        """The hosts of npm's registry, or why nothing of it can be had. The worker's configuration counts, if it has npm; the
        machine is asked while nothing of a repository is in it."""
        if not hello.get("node"):
            template = self._account.template
            return frozenset(), (
                f"the repository needs Node and npm, which E2B's template {template!r} does not have; "
                "build it anew with: python -m deploy.e2b.build"
            )
        if here.registry is not None or here.trouble:
            return here.registry.hosts if here.registry else frozenset(), here.trouble
        try:
            told, _ = await line.ask({"do": "registry"})
        except InstallFailed as error:
            return frozenset(), error.reason
        with wire.understood():
            return frozenset(host for host in told["hosts"] if _HOST.fullmatch(host)), ""

    async def _boot(self, there: E2BMachine, label: str, limits: Limits, registry: Registry | None) -> None:
        """Bring this package over and start what answers."""
        index = await self._shop.access()
        await there.put(f"{CODE}.zip", sandbox_bundle(), BOOT_SECONDS)
        files = {index.certificates, registry.certificates if registry else None} - {None}
        certificates = b"\n".join([await asyncio.to_thread(file.read_bytes) for file in sorted(filter(None, files))])
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
        environment = _environment(index, registry, CERTIFICATES if certificates else "")
        said = await there.start(script, environment, BOOT_SECONDS)
        if said != "ready":
            why = said.removeprefix("refused ")[:300] or "no word"
            raise SandboxUnavailable(
                f"the template {self._account.template!r} cannot run a sandbox ({why}); "
                "build it with: python -m deploy.e2b.build"
            )


@dataclass(frozen=True, slots=True)
class _Npm:
    """What this computer's npm says: which registry, or why none may be used. Neither where there is no npm here."""

    registry: Registry | None = None
    trouble: str = ""


def _npm_here() -> _Npm:
    if not npm_registry.is_there():
        return _Npm()
    try:
        return _Npm(npm_registry.configured())
    except InstallFailed as error:
        return _Npm(trouble=error.reason)


def _environment(index: IndexAccess, registry: Registry | None, certificates: str) -> dict[str, str]:
    """How the package clients over there find their indexes: addresses without passwords, as they are read here."""
    first, *others = index.urls or ("",)
    named = {
        "PIP_INDEX_URL": first,
        "PIP_EXTRA_INDEX_URL": " ".join(others),
        "PIP_CERT": certificates,
        "NPM_CONFIG_REGISTRY": registry.url if registry else "",
        "NODE_EXTRA_CA_CERTS": certificates,
    }
    return {name: value for name, value in named.items() if value}


async def _shielded_kill(there: E2BMachine) -> None:
    await asyncio.shield(there.kill())
