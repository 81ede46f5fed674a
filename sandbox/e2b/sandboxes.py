"""The E2B sandbox: one virtual machine per attempt, in which this package's local sandbox runs as a server.

The machine isolates the attempt from this computer and from other attempts. The jail inside isolates candidates from each
other, from the network and from the server; each starts as a copy of the base at the same path. No token enters the machine.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
from e2b_code_interpreter import AsyncSandbox

from sandbox import folders
from sandbox.base import InstallFailed, Isolation, Limits, Promise, SandboxLost, SandboxUnavailable
from sandbox.e2b import account as accounts
from sandbox.e2b import public_template
from sandbox.e2b.account import Admission, OrphanSweeper
from sandbox.e2b.client import Client, read
from sandbox.e2b.errors import TemplateMissing
from sandbox.e2b.machine import E2BMachine, E2BNetworkGate
from sandbox.e2b.plan import OWN_TEMPLATE, Account
from sandbox.e2b.sandbox import E2BSandbox, PackageSupply
from sandbox.host.bundle import bundle
from sandbox.install.node import npm as node_npm
from sandbox.install.node.npm import Registry
from sandbox.install.package_index import IndexAccess
from sandbox.install.packages import PackageStore
from sandbox.remote import wire

BOOT_SECONDS = 90.0
RETRY_AFTER = 30.0
CODE, CERTIFICATES = f"{wire.HOME}/code", f"{wire.HOME}/certificates.pem"
_HOST = re.compile(r"[A-Za-z0-9.-]+:[0-9]{1,5}")
ISOLATION = Isolation(
    "e2b",
    untrusted=True,
    shortcomings=(
        "the code leaves this computer: it runs at E2B, under your account",
        "while packages are downloaded or built, the package index's hosts are reachable",
    ),
    promises=frozenset(("files", "network", "processes", "disk")),
)


class E2BSandboxes:
    """Opens sandboxes at E2B. `folder` has a locked subfolder per open sandbox; `store` has caches and the package index."""

    isolation = ISOLATION

    def __init__(self, folder: Path, store: PackageStore, account: Account) -> None:
        self._folder, self._store, self._account = folder, store, account
        self._admission = Admission(account.at_once, account.per_second)
        self._orphans = OrphanSweeper(account, folder)
        self._is_public = False  # the account's own template is not built yet

    @asynccontextmanager
    async def open(self, label: str, limits: Limits | None = None) -> AsyncIterator[E2BSandbox]:
        limits = limits or Limits()
        await self._orphans.sweep()
        async with AsyncExitStack() as closing:
            await closing.enter_async_context(self._admission.slot())
            yield await self._opened(label, limits, closing)

    async def _opened(self, label: str, limits: Limits, closing: AsyncExitStack) -> E2BSandbox:
        """Start a machine. If it is lost while it starts, start another one, once."""
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

    async def _start(self, label: str, limits: Limits, closing: AsyncExitStack) -> E2BSandbox:
        holder, _ = await closing.enter_async_context(folders.open_folder(self._folder, label, None))
        metadata = await self._orphans.metadata(holder.path.name, label)
        created = await self._created(label, metadata)
        machine = E2BMachine(self._account, created, limits.disk)
        closing.push_async_callback(_shielded_kill, machine)
        keeping = asyncio.create_task(machine.keep())
        closing.callback(keeping.cancel)
        npm = await asyncio.to_thread(_local_npm)
        if self._is_public:
            await self._prepare(machine, npm.registry)
        hello = await self._boot(machine, label, limits, npm)
        hosts, no_node = self._registry(hello, npm)
        gate = E2BNetworkGate(machine, (await self._store.access()).hosts | hosts)
        # Memory is limited if the machine's kernel has control groups.
        memory: frozenset[Promise] = frozenset(("memory",) if "memory" in hello.promises else ())
        lacking = (public_template.LACKING,) if self._is_public else ()
        isolation = replace(
            self.isolation,
            promises=self.isolation.promises | memory,
            shortcomings=(*self.isolation.shortcomings, *lacking),
        )
        supply = PackageSupply(gate, self._store.cache / "e2b", no_node, self._store.policy.cache)
        return E2BSandbox(Client(machine), hello.root, hello.python, isolation, supply)

    async def _created(self, label: str, metadata: Mapping[str, str]) -> AsyncSandbox:
        """A machine of the account's template, or of the public one if ours is not built. Raises `SandboxUnavailable`."""
        if not self._is_public:
            try:
                return await accounts.create(self._account, label, metadata, self._admission)
            except TemplateMissing:
                if self._account.template != OWN_TEMPLATE:
                    raise
        public = replace(self._account, template=public_template.TEMPLATE)
        created = await accounts.create(public, label, metadata, self._admission)
        self._is_public = True
        return created

    async def _prepare(self, machine: E2BMachine, registry: Registry | None) -> None:
        index = await self._store.access()
        certificates = await self._certificates(machine, index, registry)
        await public_template.prepare(machine, index, _environment(index, registry, certificates))

    async def _certificates(self, machine: E2BMachine, index: IndexAccess, registry: Registry | None) -> str:
        """Upload the certificates of the package index and the registry; returns their path, "" if there are none."""
        files = {index.certificates, registry.certificates if registry else None} - {None}
        content = b"\n".join([await asyncio.to_thread(file.read_bytes) for file in sorted(filter(None, files))])
        if content:
            await machine.put(CERTIFICATES, content, BOOT_SECONDS)
        return CERTIFICATES if content else ""

    def _registry(self, hello: _Hello, here: _Npm) -> tuple[frozenset[str], str]:
        """The npm registry's hosts, or why there are none. If the worker has npm, its configuration applies."""
        if not hello.node:
            template = public_template.TEMPLATE if self._is_public else self._account.template
            return frozenset(), (
                f"the repository needs Node and npm, which E2B's template {template!r} does not have; "
                "rebuild it with: python -m deploy.e2b.build"
            )
        if here.registry is not None or here.trouble:
            return here.registry.hosts if here.registry else frozenset(), here.trouble
        return frozenset(host for host in hello.npm_hosts if _HOST.fullmatch(host)), hello.npm_trouble

    async def _boot(self, machine: E2BMachine, label: str, limits: Limits, npm: _Npm) -> _Hello:
        """Upload this package and start the server; returns its greeting, sent before repository code is on the machine."""
        index, registry = await self._store.access(), npm.registry
        await machine.put(f"{CODE}.zip", sandbox_bundle(), BOOT_SECONDS)
        certificates = await self._certificates(machine, index, registry)
        request = {
            "label": label,
            "limits": limits,
            "downloads": self._store.policy,
            "urls": index.urls,
            "hosts": sorted(index.hosts),
            "certificates": certificates,
            "npm": npm == _Npm(),  # whether to look for npm's registry
        }
        python = wire.INTERPRETER
        unpacking = shlex.join((python, "-m", "zipfile", "-e", f"{CODE}.zip", CODE))
        serving = shlex.join((python, "-s", "-m", "sandbox.remote.server", wire.encode(request)))
        script = f"mkdir -p {CODE} && {unpacking} && cd {CODE} && exec {serving}"
        environment = _environment(index, registry, certificates)
        output = await machine.start(script, environment, BOOT_SECONDS)
        try:
            return read(output, _Hello)
        except (SandboxUnavailable, SandboxLost) as error:
            why = error.reason if isinstance(error, SandboxUnavailable) else output[:300] or "no output"
            raise SandboxUnavailable(
                f"the template {self._account.template!r} cannot run a sandbox ({why}); "
                "build it with: python -m deploy.e2b.build"
            ) from error


