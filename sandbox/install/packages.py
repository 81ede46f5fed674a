"""The install step: installs a repository's dependencies into a virtual environment that its code can only read.

1. Outside the sandbox: download wheels of the repository's requirements into a cache (`wheels`). This executes no code.
2. In a sandbox without network and repository: install the wheels into an environment that is cached for reuse
   (`environments`). Often this is enough.
3. In the sandbox, still without network: build and install the repository's own projects on top, using only these wheels.
4. Only if that fails: repeat step 3 with access to the configured package index and nothing else (`package_index`).
5. Install Node packages (`npm`).
6. Fetch crates and Go modules (`sources`).
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from sandbox.base import Completed, DeadlinePassed, Installed, InstallFailed, Packages
from sandbox.install import folder_cache
from sandbox.install.backend import CERTIFICATES, RECIPE_FOLDER, InstallBackend, SharedEnvironments
from sandbox.install.download import DownloadPolicy, IndexStrategy
from sandbox.install.node import npm
from sandbox.install.package_index import IndexAccess, LazyIndexAccess, proxied
from sandbox.install.python import environments, interpreters, pip_client, requirements, wheels
from sandbox.install.python.environments import EnvironmentRecipe
from sandbox.install.python.interpreters import Interpreter, ManagedPythons, choose, runs_as
from sandbox.install.python.requirements import InstallPlan
from sandbox.install.python.wheels import Wheels
from sandbox.install.sources.upstreams import NOTHING, Upstreams, unfetched

INSTALLER_ENVIRONMENT = {
    "UV_NO_CONFIG": "1",
    "UV_PYTHON_DOWNLOADS": "never",
    "UV_NO_PROGRESS": "1",
    "PIP_NO_INPUT": "1",
    "PIP_NO_CACHE_DIR": "1",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_PROGRESS_BAR": "off",
    "PIP_ROOT_USER_ACTION": "ignore",
}
_BUILT = re.compile(r"^[ \t]*+Built ([\w.-]+?)(?:==| @ )|^[ \t]*+Building wheel for ([\w.-]+) ", re.MULTILINE)

WHEELS, UV, PIP, OVERRIDES = "/wheels", "/installer/uv", "/installer/pip/pip", "/installer/overrides.txt"
UV_OPTIONS = ("--no-cache", "--link-mode=copy", "--compile-bytecode")
CANNOT_START = 127  # exit code of a shell for a missing program, and of a loader for a missing library
Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Completed]]


@dataclass(frozen=True, slots=True)
class PackageStore:
    """Where packages come from: the caches, the index that an install step may reach, and downloaded Pythons."""

    cache: Path
    index: IndexAccess | LazyIndexAccess
    pythons: ManagedPythons | None = None  # in addition to those on the PATH
    policy: DownloadPolicy = DownloadPolicy()
    upstreams: Upstreams = NOTHING  # of crates and Go modules

    async def access(self) -> IndexAccess:
        return self.index if isinstance(self.index, IndexAccess) else await self.index.access()

    @property
    def wheels(self) -> Path:
        return self.cache / "wheels"

    @property
    def environments(self) -> Path:
        return self.cache / "environments"

    @property
    def modules(self) -> Path:
        return self.cache / "modules"

    def clear(self) -> None:
        """Remove what killed workers left unfinished. Blocks."""
        for cache in self.cache.glob("*/"):
            folder_cache.remove_unfinished(cache)


async def install(packages: Packages, backend: InstallBackend, store: PackageStore) -> Installed:
    """Run the install step. Raises `InstallFailed` with the installer's output, and `SandboxError`."""
    policy = store.policy.within(backend.disk)
    started = time.monotonic()
    await asyncio.to_thread(store.clear)
    interpreter = await choose(packages.python, store.pythons)
    python = await backend.use(interpreter)
    plan = await requirements.read_plan(packages, backend.read)
    async with wheels.fetched(store.wheels, interpreter, (plan.runtime, *plan.builds), policy) as found:
        used = found.size, time.monotonic() - started
        installer = Installer(backend, found)
        shared = False
        if backend.shared_environments is not None and not found.missing:
            recipe = EnvironmentRecipe(interpreter, installer.identity, plan.runtime, found.digests)
            make = partial(
                _make, backend, backend.shared_environments, (python, installer), asks=bool(plan.runtime.requirements)
            )
            prepared = await environments.prepared(store.environments, recipe, make, bound=policy.cache)
            if prepared is not None:
                await backend.shared_environments.start_with(prepared, writable=not plan.is_complete)
                shared = True
        output = ""
        if not shared:
            result = await _run(backend.run_installer, _venv(python, backend), {})
            if result.exit_code:
                raise InstallFailed(f"cannot create a virtual environment with Python {interpreter.version}", _text(result))
        if plan.targets and not (shared and plan.is_complete):
            output = await _install(backend, installer, plan, found, store)
    notes: tuple[str, ...] = ()
    if packages.node:
        wanted = npm.Wanted(packages.node_version or "", packages.as_of or "")
        notes = await npm.install(packages.node, backend, store.modules, python, policy.cache, wanted)
    sources = await _sources(packages, backend, store, python, used)
    other = "" if runs_as(packages.python, interpreter.version) else _other_python(interpreter, packages.python, store)
    notes = tuple(note for note in (other, found.note, *notes, *sources) if note)
    built = tuple(dict.fromkeys(first or second for first, second in _BUILT.findall(output)))
    return Installed(interpreter.version, time.monotonic() - started, built, output, notes)


