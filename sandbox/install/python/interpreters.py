"""Finds Python interpreters on this machine and through uv, and chooses the one that runs a repository's code.

Considers the worker's own interpreter, `python3.X` on its PATH, the usual other locations (pyenv, uv, `/opt`, `/usr/local`, a
runner's tool cache) and those that uv has or downloads; runs each isolated (`-I`) to identify it. The code under test sees the
interpreter's whole tree, so an interpreter is skipped if its tree is or contains a home folder.

uv's download source is trusted (the operator may name a mirror in uv's variables); a repository only names a version. Each
download is tried once per process, so that a machine without network waits for it only once. Downloads are bounded, as are all
downloaded Pythons together. A process locks those that it has chosen until it ends, so that nothing removes them meanwhile.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from sandbox.base import SandboxUnavailable
from sandbox.host import disk, launch
from sandbox.host.folder_locks import lock_if_abandoned, try_lock
from sandbox.install import folder_cache
from sandbox.install.download import Download, DownloadPolicy, DownloadRefused

Version: TypeAlias = tuple[int, int]
SUPPORTED = tuple((3, minor) for minor in range(8, 16))
_WHO = """
import json, os, sys
version = ".".join(map(str, sys.version_info[:3]))
print(json.dumps([os.path.realpath(sys.executable), os.path.realpath(sys.base_prefix), version]))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """`path` is the program, `prefix` the tree that it needs to run, `version` is "3.11.7"."""

    path: str
    prefix: str
    version: str

    @property
    def parts(self) -> tuple[int, ...]:
        return tuple(int(part) for part in self.version.split("."))

    @property
    def minor(self) -> Version:
        return self.parts[0], self.parts[1]


def own() -> Interpreter:
    """The worker's interpreter, without its virtual environment."""
    path = os.path.realpath(getattr(sys, "_base_executable", sys.executable))
    return Interpreter(path, os.path.realpath(sys.base_prefix), ".".join(map(str, sys.version_info[:3])))


async def choose(wanted: str | None, managed: ManagedPythons | None = None) -> Interpreter:
    """The interpreter for `wanted`: this machine's, then one of `managed` (downloaded if needed), else the nearest version.

    `wanted` is "3.12", "3.12.4", "3.13t", ">=3.12", "pypy3.10" …; only its first minor version counts, and means CPython.
    """
    mine = own()
    target = _minor(wanted) if wanted else None
    if target is None or target == mine.minor:
        return mine
    if target in SUPPORTED and (found := await find(target)):
        return found
    others = {} if managed is None else await managed.installed()
    if managed is not None and target in SUPPORTED:
        found = others.get(target)
        found = found if found and managed.hold(found) else await managed.fetched(target)
        if found is not None and managed.hold(found):
            return found
    for version in sorted(SUPPORTED, key=lambda version: (abs(version[1] - target[1]), version)):
        if version == mine.minor:
            return mine
        if found := await find(version):
            return found
        if managed is not None and (found := others.get(version)) and managed.hold(found):
            return found
    return mine


def runs_as(wanted: str | None, version: str) -> bool:
    """Whether `version` satisfies `wanted`, so that no note is needed."""
    if wanted is None:
        return True
    exact = re.fullmatch(r"\s*v?(3\.\d+(?:\.\d+)?)(?:\.x|-dev)?\s*", wanted)
    if exact:
        return f"{version}.".startswith(f"{exact[1]}.")
    return _minor(wanted) is None  # "3.x", "latest": any version


def _minor(wanted: str) -> Version | None:
    found = re.search(r"(?<![\d.])3\.(\d{1,2})(?!\d)", wanted)
    return (3, int(found[1])) if found else None


def _name(version: Version) -> str:
    return f"python{version[0]}.{version[1]}"


async def find(version: Version) -> Interpreter | None:
    """An interpreter of this minor version: the one on the PATH, else the newest that works in a usual location."""
    name = _name(version)
    if found := await ask(name):
        return found
    for path in await asyncio.to_thread(_usual_locations, name):
        if (found := await ask(path)) and found.minor == version:
            return found
    return None


