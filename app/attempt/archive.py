"""The files of a commit as CI had them: GitHub's archive, with what it leaves out.

GitHub's archives obey `export-ignore` in `.gitattributes`, which often names the tests, and have empty folders for submodules.
Both are read through the API and added. Submodules are added only if a workflow checks them out, because CI had none otherwise.
What cannot be added is told in a note.

https://docs.github.com/repositories/working-with-files/using-files/downloading-source-code-archives
https://git-scm.com/docs/gitattributes#_creating_an_archive
"""

from __future__ import annotations

import asyncio
import configparser
import gzip
import io
import posixpath
import re
import tarfile
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import IO

from agent.contract import words
from app.github.errors import BadCredentials, Forbidden, GitHubError, NotFound, RateLimited
from app.github.repository import MIB, Repository
from app.github.types import TreeEntry
from sandbox.base import UnsafeArchive
from sandbox.host.archive import ArchiveLimits, Decompressor

_IGNORED = re.compile(rb"(?m)^[^#\n]*\sexport-ignore\b")
_CHECKS_OUT = re.compile(rb"(?m)^[ \t]*submodules:[ \t]*[\"']?(?:true|recursive)|\bgit[ \t]+submodule[ \t]+update\b")
_FILES, _FILE, _ALL = 300, 5 * MIB, 64 * MIB  # most files that are fetched one by one; bytes of one, and of all
_AT_ONCE = 8  # requests
_SUBMODULES, _MODULE_BYTES = 20, 128 * MIB  # most submodules, and bytes of all their archives
_BLOB, _SUBMODULE, _LINK, _EXECUTABLE = "blob", "commit", "120000", "100755"
_LIMITS = ArchiveLimits()
_BROKEN = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError)


@dataclass(frozen=True, slots=True)
class CommitFiles:
    """`archive` is a gzipped tar with one top folder, read once; `notes` say what it lacks, for people."""

    archive: AsyncIterator[bytes]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Added:
    entry: TreeEntry
    content: bytes


@dataclass(frozen=True, slots=True)
class _Module:
    path: str
    archive: IO[bytes]


async def files_of(sha: str, workflows: Iterable[bytes | None], repository: Repository) -> CommitFiles:
    """The files of a commit; `workflows` are the texts of those that failed. Raises `GitHubError`."""
    attributes = await repository.file(".gitattributes", sha) or b""
    has_modules = any(_CHECKS_OUT.search(text) for text in workflows if text is not None)
    modules = await repository.file(".gitmodules", sha) if has_modules else None
    if modules is None and not _IGNORED.search(attributes):
        return CommitFiles(repository.archive(sha))
    tree = await repository.tree(sha)
    if tree is None:
        return CommitFiles(repository.archive(sha), ("The commit has too many files to see what GitHub's archive leaves out.",))
    spool = await _spooled(repository.archive(sha))
    there = await asyncio.to_thread(_names, spool)
    if there is None:
        return CommitFiles(_read(spool))
    added, unread = await _left_out([entry for entry in tree if entry.type == _BLOB and entry.path not in there], repository)
    notes = [f"GitHub's archive leaves out {words.named(unread)}, as `.gitattributes` asks."] if unread else []
    submodules = [entry for entry in tree if entry.type == _SUBMODULE] if modules is not None else []
    found, size = list[_Module](), 0
    for entry in submodules[:_SUBMODULES]:
        archive = await _submodule(entry, modules or b"", repository, _MODULE_BYTES - size)
        if isinstance(archive, str):
            notes.append(archive)
        else:
            size += archive.tell()
            found.append(_Module(entry.path, archive))
    if submodules[_SUBMODULES:]:
        notes.append(f"Only {_SUBMODULES} of {len(submodules)} submodules are here.")
    return CommitFiles(_joined(spool, added, found), tuple(notes))


async def _left_out(entries: Sequence[TreeEntry], repository: Repository) -> tuple[list[_Added], list[str]]:
    """The files that the archive lacks, and the paths of those that are too many or too large."""
    wanted: list[TreeEntry] = []
    size = 0
    for entry in entries:
        if len(wanted) < _FILES and (entry.size or 0) <= _FILE and size + (entry.size or 0) <= _ALL:
            wanted.append(entry)
            size += entry.size or 0
    added: list[_Added] = []
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        contents = await asyncio.gather(*(repository.blob(entry.sha) for entry in some))
        added += [_Added(entry, content) for entry, content in zip(some, contents, strict=True)]
    known = {entry.path for entry in wanted}
    return added, [entry.path for entry in entries if entry.path not in known]


