"""The download step: downloads wheels only, outside the sandbox, and executes none of their code.

The package client is the worker's pip, run by the interpreter that will run the code (so that markers and tags match) with the
operator's configuration, but without the worker's other variables: pip substitutes `${NAME}` in the files it reads. All its
downloads of one step, retries and temporary files included, are bounded together (`download`). They are cached by what was
requested (`folder_cache`).
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import platform
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sandbox.host import disk
from sandbox.host.folder_locks import acquire
from sandbox.install import folder_cache
from sandbox.install.download import Download, DownloadPolicy, DownloadRefused
from sandbox.install.folder_cache import CacheEntry
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.pip_client import PipClient
from sandbox.install.python.requirements import RequirementLines

FRESH_SECONDS = 86_400.0  # age at which a download is refreshed, since unpinned dependencies get new versions
RETRY_SECONDS = 300.0  # the same if some packages had no wheel although others had, which a moment's failure can cause
DIGESTS, MISSING, SCRATCH = "digests.json", "missing.json", "scratch"


@dataclass(frozen=True, slots=True)
class Wheels:
    """A folder of wheels, the requirements without a complete set of wheels, and a note for people.

    `digests` are (file name, SHA-256) of all wheels; empty if any is missing. `size`: bytes that were downloaded for this step.
    """

    folder: Path
    digests: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""
    size: int = 0


@asynccontextmanager
async def fetched(
    cache: Path, interpreter: Interpreter, sets: tuple[RequirementLines, ...], policy: DownloadPolicy = DownloadPolicy()
) -> AsyncIterator[Wheels]:
    """Wheels for each set. Each set is resolved separately, because build and runtime requirements may conflict.

    The folder stays locked while the context is open. A cached download older than `FRESH_SECONDS` is refreshed; if the refresh
    is incomplete, for example without network, the old download is used, and the note says so. An incomplete download is cached
    for `RETRY_SECONDS`. Raises `DownloadRefused` if a bound of `policy` is exceeded; nothing is kept then.
    """
    dated = "" if all(map(_is_pinned, sets[0].requirements if sets else ())) else "Unpinned dependencies resolved as of {}."
    sets = _unique(sets)
    key = cache_key(interpreter, sets, policy)
    kept = await acquire(lambda: folder_cache.newest(cache, key), folder_cache.release)
    try:
        if kept is not None:
            missing = _missing(kept.folder)
            if time.time() - kept.made < (RETRY_SECONDS if missing else FRESH_SECONDS):
                note = dated.format(_day(kept.made))
                yield Wheels(kept.folder, missing=missing) if missing else Wheels(kept.folder, _digests(kept.folder), note=note)
                return
            if missing:
                await asyncio.to_thread(folder_cache.release, kept)
                kept = None
        fresh = await acquire(lambda: folder_cache.create(cache, key), folder_cache.release)
        try:
            try:
                missing = await _download_all(interpreter, sets, fresh.folder, policy)
            except DownloadRefused:
                if kept is None:
                    raise
                missing = tuple(requirement for lines in sets for requirement in lines.requirements)
            size = await asyncio.to_thread(disk.size, fresh.folder, policy.size)
            if missing and kept is None:  # another worker may have found everything meanwhile
                kept = await acquire(lambda: _complete(cache, key), folder_cache.release)
            if not missing or (kept is None and _has_wheels(fresh.folder)):
                if missing:
                    await asyncio.to_thread((fresh.folder / MISSING).write_text, json.dumps(missing))
                else:
                    await asyncio.to_thread(_write_digests, fresh.folder)
                if kept is not None:
                    await asyncio.to_thread(folder_cache.release, kept)
                    kept = None
                fresh = await asyncio.to_thread(folder_cache.keep, fresh, policy.cache)
            if missing and kept is not None:
                note = f"Some packages could not be refreshed; using those of {_day(kept.made)}."
                yield Wheels(kept.folder, _digests(kept.folder), note=note, size=size)
            elif missing:
                # If there is no wheel at all, the network may be at fault, and nothing was cached.
                yield Wheels(fresh.folder, missing=missing, size=size)
            else:
                yield Wheels(fresh.folder, _digests(fresh.folder), note=dated.format(_day(time.time())), size=size)
        finally:
            await asyncio.shield(asyncio.to_thread(folder_cache.release, fresh))
    finally:
        if kept is not None:
            await asyncio.shield(asyncio.to_thread(folder_cache.release, kept))


async def _download_all(
    interpreter: Interpreter, sets: tuple[RequirementLines, ...], into: Path, policy: DownloadPolicy
) -> tuple[str, ...]:
    """Download each set; returns the requirements that failed. Raises `DownloadRefused`."""
    if not sets:
        return ()
    scratch = into / SCRATCH
    await asyncio.to_thread(scratch.mkdir, 0o700)
    client = PipClient(interpreter, Download(policy, partial(disk.size, into, policy.size)), scratch, policy.strategy)
    missing: list[str] = []
    settings = await client.settings()
    for lines in sets:
        if settings is None:
            missing += lines.requirements
        else:
            missing += await _not_found(client, lines, settings, into)
    await asyncio.to_thread(disk.remove, scratch)
    return tuple(missing)


async def _not_found(client: PipClient, lines: RequirementLines, settings: Mapping[str, str], into: Path) -> list[str]:
    """The requirements without a wheel, or that need one. Halves are tried, as pip takes seconds to start for each alone."""
    if await client.fetch(lines, settings, into):
        return []
    if len(lines.requirements) == 1:
        return [*lines.requirements]
    half = len(lines.requirements) // 2
    first, second = (
        RequirementLines(part, lines.constraints) for part in (lines.requirements[:half], lines.requirements[half:])
    )
    missing = await _not_found(client, first, settings, into)
    if len(missing) == half > 1 and not _has_wheels(into):
        return [*lines.requirements]  # the index does not answer
    return missing + await _not_found(client, second, settings, into)


def _is_pinned(requirement: str) -> bool:
    """Whether `requirement` pins one version, as in a lock file."""
    return re.search(r"===?\s*[^\s,;*]+\s*(?:;|$)", requirement) is not None


def _day(made: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made))


def _write_digests(folder: Path) -> None:
    """Store the wheels' digests, because hashing large wheels takes seconds."""
    found = {}
    for file in sorted(folder.iterdir()):
        with file.open("rb") as content:
            found[file.name] = hashlib.file_digest(content, "sha256").hexdigest()
    (folder / DIGESTS).write_text(json.dumps(found))


def _digests(folder: Path) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(json.loads((folder / DIGESTS).read_text()).items()))


def _has_wheels(folder: Path) -> bool:
    return any(folder.glob("*.whl"))


def _complete(cache: Path, key: str) -> CacheEntry | None:
    """The newest entry, locked, if it lacks nothing."""
    entry = folder_cache.newest(cache, key)
    if entry is not None and _missing(entry.folder):
        folder_cache.release(entry)
        return None
    return entry


def _missing(folder: Path) -> tuple[str, ...]:
    file = folder / MISSING
    return tuple(json.loads(file.read_text())) if file.exists() else ()


def cache_key(interpreter: Interpreter, sets: tuple[RequirementLines, ...], policy: DownloadPolicy) -> str:
    """The cache key of `fetched`."""
    parts = [interpreter.version, interpreter.prefix, platform.machine(), policy.strategy]
    for lines in _unique(sets):
        parts += ["requirements", *sorted(lines.requirements), "constraints", *sorted(lines.constraints)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _unique(sets: tuple[RequirementLines, ...]) -> tuple[RequirementLines, ...]:
    return tuple(dict.fromkeys(lines for lines in sets if lines.requirements))
