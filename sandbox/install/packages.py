"""The install step: a repository's dependencies into a virtual environment that its code will only be able to read.

1. Outside, nothing is executed: wheels of what the repository names are downloaded into a cache (`wheels`).
2. Inside, without any network and without the repository, they become an environment that is kept for whoever needs the same
   (`environments`). Often that is all.
3. Inside, still without a network, what is the repository's own is built and installed on top, from those wheels alone.
4. Only if that is not enough: once more inside, with a way out to the configured package index and nothing else
   (`index_proxy`).
5. What Node needs comes beside it (`npm`).

Works on any `Place`; knows nothing of bubblewrap.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from pathlib import Path

from sandbox.base import Completed, DeadlinePassed, Installed, InstallFailed, Packages
from sandbox.install import npm, shelf
from sandbox.install import plan as wanting
from sandbox.install.index import forwarder
from sandbox.install.index.access import IndexAccess, Unasked
from sandbox.install.index.proxy import IndexProxy
from sandbox.install.placing import ASKED, CERTIFICATES, SOCKET, WAY, Place, Sharing
from sandbox.install.plan import Wanted
from sandbox.install.python import environments, wheels
from sandbox.install.python.environments import Recipe
from sandbox.install.python.interpreters import choose, runs_as
from sandbox.install.python.managed import Managed
from sandbox.install.python.wheels import Wheels

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
_BUILT = re.compile(r"^\s*Built ([\w.-]+?)(?:==| @ )|^\s*Building wheel for ([\w.-]+) ", re.MULTILINE)

WHEELS, UV, PIP = "/wheels", "/installer/uv", "/installer/pip/pip"
UV_OPTIONS = ("--no-cache", "--link-mode=copy", "--compile-bytecode", "--index-strategy=unsafe-best-match")
CANNOT_START = 127  # as a shell says it, and a loader that misses a library
Start = Callable[[Sequence[str], Mapping[str, str]], Awaitable[Completed]]


@dataclass(frozen=True, slots=True)
class Shop:
    """Where packages come from: the folder that keeps wheels and environments, and the index that a step may reach."""

    cache: Path
    index: IndexAccess | Unasked
    pythons: Managed | None = None  # beside those on the PATH

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
        """Remove what workers that were killed have left half made. Blocks."""
        for cache in self.cache.glob("*/"):
            shelf.clear(cache)


async def install(packages: Packages, place: Place, shop: Shop) -> Installed:
    """Raises `InstallFailed` with what the installer said, and `SandboxError`."""
    started = time.monotonic()
    await asyncio.to_thread(shop.clear)
    interpreter = await choose(packages.python, shop.pythons)
    python = await place.use(interpreter)
    wanted = await wanting.read(packages, place.read)
    async with wheels.fetched(shop.wheels, interpreter, (wanted.runs, *wanted.builds)) as found:
        installer = Installer(place, found)
        shared = False
        if place.sharing is not None and not found.missing:
            recipe = Recipe(interpreter, installer.told, wanted.runs, found.digests)
            make = partial(_make, place, place.sharing, (python, installer), asks=bool(wanted.runs.requirements))
            prepared = await environments.prepared(shop.environments, recipe, make)
            if prepared is not None:
                await place.sharing.start_with(prepared, writable=not wanted.whole)
                shared = True
        output = ""
        if not shared:
            said = await _run(place.install_command, _venv(python, place), {})
            if said.exit_code:
                raise InstallFailed(f"a virtual environment of Python {interpreter.version} cannot be made", _text(said))
        if wanted.targets and not (shared and wanted.whole):
            output = await _install(place, installer, wanted, found, shop)
    notes = await npm.install(packages.node, place, shop.modules, python) if packages.node else ()
    told = (
        () if runs_as(packages.python, interpreter.version)
        else (f"Python {interpreter.version} runs it in the place of {packages.python}.",)
    )  # fmt: skip
    notes = tuple(note for note in (*told, found.note, *notes) if note)
    built = tuple(dict.fromkeys(one or other for one, other in _BUILT.findall(output)))
    return Installed(interpreter.version, time.monotonic() - started, built, output, notes)


async def _make(place: Place, sharing: Sharing, tools: tuple[str, Installer], folder: Path, *, asks: bool) -> bool:
    """An environment of wheels alone, for whoever needs the same. What no wheel brings is for the steps after this one."""
    python, installer = tools
    run = partial(sharing.prepare, folder)
    said = await _run(run, _venv(python, place), {})
    if said.exit_code == 0 and asks:
        argv = [*await installer.start(), "--no-index", "--only-binary", ":all:"]
        for option, name in (("--requirement", environments.REQUIREMENTS), ("--constraint", environments.CONSTRAINTS)):
            argv += [option, f"{ASKED}/{name}"]
        said = await _run(run, argv, {})
    return said.exit_code == 0


def _venv(python: str, place: Place) -> tuple[str, ...]:
    return (python, "-I", "-m", "venv", "--without-pip", place.env)


async def _install(place: Place, installer: Installer, wanted: Wanted, found: Wheels, shop: Shop) -> str:
    """What the installer said."""
    start = await installer.start()
    said = await _run(place.install_command, [*start, "--no-index", *wanted.targets], {})
    if said.exit_code == CANNOT_START and installer.forgo_uv():
        start = await installer.start()
        said = await _run(place.install_command, [*start, "--no-index", *wanted.targets], {})
    if said.exit_code:
        said = await _with_a_way_out(place, await shop.access(), start, wanted.targets)
    if said.exit_code:
        raise InstallFailed(_reason(said, found.missing), _text(said))
    return _text(said)


class Installer:
    """uv where the worker has it (several times faster), else the worker's pip, run by the new environment."""

    def __init__(self, place: Place, found: Wheels) -> None:
        self._place, self._wheels = place, found.folder
        self._uv = wheels.uv_binary()
        self._start: tuple[str, ...] = ()

    @property
    def told(self) -> tuple[str, ...]:
        """What of it an environment follows from."""
        if self._uv is None:
            return "pip", metadata.version("pip")
        what = self._uv.stat()
        return "uv", str(what.st_size), str(what.st_mtime_ns), *UV_OPTIONS

    def forgo_uv(self) -> bool:
        """Where the place is no kin of the worker's machine, its uv may not start there; pip needs nothing but a Python."""
        had, self._uv, self._start = self._uv is not None, None, ()
        return had

    async def start(self) -> tuple[str, ...]:
        """The start of an argv that installs from the wheels at hand."""
        if not self._start:
            see, python = self._place.see, f"{self._place.env}/bin/python"
            if self._uv is not None:
                program = [await see(self._uv, UV), "pip", "install", "--python", python, *UV_OPTIONS]
            else:
                pip = await see(wheels.pip_folder(), PIP)
                program = [python, f"{pip}/__main__.py", "install", "--no-warn-script-location"]
            self._start = (*program, "--find-links", await see(self._wheels, WHEELS))
        return self._start


