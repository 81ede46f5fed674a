"""Over there: the wheels of one question as one file, to be carried to the next machine."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

from sandbox.install import shelf


def packed(folder: Path, at_most: int) -> bytes:
    """The files of `folder` as a tar of at most so many bytes; nothing where they are more. Blocks."""
    files = sorted(folder.iterdir())
    if sum(file.stat().st_size for file in files) > at_most:
        return b""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for file in files:
            tar.add(file, file.name)
    return content.getvalue() if content.tell() <= at_most else b""


def unpacked(cache: Path, question: str, parcel: Path) -> None:
    """Put on the shelf what `packed` made. Blocks. Plain files alone, each with a plain name."""
    fresh = shelf.begin(cache, question)
    try:
        with tarfile.open(parcel, "r:") as tar:
            for member in tar:
                content = tar.extractfile(member) if member.isreg() and "/" not in member.name else None
                if content is not None:
                    with (fresh.folder / member.name).open("xb") as file:
                        shutil.copyfileobj(content, file)
        fresh = shelf.keep(fresh)
    finally:
        shelf.put_back(fresh)
