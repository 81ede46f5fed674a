"""The download step, outside the sandbox and without executing anything of the packages: wheels only.

The package client is pip, the worker's own copy, run by the interpreter that will run the code (so that markers and tags are
right) and with the operator's own configuration. What it brings is kept by what was asked for, so the same question needs no
network again.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import os
import platform
import shutil
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from sandbox import launch
from sandbox.base import InstallFailed
from sandbox.install.interpreters import Interpreter
from sandbox.install.requirements import Lines

SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Wheels:
    """A folder of wheels, and the requirements for which not every wheel was to be had."""

    folder: Path
    missing: tuple[str, ...] = ()


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


async def fetch(cache: Path, interpreter: Interpreter, sets: tuple[Lines, ...]) -> Wheels:
    """Wheels for each set (they are resolved apart: what builds a project need not agree with what it runs on)."""
    sets = tuple(dict.fromkeys(lines for lines in sets if lines.requirements))
    if not sets:
        empty = cache / "none"
        empty.mkdir(parents=True, exist_ok=True)
        return Wheels(empty)
    kept = cache / _key(interpreter, sets)
    if kept.is_dir():
        return Wheels(kept)
    fresh = cache / f"new-{token_hex(8)}"
    await asyncio.to_thread(fresh.mkdir, 0o755, True)
    try:
        missing: list[str] = []
        for lines in sets:
            if not await _download(interpreter, lines, fresh):
                for requirement in lines.requirements:
                    if not await _download(interpreter, Lines((requirement,), lines.constraints), fresh):
                        missing.append(requirement)
        if missing:
            # Not kept as the answer: what failed may have been the network.
            partial = cache / f"partial-{kept.name}"
            await asyncio.to_thread(shutil.copytree, fresh, partial, dirs_exist_ok=True)
            return Wheels(partial, tuple(missing))
        try:
            await asyncio.to_thread(fresh.rename, kept)
        except OSError:  # another attempt was faster
            if not kept.is_dir():
                raise
        return Wheels(kept)
    finally:
        await asyncio.to_thread(shutil.rmtree, fresh, True)


def _key(interpreter: Interpreter, sets: tuple[Lines, ...]) -> str:
    asked = [interpreter.version, interpreter.prefix, platform.machine()]
    for lines in sets:
        asked += ["requirements", *sorted(lines.requirements), "constraints", *sorted(lines.constraints)]
    return hashlib.sha256("\0".join(asked).encode()).hexdigest()[:32]


async def _download(interpreter: Interpreter, lines: Lines, into: Path) -> bool:
    asked, bounds = into.with_suffix(".requirements"), into.with_suffix(".constraints")
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
                os.environ,
                SECONDS,
            )
        )
    finally:
        asked.unlink()
        bounds.unlink()
    return ended.returncode == 0
