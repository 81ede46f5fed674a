"""A folder on this machine as a case for the engine: its files in, a verified change back.

The folder belongs to the person who runs `selfheal fix`; it is read as git sees it (tracked and not ignored), and only `apply`
writes to it.
"""

from __future__ import annotations

import asyncio
import os
import tarfile
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO

from agent.task import Edits
from sandbox.base import MIB

# What a checkout without git also holds, and nobody means to send along.
_NEVER = frozenset(
    {".git", ".hg", ".venv", "venv", "node_modules", "__pycache__", ".tox", ".nox", ".mypy_cache", ".pytest_cache"}
)


class CheckoutChanged(Exception):
    """The checkout is not what was healed any more; nothing was written. `path` is relative to it."""

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} changed while the repair was made; nothing was written, run again")
        self.path = path


async def packed(root: Path) -> AsyncIterator[bytes]:
    """The checkout as a gzipped tar with one top folder, in chunks."""
    names = await _listed_by_git(root)
    with tempfile.TemporaryFile() as archive:
        await asyncio.to_thread(_write_archive, archive, root, names)
        archive.seek(0)
        while chunk := await asyncio.to_thread(archive.read, MIB):
            yield chunk


async def apply(root: Path, edits: Edits) -> None:
    """Write the changes into the checkout: all of them, or none. Raises `CheckoutChanged`."""
    await asyncio.to_thread(_apply, root, edits)


async def _listed_by_git(root: Path) -> list[str] | None:
    """Paths that git tracks or does not ignore; None where this is no git checkout."""
    try:
        process = await asyncio.create_subprocess_exec(
            "git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard",
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
    except FileNotFoundError:
        return None
    out, _ = await process.communicate()
    if process.returncode != 0:
        return None
    return sorted({os.fsdecode(name) for name in out.split(b"\0") if name})


def _walked(root: Path) -> Iterator[str]:
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _NEVER)
        for name in sorted(names):
            yield os.path.relpath(os.path.join(folder, name), root)


def _write_archive(archive: IO[bytes], root: Path, names: list[str] | None) -> None:
    # Fast rather than small: it only travels from this process to the sandbox.
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        for name in _walked(root) if names is None else names:
            full = root / name
            if full.is_symlink() or full.is_file():
                tar.add(full, arcname=f"checkout/{name}", recursive=False)


def _apply(root: Path, edits: Edits) -> None:
    for change in edits:
        file = root / change.path
        try:
            current = file.read_bytes().decode() if file.is_file() and not file.is_symlink() else None
        except (OSError, UnicodeDecodeError):
            current = None
        if current != change.before:
            raise CheckoutChanged(change.path)
    for change in edits:
        file = root / change.path
        if change.after is None:
            file.unlink()
            continue
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.selfheal")
        draft.write_bytes(change.after.encode())
        if change.before is not None:
            draft.chmod(file.stat().st_mode & 0o7777)
        draft.replace(file)
