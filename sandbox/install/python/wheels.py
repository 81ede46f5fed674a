"""The download step: downloads wheels only, outside the sandbox, and executes none of their code.

The package client is the worker's pip, run by the interpreter that will run the code (so that markers and tags match) with the
operator's configuration, but without the worker's other variables: pip substitutes `${NAME}` in the files it reads. Downloads
are cached by what was requested (`folder_cache`).
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import platform
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import InstallFailed
from sandbox.host import launch
from sandbox.host.folder_locks import acquire
from sandbox.install import folder_cache
from sandbox.install.python.interpreters import Interpreter, client_environment
from sandbox.install.python.requirements import RequirementLines

SECONDS = 900.0
FRESH_SECONDS = 86_400.0  # age at which a download is refreshed, since unpinned dependencies get new versions
DIGESTS = "digests.json"


@dataclass(frozen=True, slots=True)
class Wheels:
    """A folder of wheels, the requirements without a complete set of wheels, and a note for people.

    `digests` are (file name, SHA-256) of all wheels; empty if any is missing.
    """

    folder: Path
    digests: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""


def pip_folder() -> Path:
    """The folder of the worker's pip. Raises `InstallFailed` without one."""
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        raise InstallFailed("pip is missing in the worker's environment; install it there: python -m ensurepip")
    return Path(found.origin).parent


@asynccontextmanager
async def fetched(cache: Path, interpreter: Interpreter, sets: tuple[RequirementLines, ...]) -> AsyncIterator[Wheels]:
    """Wheels for each set. Each set is resolved separately, because build and runtime requirements may conflict.

    The folder stays locked while the context is open. A cached download older than `FRESH_SECONDS` is refreshed; if the refresh
    is incomplete, for example without network, the old download is used, and the note says so.
    """
    dated = "" if all(map(_is_pinned, sets[0].requirements if sets else ())) else "Unpinned dependencies resolved as of {}."
    sets = _unique(sets)
    key = cache_key(interpreter, sets)
    kept = await acquire(lambda: folder_cache.newest(cache, key), folder_cache.release)
    try:
        if kept is not None and time.time() - kept.made < FRESH_SECONDS:
            yield Wheels(kept.folder, _digests(kept.folder), note=dated.format(_day(kept.made)))
            return
        fresh = await acquire(lambda: folder_cache.create(cache, key), folder_cache.release)
        try:
            missing = await _download_all(interpreter, sets, fresh.folder)
            if not missing:
                await asyncio.to_thread(_write_digests, fresh.folder)
                fresh = await asyncio.to_thread(folder_cache.commit, fresh)
                if kept is not None:
                    await asyncio.to_thread(folder_cache.release, kept)
                    kept = None
                await asyncio.to_thread(folder_cache.prune, cache)
            if missing and kept is not None:
                note = f"Some packages could not be refreshed; using those of {_day(kept.made)}."
                yield Wheels(kept.folder, _digests(kept.folder), note=note)
            elif missing:
                # Not cached, because the network may have caused the failure.
                yield Wheels(fresh.folder, missing=missing)
            else:
                yield Wheels(fresh.folder, _digests(fresh.folder), note=dated.format(_day(time.time())))
        finally:
            await asyncio.shield(asyncio.to_thread(folder_cache.release, fresh))
    finally:
        if kept is not None:
            await asyncio.shield(asyncio.to_thread(folder_cache.release, kept))


async def _download_all(interpreter: Interpreter, sets: tuple[RequirementLines, ...], into: Path) -> tuple[str, ...]:
    """Download each set; returns the requirements that failed."""
    missing: list[str] = []
    for lines in sets:
        if not await _download(interpreter, lines, into):
            for requirement in lines.requirements:
                if not await _download(interpreter, RequirementLines((requirement,), lines.constraints), into):
                    missing.append(requirement)
    return tuple(missing)


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


def cache_key(interpreter: Interpreter, sets: tuple[RequirementLines, ...]) -> str:
    """The cache key of `fetched`."""
    parts = [interpreter.version, interpreter.prefix, platform.machine()]
    for lines in _unique(sets):
        parts += ["requirements", *sorted(lines.requirements), "constraints", *sorted(lines.constraints)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _unique(sets: tuple[RequirementLines, ...]) -> tuple[RequirementLines, ...]:
    return tuple(dict.fromkeys(lines for lines in sets if lines.requirements))


async def _download(interpreter: Interpreter, lines: RequirementLines, into: Path) -> bool:
    requirements, constraints = into / "requirements.txt", into / "constraints.txt"
    await asyncio.to_thread(requirements.write_text, "\n".join(lines.requirements) + "\n")
    await asyncio.to_thread(constraints.write_text, "\n".join(lines.constraints) + "\n")
    try:
        ended = await launch.run(
            launch.Launch(
                (
                    *(interpreter.path, "-I", str(pip_folder() / "__pip-runner__.py"), "download", "--quiet", "--no-input"),
                    *("--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(into)),
                    *("--requirement", str(requirements), "--constraint", str(constraints)),
                ),
                client_environment(os.environ),
                SECONDS,
            )
        )
    finally:
        requirements.unlink()
        constraints.unlink()
    return ended.returncode == 0