async def _with_a_way_out(place: Place, index: IndexAccess, start: Sequence[str], targets: Sequence[str]) -> Completed:
    argv = list(start)
    for number, url in enumerate(index.urls):
        argv += ["--extra-index-url" if number else "--index-url", url]
    argv += targets
    env: dict[str, str] = {}
    if index.certificates is not None:
        path = await place.see(index.certificates, CERTIFICATES)
        env = {"SSL_CERT_FILE": path, "PIP_CERT": path}
    if place.way_out is None:
        return await _run(place.install_command, argv, env)
    async with IndexProxy(index.hosts).serve(place.way_out / SOCKET):
        way = await place.see(place.way_out, WAY)
        script = await place.see(Path(forwarder.__file__), "/installer/forwarder.py")
        return await _run(place.install_command, [f"{place.env}/bin/python", "-I", script, f"{way}/{SOCKET}", *argv], env)


async def _run(start: Start, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
    try:
        return await start(argv, INSTALLER_ENVIRONMENT | dict(env))
    except DeadlinePassed as late:
        said = (late.stdout + late.stderr).decode(errors="replace")
        raise InstallFailed(f"installing took longer than {late.seconds:.0f} s", said) from late


def _reason(said: Completed, missing: tuple[str, ...]) -> str:
    lines = [line.strip() for line in _text(said).splitlines() if line.strip()]
    telling = next(
        (line for line in lines if "rror" in line or "×" in line or "No solution" in line), lines[-1] if lines else ""
    )
    without = f" (no wheel for {', '.join(missing[:5])})" if missing else ""
    return f"{telling.removeprefix('ERROR: ')[:300]}{without}"


def _text(said: Completed) -> str:
    return (said.stdout + said.stderr).decode(errors="replace")