def _usual_locations(name: str) -> list[str]:
    """Candidates for `name` ("python3.12") outside the PATH, the newest of each location first."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local/share")
    series = name.removeprefix("python")
    locations = (
        (Path(os.environ.get("PYENV_ROOT") or home / ".pyenv") / "versions", f"{series}.*/bin/{name}"),
        (Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv/python"), f"cpython-{series}.*/bin/{name}"),
        (Path("/usr/local/bin"), name),
        (Path("/opt/hostedtoolcache/Python"), f"{series}.*/*/bin/{name}"),
        (Path("/opt"), f"*/bin/{name}"),
        (Path("/opt/python"), f"*/bin/{name}"),
    )
    return [str(path) for folder, pattern in locations for path in sorted(folder.glob(pattern), key=_newest, reverse=True)]


def _newest(path: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(path))]


def _is_mountable(interpreter: Interpreter) -> bool:
    """Whether its tree may be mounted: the code under test can read all of it, so it must not contain private files."""
    prefix, home = Path(interpreter.prefix), Path.home().resolve()
    if prefix.is_relative_to("/usr"):
        return True
    return len(prefix.parts) > 2 and not home.is_relative_to(prefix) and prefix != home / ".local"


async def ask(name: str) -> Interpreter | None:
    """Identify the program `name`, on the PATH or at a path; None if it does not work."""
    if (path := shutil.which(name)) is None:
        return None
    printed = await launch.printed((path, "-I", "-c", _WHO), os.environ, 10.0)
    try:
        found = Interpreter(*json.loads(printed or ""))
        return found if _is_mountable(found) else None
    except (TypeError, ValueError):  # a version manager's shim without that version
        return None


FIND_SECONDS, FETCH_SECONDS = 15.0, 120.0
UNPACKING = ".temp"  # the folder in which uv unpacks its downloads; it is locked meanwhile
CONNECT_SECONDS = "2"  # uv's connection timeout; it retries by itself on some errors only
_PASSED_ON = ("UV_PYTHON_INSTALL_MIRROR", "UV_PYTHON_DOWNLOADS_JSON_URL", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS")

_NEEDED = frozenset(
    (
        *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "NETRC"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)


def uv_binary() -> Path | None:
    """The worker's uv, or None."""
    try:
        from uv import find_uv_bin

        return Path(find_uv_bin()).resolve()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        return Path(found).resolve() if found else None


def client_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Those of the worker's `variables` that the package client needs; none is a secret."""
    return {name: value for name, value in variables.items() if name.startswith("PIP_") or name.upper() in _NEEDED}


@dataclass(slots=True)
class ManagedPythons:
    """The Pythons that uv manages. `folder` contains the downloads; `downloads` is whether they are allowed."""

    folder: Path
    downloads: bool = True
    policy: DownloadPolicy = DownloadPolicy()
    _found: dict[Version, Interpreter] | None = None
    _tried: dict[Version, Interpreter | None] = field(default_factory=dict)
    _refused: dict[Version, str] = field(default_factory=dict)
    _held: dict[Path, int] = field(default_factory=dict)  # descriptors of locks, closed when the process ends
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def installed(self) -> dict[Version, Interpreter]:
        """The newest installed CPython of each minor version."""
        async with self._one:
            if self._found is None:
                self._found = await self._look()
            return dict(self._found)

    async def fetched(self, version: Version) -> Interpreter | None:
        """The interpreter of this version, downloaded if needed; None if unavailable."""
        async with self._one:
            before = self._tried.get(version)
            if version not in self._tried or (before is not None and not self.hold(before)):
                self._tried[version] = await self._fetch(version)
            return self._tried[version]

    def hold(self, python: Interpreter) -> bool:
        """Keep a downloaded Python from being removed while this process lives; False if it is gone. Others are just there."""
        top = self._top_of(python)
        if top is not None and top not in self._held:
            if (lock := try_lock(top, fcntl.LOCK_SH)) is None:
                return False
            self._held[top] = lock
        return True

    def refusal(self, wanted: str | None) -> str:
        """Why a bound refused the download of `wanted`, else empty."""
        version = _minor(wanted) if wanted else None
        return self._refused.get(version, "") if version else ""

    def _top_of(self, python: Interpreter) -> Path | None:
        """The folder of a Python that is one of our downloads."""
        folder, prefix = self.folder.resolve(), Path(python.prefix)
        return folder / prefix.relative_to(folder).parts[0] if folder in prefix.parents else None

    async def _look(self) -> dict[Version, Interpreter]:
        listing = ("list", "--only-installed", "--output-format", "json", "--no-python-downloads")
        # Asked twice, because uv searches only one folder of its own: first the operator's, then ours.
        answers = await asyncio.gather(self._uv(listing, {}), self._uv(listing, self._into))
        found: dict[Version, Interpreter] = {}
        for path in dict.fromkeys(path for answer in answers for path in _paths(answer)):
            python = await ask(path)
            if python is not None and (python.minor not in found or found[python.minor].parts < python.parts):
                found[python.minor] = python
        return found

    async def _fetch(self, version: Version) -> Interpreter | None:
        if not self.downloads:
            return None
        wanted = f"cpython-{version[0]}.{version[1]}"
        known = await asyncio.to_thread(_begin, self.folder)
        try:
            if not await self._install(wanted, known):
                return None
        except DownloadRefused as refused:
            self._refused[version] = refused.reason
            await asyncio.to_thread(_remove_others, self.folder, known)
            return None
        found = await self._uv(("find", "--managed-python", "--no-python-downloads", "--no-project", wanted), self._into)
        python = await ask(found) if found else None
        if python is None or python.minor != version or not self.hold(python):
            return None
        await asyncio.to_thread(prune, self.folder, self._bound)
        return python

    async def _install(self, wanted: str, known: frozenset[Path]) -> bool:
        """Download a Python; whether that worked. `known` are those already there. Raises `DownloadRefused`."""
        if (program := uv_binary()) is None:
            return False
        policy = replace(self.policy, seconds=FETCH_SECONDS, seconds_hint="check the connection to its server")
        if self._bound < policy.size:
            policy = replace(policy, size=self._bound, size_hint="SELFHEAL_CACHE_MB raises this limit")
        download = Download(policy, partial(_size_of_others, self.folder, known, policy.size), wanted)
        argv = (str(program), "python", "install", "--no-bin", wanted)
        lock = try_lock(self.folder / UNPACKING, fcntl.LOCK_SH)
        try:
            return (await download.run(argv, _uv_variables() | self._into, cwd="/")).returncode == 0
        except SandboxUnavailable:
            return False
        finally:
            if lock is not None:
                os.close(lock)

    @property
    def _bound(self) -> int:
        return folder_cache.BOUND if self.policy.cache is None else self.policy.cache

    @property
    def _into(self) -> dict[str, str]:
        return {"UV_PYTHON_INSTALL_DIR": str(self.folder.resolve())}

    async def _uv(self, arguments: Sequence[str], env: dict[str, str]) -> str | None:
        """The output of `uv python …`; None if it fails or uv is missing."""
        if (program := uv_binary()) is None:
            return None
        return await launch.printed((str(program), "python", *arguments), _uv_variables() | env, FIND_SECONDS)


