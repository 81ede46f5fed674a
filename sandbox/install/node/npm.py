"""The install step for Node: fills a folder's `node_modules` from the registry, without running package scripts.

The registry comes from this machine's npm configuration; a repository's `.npmrc` is never read. npm runs in the sandbox and
sees only the repository's manifests and lock; its proxy reaches the registry and nothing else. The result is copied into the
repository's folder, where its code may change it. If it contains all that the lock names, it is cached too (`environments`).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from sandbox.base import Completed, DeadlinePassed, InstallFailed
from sandbox.install import folder_cache
from sandbox.install.backend import CERTIFICATES, RECIPE_FOLDER, InstallBackend
from sandbox.install.node import manifests, scripts
from sandbox.install.node.manifests import Project
from sandbox.install.node.scripts import NpmResult
from sandbox.install.package_index import host_of, proxied
from sandbox.install.python import environments

SECONDS = 30.0
_UNCONFIGURED = ("--userconfig=/nowhere/user", "--globalconfig=/nowhere/global")
CERTIFICATE_VARIABLES = ("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE")


@dataclass(frozen=True, slots=True)
class Registry:
    """`url` is the registry for npm in the sandbox; `hosts` ("name:port") are the hosts that its proxy reaches.

    `named` are the hosts that a lock may name: npm takes its own default registry in a lock to mean the configured one.
    """

    node: str  # version, as is `npm`
    npm: str
    url: str
    hosts: frozenset[str]
    named: frozenset[str]
    certificates: Path | None = None


def is_installed() -> bool:
    """Whether this machine has Node and npm."""
    return shutil.which("node") is not None and shutil.which("npm") is not None


@cache
def configured() -> Registry:
    """The registry in this machine's npm configuration. Raises `InstallFailed` without npm or a usable registry."""
    if not is_installed():
        raise InstallFailed("the repository needs Node and npm, which are not installed on this machine")
    url = _output_of("npm", "config", "get", "registry")
    if not url.startswith(("http://", "https://")) or "@" in url:
        raise InstallFailed("npm is configured with a registry that needs a password or is not http(s)")
    bare = {name: value for name, value in os.environ.items() if not name.lower().startswith("npm_config_")}
    default = _output_of("npm", "config", "get", "registry", *_UNCONFIGURED, env=bare)
    paths = [Path(os.environ[name]) for name in CERTIFICATE_VARIABLES if os.environ.get(name)]
    certificates = next((path for path in paths if path.is_file()), None)
    hosts = frozenset((host_of(url),))
    named = hosts | {host_of(default)}
    return Registry(_output_of("node", "--version"), _output_of("npm", "--version"), url, hosts, named, certificates)


def _output_of(*argv: str, env: Mapping[str, str] | None = None) -> str:
    # Run outside any project, so that no project's `.npmrc` applies.
    try:
        ended = subprocess.run(argv, cwd="/", env=env, capture_output=True, timeout=SECONDS, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallFailed(f"`{' '.join(argv)}` failed on this machine: {error}") from error
    return ended.stdout.decode(errors="replace").strip()


Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Completed]]
FORM = 3  # increment when the same manifests would give a different result
FRESH_SECONDS = 86_400.0  # age at which a result without a lock is refreshed
PROJECT, SHOWN = "project", "/made"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`version` of Node.js ("22") for npm's scripts; `day` after which no package is taken if there is no lock. "": any."""

    version: str = ""
    day: str = ""


@dataclass(frozen=True, slots=True)
class NodeRecipe:
    """Everything that determines `node_modules`."""

    registry: Registry
    project: Project
    wanted: Wanted = Wanted()

    @property
    def day(self) -> str:
        return "" if self.project.locked else self.wanted.day

    @property
    def how(self) -> str:
        """The third argument of `scripts.MAKE`."""
        return "locked" if self.project.locked else self.day or "free"

    @property
    def key(self) -> str:
        registry = self.registry
        here = (FORM, platform.machine(), registry.node, registry.npm, registry.url, self.how, self.wanted.version)
        return hashlib.sha256(repr((here, sorted(self.project.files.items()))).encode()).hexdigest()[:32]

    def write(self, folder: Path) -> None:
        for name, text in self.project.files.items():
            path = folder / PROJECT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


