"""On the machine: a set of wheels as one file, for transfer to the next machine."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

from sandbox.install import folder_cache


def packed(folder: Path, at_most: int) -> bytes:
    """The files of `folder` as a tar of at most `at_most` bytes; empty if larger. Blocks."""
    files = sorted(folder.iterdir())
    if sum(file.stat().st_size for file in files) > at_most:
        return b""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for file in files:
            tar.add(file, file.name)
    return content.getvalue() if content.tell() <= at_most else b""


def unpacked(cache: Path, key: str, bundle: Path) -> None:
    """Add the contents of a `packed` file to the cache: plain files with plain names only. Blocks."""
    fresh = folder_cache.create(cache, key)
    try:
        with tarfile.open(bundle, "r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() and "/" not in member.name else None
                if content is not None:
                    with (fresh.folder / member.name).open("xb") as file:
                        shutil.copyfileobj(content, file)
        fresh = folder_cache.commit(fresh)
    finally:
        folder_cache.release(fresh)