class _Hello(msgspec.Struct):
    """The server's greeting. `npm_hosts` are those of the machine's own npm registry."""

    root: str
    python: str
    promises: tuple[str, ...]
    node: bool
    npm_hosts: tuple[str, ...]
    npm_trouble: str


def sandbox_bundle() -> bytes:
    """This package as a zip, without the parts that only the worker uses, whose libraries the machine does not have."""
    return bundle("sandbox", "sandbox", left_here=("e2b", "containers", "proof"))


@dataclass(frozen=True, slots=True)
class _Npm:
    """This computer's npm registry, or why it is not usable; without npm, both are empty."""

    registry: Registry | None = None
    trouble: str = ""


def _local_npm() -> _Npm:
    if not node_npm.is_installed():
        return _Npm()
    try:
        return _Npm(node_npm.configured())
    except InstallFailed as error:
        return _Npm(trouble=error.reason)


def _environment(index: IndexAccess, registry: Registry | None, certificates: str) -> dict[str, str]:
    """Environment variables that name the indexes for the machine's package clients; the URLs have no passwords."""
    first, *others = index.urls or ("",)
    named = {
        "PIP_NO_INDEX": "" if index.urls else "1",  # else pip would ask its default index
        "PIP_INDEX_URL": first,
        "PIP_EXTRA_INDEX_URL": " ".join(others),
        "PIP_CERT": certificates,
        "NPM_CONFIG_REGISTRY": registry.url if registry else "",
        "NODE_EXTRA_CA_CERTS": certificates,
    }
    return {name: value for name, value in named.items() if value}


async def _shielded_kill(machine: E2BMachine) -> None:
    await asyncio.shield(machine.kill())
