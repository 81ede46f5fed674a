"""Fetches the crates that a Cargo.lock names from a sparse index, and lays them out as cargo's vendored sources.

cargo is not needed for that, and no code of a crate is executed. In the sandbox, cargo finds the crates through `CARGO_HOME`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import tomllib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urljoin

import httpx

from sandbox.base import KIB, MIB, InstallFailed, UnsafeArchive
from sandbox.host.archive import ArchiveLimits, unpack
from sandbox.host.tree import Tree
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.sources import fetch
from sandbox.install.sources.fetch import Asked, Budget, SourcesUnavailable

LOCK, FORM = "Cargo.lock", 1
WHAT = "the crates"
INSIDE = "/fetched/crates"
# The public registry, as locks name it: its git index, or its sparse one.
_PUBLIC = re.compile(r"registry\+https://github\.com/rust-lang/[a-z.]+-index|sparse\+https://index\.[a-z]+\.[a-z]+/")
_NAME, _VERSION, _DIGEST = re.compile(r"[A-Za-z0-9_-]{1,64}"), re.compile(r"[0-9A-Za-z.+-]{1,100}"), re.compile(r"[0-9a-f]{64}")
# cargo takes the folder relative to the one above the configuration's.
_VENDOR = "Commit the crates (`cargo vendor`), then try again."
_LIMITS = ArchiveLimits(unpacked=fetch.FILE_LIMIT)  # of one crate
_BLOCK = 4 * KIB  # what a file or folder takes on disk, at least
_CONFIGURATION = """\
[source.crates-io]
replace-with = "fetched"
[source.fetched]
directory = "vendor"
[net]
offline = true
"""


@dataclass(frozen=True, slots=True, order=True)
class Crate:
    """`digest` is the SHA-256 of its archive."""

    name: str
    version: str
    digest: str


def environment(inside: str) -> Mapping[str, str]:
    """The variables with which cargo finds the crates at the path `inside`."""
    return {"CARGO_HOME": f"{inside}/home"}


def read_lock(text: str) -> tuple[Crate, ...]:
    """Crates of the public registry. Raises `InstallFailed`; for other sources, which have no digest, `SourcesUnavailable`."""
    try:
        lock = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InstallFailed(f"{LOCK} is not valid TOML: {str(error)[:200]}") from error
    packages, metadata = lock.get("package", []), lock.get("metadata", {})  # old locks have the digests in the latter
    found = set()
    for package in packages if isinstance(packages, list) else ():
        if not isinstance(package, dict):
            raise InstallFailed(f"{LOCK} has a package that is no table: {str(package)[:100]!r}")
        name, version, source = (str(package.get(key, "")) for key in ("name", "version", "source"))
        if not source:  # a member of the workspace, or a path
            continue
        if not _PUBLIC.fullmatch(source):
            why = f"{LOCK} takes `{name[:80]}` from {source[:100]!r}, which is not the registry"
            raise SourcesUnavailable(why, _VENDOR)
        old = metadata.get(f"checksum {name} {version} ({source})", "") if isinstance(metadata, dict) else ""
        digest = str(package.get("checksum", "") or old)
        if not (_NAME.fullmatch(name) and _VERSION.fullmatch(version) and _DIGEST.fullmatch(digest)):
            raise InstallFailed(f"{LOCK} names `{name[:80]}` {version[:40]!r} without a digest")
        found.add(Crate(name, version, digest))
    if len(found) > fetch.FILES:
        raise InstallFailed(f"{LOCK} names {len(found)} crates; the limit is {fetch.FILES}")
    return tuple(sorted(found))


async def provide(crates: tuple[Crate, ...], index: str, cache: Path, budget: Budget) -> CacheEntry:
    """A locked folder with the crates. Raises `InstallFailed`."""

    async def make(folder: Path) -> None:
        try:
            template = await _download_template(index)
            await _make(folder, crates, template, budget)
        except (httpx.HTTPError, OSError, ValueError) as error:
            why = f"the crates that {LOCK} names could not be fetched from {index}: {fetch.in_words(error)}"
            raise SourcesUnavailable(why, way(index)) from error

    return await fetch.kept(cache, fetch.key_of(FORM, index, crates), make, budget.cache)


def way(index: str) -> str:
    """What to do if the index cannot be reached, for people."""
    return (
        f"Let this machine reach {index} and its downloads, name another sparse index with `SELFHEAL_CRATES_INDEX`, "
        "or commit the crates (`cargo vendor`), then try again."
    )


async def _download_template(index: str) -> str:
    """The address of a crate, from the index's configuration. Raises `httpx.HTTPError`, `ValueError`."""
    base = index.removeprefix("sparse+").rstrip("/") + "/"
    async with httpx.AsyncClient(follow_redirects=True, timeout=30.0) as client:
        answer = await client.get(urljoin(base, "config.json"))
        answer.raise_for_status()
    configuration = answer.json()
    address = configuration.get("dl") if isinstance(configuration, dict) else None
    if not isinstance(address, str) or not address.startswith(("https://", "http://")):
        raise ValueError("its config.json names no address for downloads")
    return address if "{" in address else f"{address.rstrip('/')}/{{crate}}/{{version}}/download"