async def _sources(
    packages: Packages, backend: InstallBackend, store: PackageStore, python: str, used: tuple[int, float]
) -> tuple[str, ...]:
    """Provide crates and Go modules; returns notes. `used`: bytes and seconds of this step's downloads so far."""
    if store.upstreams == NOTHING or not (packages.crates or packages.go_modules):
        named = {"Cargo.lock": packages.crates, "go.sum": packages.go_modules}
        return tuple(unfetched(name) for name, folders in named.items() if folders)
    from sandbox.install.sources import fetch  # its HTTP client is not on every machine
    from sandbox.install.sources import install as sources

    budget = fetch.Budget(store.policy.within(backend.disk), *used)
    return await sources.install(packages, backend, store.cache, python, store.upstreams, budget)


def _other_python(interpreter: Interpreter, wanted: str | None, store: PackageStore) -> str:
    refused = store.pythons.refusal(wanted) if store.pythons else ""
    return f"Using Python {interpreter.version} instead of {wanted}{refused and f': {refused}'}."


async def _make(
    backend: InstallBackend, shared_environments: SharedEnvironments, tools: tuple[str, Installer], folder: Path, *, asks: bool
) -> bool:
    """Create a shareable environment only from wheels; returns whether this succeeded."""
    python, installer = tools
    run = partial(shared_environments.prepare, folder)
    result = await _run(run, _venv(python, backend), {})
    if result.exit_code == 0 and asks:
        argv = [*await installer.command(), "--no-index", "--only-binary", ":all:"]
        for option, name in (("--requirement", environments.REQUIREMENTS), ("--constraint", environments.CONSTRAINTS)):
            argv += [option, f"{RECIPE_FOLDER}/{name}"]
        result = await _run(run, argv, {})
    return result.exit_code == 0


def _venv(python: str, backend: InstallBackend) -> tuple[str, ...]:
    return (python, "-I", "-m", "venv", "--without-pip", backend.env)