async def install(
    folders: Sequence[str],
    backend: InstallBackend,
    cache: Path,
    python: str,
    bound: int | None = None,
    wanted: Wanted = Wanted(),
) -> tuple[str, ...]:
    """Fill each folder's `node_modules`; returns notes for people. Raises `InstallFailed`, `SandboxError`.

    `python`, a path in the sandbox, runs the forwarder; `cache` keeps results, up to `bound` (as in `folder_cache.keep`).
    """
    registry = await asyncio.to_thread(configured)
    notes: list[str] = []
    for folder in folders:
        project = await manifests.read(folder, backend.read, registry.named)
        notes += project.notes
        if any(manifests.MANIFEST in name for name in project.files):
            installer = NpmInstaller(backend, NodeRecipe(registry, project, wanted), python)
            notes += await _install(folder, installer, cache, bound)
    return tuple(notes)


async def _install(folder: str, installer: NpmInstaller, cache: Path, bound: int | None) -> tuple[str, ...]:
    backend, recipe = installer.backend, installer.recipe
    if (shared_environments := backend.shared_environments) is None:  # untrusted code could write to shared environments
        with tempfile.TemporaryDirectory() as made:
            await asyncio.to_thread(os.chmod, made, 0o755)
            await asyncio.to_thread(recipe.write, Path(made))
            if not await installer.run(
                backend.run_installer, scripts.ALONE, await backend.show(Path(made), RECIPE_FOLDER), folder or "."
            ):
                raise installer.failed()
        return installer.notes

    async def make(made: Path) -> bool:
        return await installer.run(partial(shared_environments.prepare, made), scripts.MAKE, RECIPE_FOLDER, backend.env)

    since = None if recipe.how != "free" else time.time() - FRESH_SECONDS
    entry = await environments.prepared(cache, recipe, make, bound=bound, since=since, lasts=lambda: installer.made.is_complete)
    if entry is None:
        raise installer.failed()
    try:
        await _copy(entry.folder / environments.TREE, folder, backend)
    finally:
        await asyncio.shield(asyncio.to_thread(folder_cache.release, entry))
    return installer.notes


class NpmInstaller:
    """Runs npm for a recipe; keeps its last result."""

    def __init__(self, backend: InstallBackend, recipe: NodeRecipe, python: str) -> None:
        self.backend, self.recipe, self._python = backend, recipe, python
        self._result: Completed | None = None
        self.made = NpmResult()

    async def run(self, start: Start, script: str, asked: str, target: str) -> bool:
        """Run `script` on the recipe's files at `asked`, a path in the sandbox, and on `target`. Raises `InstallFailed`."""
        registry, backend = self.recipe.registry, self.backend
        argv = ["/bin/sh", "-c", script, "sh", asked, target, self.recipe.how, *scripts.OPTIONS, f"--registry={registry.url}"]
        env = {"WANTED_NODE": self.recipe.wanted.version}
        if registry.certificates is not None:
            env["NODE_EXTRA_CA_CERTS"] = await backend.show(registry.certificates, CERTIFICATES)
        async with proxied(backend, registry.hosts, self._python, argv) as command:
            try:
                self._result = await start(command, env)
            except DeadlinePassed as late:
                raise InstallFailed(f"npm took longer than {late.seconds:.0f} s", _text(late.stdout, late.stderr)) from late
        self.made = scripts.parse_result(self._result.stdout.decode(errors="replace"))
        return self._result.exit_code == 0

    @property
    def notes(self) -> tuple[str, ...]:
        """How the result differs from the request; a cached result is complete."""
        is_fresh = self._result is not None and not self._result.exit_code
        return (self.made if is_fresh else NpmResult(strict=True, dated=self.recipe.day)).notes

    def failed(self) -> InstallFailed:
        text = "" if self._result is None else _text(self._result.stdout, self._result.stderr)
        lines = [line.removeprefix("npm error").strip() for line in text.splitlines() if line.startswith("npm error")]
        error = next((line for line in lines if line and not line.startswith("code ")), "npm gave no reason")
        return InstallFailed(f"npm could not install the dependencies: {error[:300]}", text)


async def _copy(tree: Path, folder: str, backend: InstallBackend) -> None:
    source = await backend.show(tree, SHOWN)
    ended = await backend.run_installer(["/bin/sh", "-c", scripts.COPY, "sh", source, folder or "."], {})
    if ended.exit_code:
        raise InstallFailed("cannot copy the packages that npm installed", _text(ended.stdout, ended.stderr))


def _text(*parts: bytes) -> str:
    return b"".join(parts).decode(errors="replace")
