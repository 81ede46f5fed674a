"""The download step, outside the sandbox and without executing anything of the packages: wheels only.

The package client is pip, the worker's own copy, run by the interpreter that will run the code (so that markers and tags are
right) and with the operator's own configuration, but without the worker's other variables: pip puts them where the files it
reads say `${NAME}`. What it brings is kept by what was asked for (`shelf`), so the same question soon after needs no network.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import platform
import re
import shutil
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import InstallFailed
from sandbox.host import launch
from sandbox.install import shelf
from sandbox.install.python.interpreters import Interpreter
from sandbox.install.python.requirements import Lines
from sandbox.taking import taken

SECONDS = 900.0
FRESH_SECONDS = 86_400.0  # how long an answer counts as today's: what is not pinned moves on
DIGESTS = "digests.json"
_NEEDED = frozenset(
    (
        *("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS", "XDG_CACHE_HOME", "NETRC"),
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"),
    )
)


@dataclass(frozen=True, slots=True)
class Wheels:
    """A folder of wheels, the requirements for which not every wheel was to be had, and what is to be said of it.

    `digests` are (file name, SHA-256) of all of them; empty where something is missing.
    """

    folder: Path
    digests: tuple[tuple[str, str], ...] = ()
    missing: tuple[str, ...] = ()
    note: str = ""


def pip_folder() -> Path:
    """Where the worker's pip is. Raises `InstallFailed` when it has none."""
    found = importlib.util.find_spec("pip")
    if found is None or found.origin is None:
        raise InstallFailed("pip is missing in the worker's environment; install it there: python -m ensurepip")
    return Path(found.origin).parent


def uv_binary() -> Path | None:
    """The worker's uv, which installs several times faster than pip; None without it."""
    try:
        from uv import find_uv_bin

        return Path(find_uv_bin()).resolve()
    except (ImportError, FileNotFoundError):
        found = shutil.which("uv")
        return Path(found).resolve() if found else None


@asynccontextmanager
async def fetched(cache: Path, interpreter: Interpreter, sets: tuple[Lines, ...]) -> AsyncIterator[Wheels]:
    """Wheels for each set (they are resolved apart: what builds a project need not agree with what it runs on).

    The folder stays as long as the context is open. An answer from before `FRESH_SECONDS` is asked for again; where that
    does not bring everything, as when the network is away, the old one is used, and the note says so.
    """
    dated = "" if all(map(_is_pinned, sets[0].requirements if sets else ())) else "Versions that nothing pins are those of {}."
    sets = _asked(sets)
    asked = question(interpreter, sets)
    kept = await taken(lambda: shelf.newest(cache, asked), shelf.put_back)
    try:
        if kept is not None and time.time() - kept.made < FRESH_SECONDS:
            yield Wheels(kept.folder, _digests(kept.folder), note=dated.format(_day(kept.made)))
            return
        fresh = await taken(lambda: shelf.begin(cache, asked), shelf.put_back)
        try:
            missing = await _download_all(interpreter, sets, fresh.folder)
            if not missing:
                await asyncio.to_thread(_write_digests, fresh.folder)
                fresh = await asyncio.to_thread(shelf.keep, fresh)
                if kept is not None:
                    await asyncio.to_thread(shelf.put_back, kept)
                    kept = None
                await asyncio.to_thread(shelf.sweep, cache)
            if missing and kept is not None:
                note = f"Not all packages could be had anew; those of {_day(kept.made)} are used."
                yield Wheels(kept.folder, _digests(kept.folder), note=note)
            elif missing:
                # It is no answer to keep: what failed may have been the network.
                yield Wheels(fresh.folder, missing=missing)
            else:
                yield Wheels(fresh.folder, _digests(fresh.folder), note=dated.format(_day(time.time())))
        finally:
            await asyncio.shield(asyncio.to_thread(shelf.put_back, fresh))
    finally:
        if kept is not None:
            await asyncio.shield(asyncio.to_thread(shelf.put_back, kept))


async def _download_all(interpreter: Interpreter, sets: tuple[Lines, ...], into: Path) -> tuple[str, ...]:
    """The requirements that could not be had."""
    missing: list[str] = []
    for lines in sets:
        if not await _download(interpreter, lines, into):
            for requirement in lines.requirements:
                if not await _download(interpreter, Lines((requirement,), lines.constraints), into):
                    missing.append(requirement)
    return tuple(missing)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Of the worker's `variables` those that the package client needs: none of them is a secret of ours."""
    return {name: value for name, value in variables.items() if name.startswith("PIP_") or name.upper() in _NEEDED}


def _is_pinned(requirement: str) -> bool:
    """Whether `requirement` leaves no choice of versions: what a lock file wrote."""
    return re.search(r"===?\s*[^\s,;*]+\s*(?:;|$)", requirement) is not None


def _day(made: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(made))


def _write_digests(folder: Path) -> None:
    """Once, as the folder is never changed again: large wheels take seconds to read."""
    found = {}
    for file in sorted(folder.iterdir()):
        with file.open("rb") as content:
            found[file.name] = hashlib.file_digest(content, "sha256").hexdigest()
    (folder / DIGESTS).write_text(json.dumps(found))


def _digests(folder: Path) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(json.loads((folder / DIGESTS).read_text()).items()))


def question(interpreter: Interpreter, sets: tuple[Lines, ...]) -> str:
    """What the answer to `fetched` is kept by."""
    asked = [interpreter.version, interpreter.prefix, platform.machine()]
    for lines in _asked(sets):
        asked += ["requirements", *sorted(lines.requirements), "constraints", *sorted(lines.constraints)]
    return hashlib.sha256("\0".join(asked).encode()).hexdigest()[:32]


def _asked(sets: tuple[Lines, ...]) -> tuple[Lines, ...]:
    return tuple(dict.fromkeys(lines for lines in sets if lines.requirements))


async def _download(interpreter: Interpreter, lines: Lines, into: Path) -> bool:
    asked, bounds = into / "requirements.txt", into / "constraints.txt"
    await asyncio.to_thread(asked.write_text, "\n".join(lines.requirements) + "\n")
    await asyncio.to_thread(bounds.write_text, "\n".join(lines.constraints) + "\n")
    try:
        ended = await launch.run(
            launch.Launch(
                (
                    *(interpreter.path, "-I", str(pip_folder() / "__pip-runner__.py"), "download", "--quiet", "--no-input"),
                    *("--disable-pip-version-check", "--only-binary", ":all:", "--dest", str(into)),
                    *("--requirement", str(asked), "--constraint", str(bounds)),
                ),
                environment(os.environ),
                SECONDS,
            )
        )
    finally:
        asked.unlink()
        bounds.unlink()
    return ended.returncode == 0