def _address(template: str, crate: Crate) -> str:
    lower = crate.name.lower()
    values = {
        "{crate}": crate.name, "{version}": crate.version, "{prefix}": _prefix(crate.name), "{lowerprefix}": _prefix(lower),
        "{sha256-checksum}": crate.digest,
    }  # fmt: skip
    for marker, value in values.items():
        template = template.replace(marker, value)
    return template


def _prefix(name: str) -> str:
    """The folder of a crate in an index: "1", "2", "3/f", "se/rd"."""
    return str(len(name)) if len(name) < 3 else f"3/{name[0]}" if len(name) == 3 else f"{name[:2]}/{name[2:4]}"


async def _make(folder: Path, crates: tuple[Crate, ...], template: str, budget: Budget) -> None:
    packed = folder / "packed"  # by position: a hostile lock can name one digest twice
    asked = [
        Asked(_address(template, crate), packed / str(number), lambda path, crate=crate: _digest(path) == crate.digest)  # type: ignore[misc]
        for number, crate in enumerate(crates)
    ]
    await budget.fetch(asked, WHAT)
    for each, crate in zip(asked, crates, strict=True):
        await _unpack(each.path, folder / "vendor" / f"{crate.name}-{crate.version}", crate, budget)
        each.path.unlink()
    await asyncio.to_thread(_configure, folder)


def _configure(folder: Path) -> None:
    for name in ("home", "vendor"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "home/config.toml").write_text(_CONFIGURATION)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _CrateTree(Tree):
    """A crate's folder, within the budget. Raises `ValueError` for a link: no crate of the registry has one."""

    def __init__(self, root: int, budget: Budget) -> None:
        super().__init__(root)
        self._budget, self._folders = budget, {PurePosixPath(".")}

    def folder(self, path: str) -> None:
        self._count(PurePosixPath(path, "file").parents)
        super().folder(path)

    def create(self, path: str, chunks: Iterator[bytes], executable: bool) -> None:
        self._budget.take(WHAT, _BLOCK)
        self._count(PurePosixPath(path).parents)
        super().create(path, map(self._counted, chunks), executable)

    def link(self, path: str, target: str) -> None:
        raise ValueError(f"{path!r} is a link")

    def _count(self, folders: Sequence[PurePosixPath]) -> None:
        fresh = set(folders) - self._folders
        self._folders |= fresh
        self._budget.take(WHAT, _BLOCK * len(fresh))

    def _counted(self, chunk: bytes) -> bytes:
        self._budget.take(WHAT, len(chunk))
        return chunk


async def _unpack(archive: Path, target: Path, crate: Crate, budget: Budget) -> None:
    """Raises `InstallFailed` for an archive that is not safe to unpack."""

    async def chunks() -> AsyncIterator[bytes]:
        with archive.open("rb") as file:
            while chunk := await asyncio.to_thread(file.read, MIB):
                yield chunk

    await asyncio.to_thread(target.mkdir, parents=True)
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    tree = _CrateTree(descriptor, budget)
    try:
        await unpack(chunks(), tree, _LIMITS)
        # cargo compares the digest with the lock's; the files need none, as nobody can write to them.
        tree.write(".cargo-checksum.json", json.dumps({"files": {}, "package": crate.digest}).encode())
    except (UnsafeArchive, ValueError) as error:
        raise InstallFailed(f"the crate {crate.name} {crate.version} is not safe to unpack: {error}") from error
    finally:
        os.close(descriptor)