async def _submodule(entry: TreeEntry, modules: bytes, repository: Repository, limit: int) -> IO[bytes] | str:
    """The archive of a submodule's commit, or a note."""
    owner = _repository_of(entry.path, modules, repository)
    why = "it is not on this GitHub" if owner is None else "this installation cannot read it"
    for other in repository.neighbour(owner) if owner is not None else ():
        try:
            return await _spooled(other.archive(entry.sha, limit))
        except (RateLimited, BadCredentials):
            raise
        except (NotFound, Forbidden):
            continue
        except GitHubError as error:  # the attempt can do without it
            why = str(error).rstrip(".")
            break
    return f"The submodule {words.code(entry.path, 100)} is not here: {why}."


def _repository_of(path: str, modules: bytes, repository: Repository) -> str | None:
    """ "octo/calc" for a submodule of this GitHub, from its URL in `.gitmodules`."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(re.sub(r"(?m)^\s+", "", modules.decode("utf-8", "replace")))
    except configparser.Error:
        return None
    url = next((parser[name].get("url", "") for name in parser.sections() if parser[name].get("path", "") == path), "")
    if url.startswith(("./", "../")):
        url = posixpath.normpath(posixpath.join(f"{repository.web_url}/{repository.ref.full_name}", url).replace("://", ":"))
        url = url.replace(":", "://", 1)
    host = re.escape(repository.web_url.partition("://")[2])
    where = rf"(?:https?://(?:[^@/]*@)?{host}/|(?:ssh://)?git@{host}[:/])"
    known = re.fullmatch(rf"{where}([\w.-]{{1,39}}/[\w.-]{{1,100}}?)(?:\.git)?/?", url, re.ASCII)
    return known[1] if known is not None and ".." not in known[1] else None


async def _spooled(archive: AsyncIterator[bytes]) -> IO[bytes]:
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - closed by whoever reads it
    try:
        async for chunk in archive:
            await asyncio.to_thread(spool.write, chunk)
    except BaseException:
        spool.close()
        raise
    return spool


def _members(packed: IO[bytes]) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Raises `UnsafeArchive`, `tarfile.TarError`."""
    size = packed.seek(0, io.SEEK_END)
    packed.seek(0)
    with tarfile.open(fileobj=Decompressor(packed, size, _LIMITS), mode="r:") as tar:  # type: ignore[call-overload]
        for count, member in enumerate(tar):
            if count > _LIMITS.entries:
                raise UnsafeArchive(f"the archive has more than {_LIMITS.entries} entries")
            yield tar, member
            tar.members = []  # otherwise tarfile would keep every header


def _names(packed: IO[bytes]) -> frozenset[str] | None:
    """The paths below the top folder; None if the archive cannot be read."""
    try:
        return frozenset(member.name.partition("/")[2] for _, member in _members(packed))
    except (*_BROKEN, UnsafeArchive):
        return None


async def _read(packed: IO[bytes]) -> AsyncIterator[bytes]:
    with packed:
        packed.seek(0)
        while chunk := await asyncio.to_thread(packed.read, MIB):
            yield chunk


async def _joined(packed: IO[bytes], added: Sequence[_Added], modules: Sequence[_Module]) -> AsyncIterator[bytes]:
    """The archive with further files; as it is, if it cannot be read (the sandbox says why) or would become too large."""
    with ExitStack() as closing:
        for spool in (packed, *(module.archive for module in modules)):
            closing.enter_context(spool)
        joined = closing.enter_context(tempfile.TemporaryFile())
        try:
            await asyncio.to_thread(_join, joined, packed, added, modules)
            source: IO[bytes] = joined if joined.tell() <= _LIMITS.packed else packed
        except (*_BROKEN, UnsafeArchive):
            source = packed
        async for chunk in _read(source):
            yield chunk


def _join(joined: IO[bytes], packed: IO[bytes], added: Sequence[_Added], modules: Sequence[_Module]) -> None:
    top = ""
    # Fast rather than small: it only goes from this process to the sandbox.
    with tarfile.open(fileobj=joined, mode="w:gz", compresslevel=1) as target:
        for tar, member in _members(packed):
            top = top or member.name.partition("/")[0]
            _copy(member, tar, target)
        for each in added:
            target.addfile(*_file(f"{top}/{each.entry.path}", each))
        for module in modules:
            for tar, member in _members(module.archive):
                if inner := member.name.partition("/")[2]:
                    member.name = f"{top}/{module.path}/{inner}"
                    member.pax_headers = {}  # of the old path; the header has what counts
                    _copy(member, tar, target)


def _copy(member: tarfile.TarInfo, source: tarfile.TarFile, target: tarfile.TarFile) -> None:
    target.addfile(member, source.extractfile(member) if member.isreg() else None)
    target.members = []  # type: ignore[attr-defined]  # otherwise tarfile would keep every header


def _file(name: str, added: _Added) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    header = tarfile.TarInfo(name)
    if added.entry.mode == _LINK:
        header.type, header.linkname = tarfile.SYMTYPE, added.content.decode("utf-8", "surrogateescape")
        return header, None
    header.size, header.mode = len(added.content), 0o755 if added.entry.mode == _EXECUTABLE else 0o644
    return header, io.BytesIO(added.content)