def _uv_variables() -> dict[str, str]:
    variables = {name: os.environ[name] for name in _PASSED_ON if name in os.environ} | client_environment(os.environ)
    return variables | {
        "UV_NO_CONFIG": "1",
        "UV_NO_PROGRESS": "1",
        "UV_HTTP_RETRIES": "0",
        "UV_HTTP_CONNECT_TIMEOUT": CONNECT_SECONDS,
    }


def pythons_in(folder: Path) -> list[Path]:
    """The downloaded Pythons, oldest first. Blocks."""
    found = [path for path in folder.glob("cpython-*") if path.is_dir() and not path.is_symlink()]
    return sorted(found, key=lambda path: path.lstat().st_ctime)


def prune(folder: Path, bound: int) -> None:
    """Remove the oldest downloaded Pythons above `bound` bytes that no process has chosen. Blocks."""
    total = 0
    for path in reversed(pythons_in(folder)):
        total += disk.size(path, bound)
        if total > bound and (lock := lock_if_abandoned(path)) is not None:
            disk.remove(path)
            os.close(lock)


def _begin(folder: Path) -> frozenset[Path]:
    """The Pythons that are there, after the removal of what a killed download has left."""
    known = frozenset(pythons_in(folder))
    _remove_others(folder, known)
    (folder / UNPACKING).mkdir(parents=True, exist_ok=True)
    return known


def _others(folder: Path, known: frozenset[Path]) -> list[Path]:
    return [path for path in folder.iterdir() if path not in known] if folder.is_dir() else []


def _size_of_others(folder: Path, known: frozenset[Path], at_most: int) -> int:
    """Bytes of everything in `folder` but the Pythons that are `known`: uv unpacks a download in a folder beside them."""
    return sum(disk.size(path, at_most) for path in _others(folder, known) if not path.is_symlink())


def _remove_others(folder: Path, known: frozenset[Path]) -> None:
    """Remove what a stopped download has left, but nothing that another process uses."""
    for path in _others(folder, known):
        if path.is_dir() and (lock := lock_if_abandoned(path)) is not None:
            disk.remove(path)
            os.close(lock)


def _paths(listing: str | None) -> list[str]:
    """Paths of the CPythons of the default variant in uv's JSON."""
    try:
        found = json.loads(listing or "[]")
        return [
            str(one["path"])
            for one in found
            if one["implementation"] == "cpython" and one["variant"] == "default" and one["path"] is not None
        ]
    except (ValueError, KeyError, TypeError):
        return []