async def _install(backend: InstallBackend, installer: Installer, plan: InstallPlan, found: Wheels, store: PackageStore) -> str:
    """Install the plan's targets; returns the installer's output."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = Path(folder, "overrides.txt")
        if plan.left_out:
            await asyncio.to_thread(overrides.write_text, "".join(f"{line}\n" for line in plan.left_out))
            await asyncio.to_thread(overrides.chmod, 0o644)
            installer.override(overrides)
        return await _install_targets(backend, installer, plan, found, store)


async def _install_targets(
    backend: InstallBackend, installer: Installer, plan: InstallPlan, found: Wheels, store: PackageStore
) -> str:
    start = await installer.command()
    result = await _run(backend.run_installer, [*start, "--no-index", *plan.targets], {})
    if result.exit_code == CANNOT_START and installer.fall_back_to_pip():
        start = await installer.command()
        result = await _run(backend.run_installer, [*start, "--no-index", *plan.targets], {})
    if result.exit_code:
        access = await store.access()
        options = installer.index_options(access.urls, store.policy.strategy)
        result = await _run_with_index(backend, access, (*start, *options, *plan.targets))
    if result.exit_code:
        raise InstallFailed(_reason(result, found.missing), _text(result))
    return _text(result)


class Installer:
    """The worker's uv, which is several times faster, else the worker's pip, run by the new environment's Python."""

    def __init__(self, backend: InstallBackend, found: Wheels) -> None:
        self._backend, self._wheels = backend, found.folder
        self._uv = interpreters.uv_binary()
        self._start: tuple[str, ...] = ()
        self._overrides: Path | None = None

    @property
    def identity(self) -> tuple[str, ...]:
        """What identifies the installer in an environment's key."""
        if self._uv is None:
            return "pip", metadata.version("pip")
        what = self._uv.stat()
        return "uv", str(what.st_size), str(what.st_mtime_ns), *UV_OPTIONS

    def fall_back_to_pip(self) -> bool:
        """Switch to pip; returns whether uv was used before. The worker's uv may not start on a different system."""
        had, self._uv, self._start = self._uv is not None, None, ()
        return had

    def override(self, file: Path) -> None:
        """Let a requirements file replace what anything else requires. pip has no such option, so it ignores the file."""
        self._overrides, self._start = file, ()

    def index_options(self, urls: Sequence[str], strategy: IndexStrategy) -> tuple[str, ...]:
        """The options for using indexes, of which the first takes precedence."""
        if not urls:
            return ("--no-index",)  # else it would keep asking its default index
        if self._uv is None:  # pip cannot order indexes
            others = urls[1:] if strategy == "best" else ()
            return ("--index-url", urls[0], *(f"--extra-index-url={url}" for url in others))
        how = "first-index" if strategy == "first" else "unsafe-best-match"
        # uv asks the index of `--index-url` last.
        return (*(f"--extra-index-url={url}" for url in urls[:-1]), "--index-url", urls[-1], f"--index-strategy={how}")

    async def command(self) -> tuple[str, ...]:
        """The start of an argv that installs from the downloaded wheels."""
        if not self._start:
            show, python = self._backend.show, f"{self._backend.env}/bin/python"
            if self._uv is not None:
                program = [await show(self._uv, UV), "pip", "install", "--python", python, *UV_OPTIONS]
                program += [] if self._overrides is None else ["--overrides", await show(self._overrides, OVERRIDES)]
            else:
                pip = await show(pip_client.pip_folder(), PIP)
                program = [python, f"{pip}/__main__.py", "install", "--no-warn-script-location"]
            self._start = (*program, "--find-links", await show(self._wheels, WHEELS))
        return self._start


async def _run_with_index(backend: InstallBackend, index: IndexAccess, argv: Sequence[str]) -> Completed:
    env: dict[str, str] = {}
    if index.certificates is not None:
        path = await backend.show(index.certificates, CERTIFICATES)
        env = {"SSL_CERT_FILE": path, "PIP_CERT": path}
    async with proxied(backend, index.hosts, f"{backend.env}/bin/python", argv) as command:
        return await _run(backend.run_installer, command, env)


async def _run(start: Start, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
    try:
        return await start(argv, INSTALLER_ENVIRONMENT | dict(env))
    except DeadlinePassed as late:
        result = (late.stdout + late.stderr).decode(errors="replace")
        raise InstallFailed(f"the installation took longer than {late.seconds:.0f} s", result) from late


def _reason(result: Completed, missing: tuple[str, ...]) -> str:
    lines = [line.strip() for line in _text(result).splitlines() if line.strip()]
    error = next((line for line in lines if "rror" in line or "×" in line or "No solution" in line), lines[-1] if lines else "")
    without = f" (no wheel for {', '.join(missing[:5])})" if missing else ""
    return f"{error.removeprefix('ERROR: ')[:300]}{without}"


def _text(result: Completed) -> str:
    return (result.stdout + result.stderr).decode(errors="replace")
