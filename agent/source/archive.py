"""A repository's files as values, and as the archive from which a sandbox is filled."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

CHUNK = 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class File:
    content: bytes  # of a link, its target
    executable: bool = False
    link: bool = False


Files = Mapping[str, File]
"""A repository: POSIX paths relative to its root."""


async def packed(files: Files) -> AsyncIterator[bytes]:
    """The repository as a gzipped tar with one top folder, in chunks."""
    archive = io.BytesIO()
    # Fast rather than small: it only travels from this process to the sandbox.
    with tarfile.open(fileobj=archive, mode="w:gz", compresslevel=1) as tar:
        top = tarfile.TarInfo("repository")
        top.type, top.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(top)
        for path, file in sorted(files.items()):
            header = tarfile.TarInfo(f"repository/{path}")
            if file.link:
                header.type, header.linkname = tarfile.SYMTYPE, os.fsdecode(file.content)
                tar.addfile(header)
                continue
            header.size, header.mode = len(file.content), 0o755 if file.executable else 0o644
            tar.addfile(header, io.BytesIO(file.content))
    archive.seek(0)
    while chunk := archive.read(CHUNK):
        yield chunk
