"""Source releases of published packages: downloaded with the operator's pip configuration, checked by hash, read as data.

pip asks a source release for its metadata, which runs its build script on this machine, so only releases that a manifest pins
by hash are downloaded. Their files are then read from the archive in memory.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex

from agent.bench.lab import NotPosed
from agent.source.archive import File
from sandbox.base import MIB
from sandbox.host import disk
from sandbox.install.download import Download, DownloadPolicy, DownloadRefused
from sandbox.install.python.interpreters import client_environment

_Member = tuple[str, int, Callable[[], bytes], bool]
"""Path, unpacked size in bytes, a function that reads it, whether it is executable."""

LARGEST = 256 * MIB  # bytes of one release, unpacked
POLICY = DownloadPolicy(  # with what pip needs to build the metadata
    4 * LARGEST, 600.0, size_hint="leave this release out", seconds_hint="check the connection to the package index"
)


async def release(name: str, version: str, sha256: str, cache: Path) -> dict[str, File]:
    """The regular files of a release, without its top folder. Raises `NotPosed`."""
    archive = cache / sha256
    if not await asyncio.to_thread(archive.is_file):
        await _download(name, version, sha256, archive)
    content = await asyncio.to_thread(archive.read_bytes)
    if hashlib.sha256(content).hexdigest() != sha256:
        raise NotPosed(f"{archive} no longer matches the hash of {name} {version}; remove it and run again")
    try:
        return await asyncio.to_thread(lambda: dict(_files(content)))
    except (tarfile.TarError, zipfile.BadZipFile, OSError, EOFError) as error:
        raise NotPosed(f"the release {name} {version} cannot be unpacked: {error}") from error


async def _download(name: str, version: str, sha256: str, archive: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked, into = Path(folder, "asked.txt"), Path(folder, "got")
        await asyncio.to_thread(asked.write_text, f"{name}=={version} --hash=sha256:{sha256}\n")
        argv = (
            *(sys.executable, "-I", "-m", "pip", "download", "--quiet", "--no-input", "--disable-pip-version-check"),
            "--no-cache-dir",
            *("--no-deps", "--no-binary", name, "--require-hashes", "--dest", str(into), "--requirement", str(asked)),
        )
        try:
            ended = await Download(POLICY, partial(disk.size, Path(folder), POLICY.size), f"{name} {version}").run(
                argv, client_environment(os.environ) | {"TMPDIR": folder}
            )
        except DownloadRefused as refused:
            raise NotPosed(refused.reason) from refused
        if ended.returncode != 0:
            said = ended.stderr.decode(errors="replace").strip().split("\n")[-1][:300]
            raise NotPosed(f"the release {name} {version} cannot be downloaded: {said}")
        await asyncio.to_thread(_put, into, archive)


def _put(folder: Path, archive: Path) -> None:
    """Copy the only file of `folder` to `archive`, atomically."""
    (got,) = folder.iterdir()
    archive.parent.mkdir(parents=True, exist_ok=True)
    draft = archive.with_name(f"{archive.name}.{token_hex(6)}")
    shutil.copyfile(got, draft)
    draft.replace(archive)


def _files(content: bytes) -> Iterator[tuple[str, File]]:
    """Path and file of each regular member. Raises the archive reader's errors."""
    total = 0
    for path, size, read, executable in _zipped(content) if zipfile.is_zipfile(io.BytesIO(content)) else _tarred(content):
        total += size
        if total > LARGEST:
            raise OSError(f"it contains more than {LARGEST // MIB} MiB")
        inside = path.partition("/")[2]
        if inside and not inside.endswith("/") and ".." not in inside.split("/"):
            yield inside, File(read(), executable)


def _tarred(content: bytes) -> Iterator[_Member]:
    with tarfile.open(fileobj=io.BytesIO(content)) as tar:
        for member in tar:
            if member.isreg():
                stream = tar.extractfile(member)
                assert stream is not None, "it is a regular file"
                yield member.name, member.size, stream.read, bool(member.mode & 0o100)


def _zipped(content: bytes) -> Iterator[_Member]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        for member in archive.infolist():
            yield member.filename, member.file_size, partial(archive.read, member), False
