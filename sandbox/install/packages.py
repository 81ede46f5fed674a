"""The install step: a repository's dependencies into a virtual environment that its code will only be able to read.

1. Outside, nothing is executed: wheels of what the repository names are downloaded into a cache (`wheels`).
2. Inside, without any network, they are installed, and the repository's own projects are built, from that cache alone.
3. Only if that is not enough: once more inside, with a way out to the configured package index and nothing else
   (`index_proxy`).

Works on any `Place`; knows nothing of bubblewrap.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from sandbox.base import Completed, DeadlinePassed, Installed, InstallFailed, Packages
from sandbox.install import forwarder, requirements, wheels
from sandbox.install.index_access import IndexAccess
from sandbox.install.index_proxy import IndexProxy
from sandbox.install.interpreters import Interpreter, choose
from sandbox.install.requirements import Lines
from sandbox.install.wheels import Wheels

INSTALL_SECONDS = 900.0
INSTALL_OUTPUT = 128 * 1024  # bytes
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

WHEELS, UV, PIP, WAY, CERTIFICATES = "/wheels", "/installer/uv", "/installer/pip/pip", "/way", "/installer/certificates.pem"
SOCKET = "index.sock"


@dataclass(frozen=True, slots=True)
class Shop:
    """Where packages come from: the cache of wheels, and the index that an install step may reach."""

    cache: Path
    index: IndexAccess


class Place(Protocol):
    """What the install step needs of a sandbox."""

    @property
    def env(self) -> str:
        """Path of the virtual environment, as seen inside."""

    @property
    def way_out(self) -> Path | None:
        """A folder of ours for the proxy's socket; None where commands have the network anyway."""

    async def use(self, interpreter: Interpreter) -> str:
        """Make the interpreter usable; returns its path as seen inside."""

    async def read(self, path: str) -> bytes:
        """One of the repository's files."""

    async def see(self, source: Path, inside: str) -> str:
        """Show a host file or folder, read-only, to the commands of this step, at `inside` if the place can; returns where."""

    async def install_command(self, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
        """Run one command that may write the repository and the environment."""


async def install(packages: Packages, place: Place, shop: Shop) -> Installed:
    """Raises `InstallFailed` with what the installer said, and `SandboxError`."""
    started = time.monotonic()
    interpreter = await choose(packages.python)
    python = await place.use(interpreter)
    said = await _run(place, (python, "-I", "-m", "venv", "--without-pip", place.env), {})
    if said.exit_code:
        raise InstallFailed(f"a virtual environment of Python {interpreter.version} cannot be made", _text(said))
    note = ""
    if packages:
        note, said = await _install(packages, place, shop, interpreter)
    output = _text(said)
    built = tuple(dict.fromkeys(one or other for one, other in _BUILT.findall(output)))
    return Installed(interpreter.version, time.monotonic() - started, built, output, note)


async def _install(packages: Packages, place: Place, shop: Shop, interpreter: Interpreter) -> tuple[str, Completed]:
    """What is to be said of the packages, and what the installer said."""
    files = await requirements.from_files(packages.requirement_files, packages.constraint_files, place.read)
    groups = await requirements.from_groups(packages.groups, place.read)
    projects = [await requirements.from_project(project, place.read) for project in packages.projects]
    named = tuple(safe for line in packages.requirements if (safe := requirements.plain(line)))
    needed = (*named, *files.requirements, *groups, *(line for needs, _ in projects for line in needs))
    sets = (Lines(needed, files.constraints), *(Lines(building) for _, building in projects))
    targets = [*packages.requirements, *groups]
    for option, paths in (("--requirement", packages.requirement_files), ("--constraint", packages.constraint_files)):
        targets += [text for path in paths for text in (option, path)]
    for project in packages.projects:
        folder, extras = requirements.split_extras(project)
        targets += ["--editable", f"./{folder}" + (f"[{','.join(extras)}]" if extras else "")]
    async with wheels.fetched(shop.cache, interpreter, sets) as found:
        return found.note, await _install_from(found, targets, place, shop.index)


async def _install_from(found: Wheels, targets: list[str], place: Place, index: IndexAccess) -> Completed:
    start = [*await _installer(place), "--find-links", await place.see(found.folder, WHEELS)]
    said = await _run(place, [*start, "--no-index", *targets], {})
    if said.exit_code == 0:
        return said
    said = await _with_a_way_out(place, index, start, targets)
    if said.exit_code:
        raise InstallFailed(_reason(said, found.missing), _text(said))
    return said


async def _installer(place: Place) -> list[str]:
    """uv where the worker has it (several times faster), else the worker's pip, run by the new environment."""
    python = f"{place.env}/bin/python"
    if (uv := wheels.uv_binary()) is not None:
        program = await place.see(uv, UV)
        options = ("--no-cache", "--link-mode=copy", "--compile-bytecode", "--index-strategy=unsafe-best-match")
        return [program, "pip", "install", "--python", python, *options]
    pip = await place.see(wheels.pip_folder(), PIP)
    return [python, f"{pip}/__main__.py", "install", "--no-warn-script-location"]


async def _with_a_way_out(place: Place, index: IndexAccess, start: list[str], targets: list[str]) -> Completed:
    argv = list(start)
    for number, url in enumerate(index.urls):
        argv += ["--extra-index-url" if number else "--index-url", url]
    argv += targets
    env: dict[str, str] = {}
    if index.certificates is not None:
        path = await place.see(index.certificates, CERTIFICATES)
        env = {"SSL_CERT_FILE": path, "PIP_CERT": path}
    if place.way_out is None:
        return await _run(place, argv, env)
    async with IndexProxy(index.hosts).serve(place.way_out / SOCKET):
        way = await place.see(place.way_out, WAY)
        script = await place.see(Path(forwarder.__file__), "/installer/forwarder.py")
        return await _run(place, [f"{place.env}/bin/python", "-I", script, f"{way}/{SOCKET}", *argv], env)


async def _run(place: Place, argv: Sequence[str], env: Mapping[str, str]) -> Completed:
    try:
        return await place.install_command(argv, INSTALLER_ENVIRONMENT | dict(env))
    except DeadlinePassed as late:
        said = (late.stdout + late.stderr).decode(errors="replace")
        raise InstallFailed(f"installing took longer than {late.seconds:.0f} s", said) from late


def _reason(said: Completed, missing: tuple[str, ...]) -> str:
    lines = [line.strip() for line in _text(said).splitlines() if line.strip()]
    telling = next(
        (line for line in lines if "rror" in line or "×" in line or "No solution" in line), lines[-1] if lines else ""
    )
    without = f" (no wheel for {', '.join(missing[:5])})" if missing else ""
    return f"the dependencies could not be installed{without}: {telling[:300]}"


def _text(said: Completed) -> str:
    return (said.stdout + said.stderr).decode(errors="replace")
