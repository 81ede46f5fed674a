"""The files of a commit as CI had them: GitHub's archive, with what it leaves out.

GitHub's archives obey `export-ignore` in `.gitattributes`, which often names the tests, have empty folders for submodules, and
pointers for files of Git LFS. All of this is fetched and added. Submodules and files of Git LFS are added only if a workflow or
what it calls in the repository checks them out, because CI had none otherwise (and LFS has a quota). CI without a workflow is
given the submodules. What cannot be added is told in a note.

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
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import IO

from agent.contract import words
from app.github.errors import BadCredentials, Forbidden, GitHubError, NotFound, RateLimited
from app.github.repository import MIB, Repository
from app.github.types import TreeEntry
from sandbox.base import UnsafeArchive
from sandbox.host.archive import ArchiveLimits, Decompressor

_IGNORED = re.compile(rb"(?m)^[^#\n]*\sexport-ignore\b")
_LFS = re.compile(rb"(?m)^[^#\n]*\sfilter=lfs\b")
_CHECKS_OUT = re.compile(rb"(?m)^[ \t]*submodules:[ \t]*[\"']?(?:true|recursive)|\bgit[ \t]+submodule[ \t]+update\b")
_CHECKS_OUT_NESTED = re.compile(
    rb"(?m)^[ \t]*submodules:[ \t]*[\"']?recursive|\bgit[ \t]+submodule[ \t]+update\b.*--recursive\b"
)
_CALLS = re.compile(rb"(?m)^[ \t-]*uses:[ \t]*[\"']?\./([\w./-]+)")
_MOST_CALLED = 20  # workflows and actions of the repository that are read
_ATTRIBUTES, _MODULES = ".gitattributes", ".gitmodules"
_MOST_ATTRIBUTES = 20  # files of them that are read, those nearest to the top first
_PULLS = re.compile(rb"(?m)^[ \t]*lfs:[ \t]*[\"']?true|\bgit[ \t]+lfs[ \t]+(?:pull|fetch|checkout)\b")
# Pointers with other keys have contents that a program of the repository's would have to change.
# https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md#the-pointer
_POINTER = re.compile(rb"version https://git-lfs\.github\.com/spec/v1\noid sha256:([0-9a-f]{64})\nsize (\d{1,12})\n")
_POINTER_BYTES = 1024
_FILES, _FILE, _ALL = 300, 5 * MIB, 64 * MIB  # most files that are fetched one by one; bytes of one, and of all
_AT_ONCE = 8  # requests
_SUBMODULES, _MODULE_BYTES = 20, 128 * MIB  # most submodules, and bytes of all their archives
_LARGE, _LARGE_BYTES, _LARGE_SECONDS = 100, 256 * MIB, 300.0  # most objects of Git LFS; bytes of and seconds for all
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


@dataclass(frozen=True, slots=True)
class _Pointer:
    """What stands for a file of Git LFS."""

    oid: str
    size: int


@dataclass(frozen=True, slots=True)
class _Large:
    """The contents of Git LFS objects, one after the other in a file, with where each of them starts."""

    spool: IO[bytes]
    starts: Mapping[_Pointer, int]


async def files_of(sha: str, workflows: Iterable[bytes | None], repository: Repository) -> CommitFiles:
    """The files of a commit. `workflows` are the texts of the failed workflows. Raises `GitHubError`."""
    texts = await _with_called([text for text in workflows if text is not None], sha, repository)
    patterns = (_CHECKS_OUT, _CHECKS_OUT_NESTED, _PULLS)
    has_modules, has_nested, has_large = (any(pattern.search(text) for text in texts) for pattern in patterns)
    told: tuple[str, ...] = ()
    if not texts:
        has_modules = has_nested = True
        if _LFS.search(await repository.file(_ATTRIBUTES, sha) or b""):
            told = ("Of Git LFS, only the pointers are here: no workflow says whether CI pulls the files.",)
    tree = await repository.tree(sha)
    modules = await repository.file(_MODULES, sha) if has_modules else None
    has_ignored = await _has_ignored(tree, sha, repository)
    if modules is None and not has_ignored and not has_large:
        return CommitFiles(repository.archive(sha), told)
    if tree is None:
        why = "The commit has too many files to see what GitHub's archive leaves out."
        return CommitFiles(repository.archive(sha), (why, *told))
    spool = await _spooled(repository.archive(sha))
    there = await asyncio.to_thread(_listed, spool)
    if there is None:
        return CommitFiles(_read(spool))
    added, unread = await _left_out([entry for entry in tree if entry.type == _BLOB and entry.path not in there], repository)
    notes = [*told, *([f"GitHub's archive leaves out {words.named(unread)}, as `.gitattributes` asks."] if unread else [])]
    submodules = _Submodules(repository, has_nested)
    if modules is not None:
        await submodules.take(tree, modules, repository.ref.full_name)
        notes += submodules.notes
    pointers = {**there, **{each.entry.path: _pointer(each.content) for each in added}} if has_large else {}
    large = await _large({path: pointer for path, pointer in pointers.items() if pointer is not None}, repository, notes)
    return CommitFiles(_joined(spool, added, submodules.found, large), tuple(notes))


async def _with_called(texts: list[bytes], sha: str, repository: Repository) -> list[bytes]:
    """The texts of workflows, and of the workflows and actions of the repository that they call."""
    found, known = list(texts), set[str]()
    for text in found:  # grows
        for path in (match[1].decode().rstrip("/") for match in _CALLS.finditer(text)):
            if path in known or len(known) == _MOST_CALLED:
                continue
            known.add(path)
            files = [path] if path.endswith((".yml", ".yaml")) else [f"{path}/action.yml", f"{path}/action.yaml"]
            called = [await repository.file(each, sha) for each in files]
            found += [each for each in called if each is not None]
    return found


async def _has_ignored(tree: Sequence[TreeEntry] | None, sha: str, repository: Repository) -> bool:
    """Whether a `.gitattributes` in any folder lets archives leave something out; of a large tree, only the top one is read."""
    if tree is None:
        return _IGNORED.search(await repository.file(_ATTRIBUTES, sha) or b"") is not None
    files = [entry for entry in tree if entry.type == _BLOB and entry.path.rpartition("/")[2] == _ATTRIBUTES]
    files.sort(key=lambda entry: entry.path.count("/"))
    for entry in files[:_MOST_ATTRIBUTES]:
        if (entry.size or 0) <= _FILE and _IGNORED.search(await repository.blob(entry.sha)):
            return True
    return False


def _pointer(content: bytes) -> _Pointer | None:
    found = _POINTER.fullmatch(content) if len(content) <= _POINTER_BYTES else None
    return _Pointer(found[1].decode(), int(found[2])) if found is not None else None


async def _large(pointers: Mapping[str, _Pointer], repository: Repository, notes: list[str]) -> _Large:
    """The contents that the pointers stand for, by their paths; what is missing is added to the notes."""
    wanted: dict[str, _Pointer] = {}
    size = 0
    for pointer in pointers.values():
        if pointer.oid not in wanted and len(wanted) < _LARGE and size + pointer.size <= _LARGE_BYTES:
            wanted[pointer.oid] = pointer
            size += pointer.size
    spool, starts, why = tempfile.TemporaryFile(), dict[_Pointer, int](), ""  # noqa: SIM115 - closed by whoever reads it
    try:
        async with asyncio.timeout(_LARGE_SECONDS):
            links = await repository.large_files({oid: each.size for oid, each in wanted.items()}) if wanted else {}
            for oid, link in links.items():
                start = spool.seek(0, io.SEEK_END)
                async for chunk in repository.large_file(oid, wanted[oid].size, link):
                    await asyncio.to_thread(spool.write, chunk)
                starts[wanted[oid]] = start
    except (RateLimited, BadCredentials):
        spool.close()
        raise
    except (GitHubError, TimeoutError) as error:  # the attempt can do without it
        why = str(error).rstrip(".") or "the downloads took too long"
    except BaseException:
        spool.close()
        raise
    if missing := [path for path, pointer in pointers.items() if pointer not in starts]:
        is_wanted = all(wanted.get(pointers[path].oid) == pointers[path] for path in missing)
        why = why or ("GitHub does not have its content" if is_wanted else "they are too many or too large")
        notes.append(f"Of Git LFS, only the pointer is here for {words.named(missing)}: {why}.")
    return _Large(spool, starts)


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


@dataclass(slots=True)
class _Submodules:
    """Collects the archives of submodules; `is_deep`: with the submodules of submodules."""

    root: Repository
    is_deep: bool
    found: list[_Module] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    size: int = 0

    async def take(self, tree: Sequence[TreeEntry], modules: bytes, parent: str, folder: str = "") -> None:
        """`modules`: the text of `.gitmodules` beside the tree; `parent`: the full name of the repository that has both."""
        for entry in tree:
            if entry.type != _SUBMODULE:
                continue
            if len(self.found) + len(self.notes) >= _SUBMODULES:
                self.notes.append(f"Only {len(self.found)} of the submodules are here, as there are too many.")
                return
            owner = _repository_of(entry.path, modules, self.root.web_url, parent)
            await self._take_one(folder + entry.path, entry.sha, owner)

    async def _take_one(self, path: str, sha: str, owner: str | None) -> None:
        why = "it is not on this GitHub" if owner is None else "this installation cannot read it"
        for other in self.root.neighbour(owner) if owner is not None else ():
            try:
                archive = await _spooled(other.archive(sha, _MODULE_BYTES - self.size))
            except (RateLimited, BadCredentials):
                raise
            except (NotFound, Forbidden):
                continue
            except GitHubError as error:  # the attempt can do without it
                why = str(error).rstrip(".")
                break
            self.size += archive.tell()
            self.found.append(_Module(path, archive))
            if self.is_deep:
                await self._take_nested(path, sha, other)
            return
        self.notes.append(f"The submodule {words.code(path, 100)} is not here: {why}.")

    async def _take_nested(self, path: str, sha: str, of: Repository) -> None:
        try:
            modules = await of.file(_MODULES, sha)
            tree = await of.tree(sha) if modules is not None else ()
        except (RateLimited, BadCredentials):
            raise
        except GitHubError as error:
            self.notes.append(f"The submodules of {words.code(path, 100)} are not here: {str(error).rstrip('.')}.")
            return
        await self.take(tree or (), modules or b"", of.ref.full_name, f"{path}/")


def _repository_of(path: str, modules: bytes, web_url: str, parent: str) -> str | None:
    """ "octo/calc" for a submodule of this GitHub, from its URL in the `.gitmodules` of the repository `parent`."""
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(re.sub(r"(?m)^\s+", "", modules.decode("utf-8", "replace")))
    except configparser.Error:
        return None
    url = next((parser[name].get("url", "") for name in parser.sections() if parser[name].get("path", "") == path), "")
    if url.startswith(("./", "../")):
        url = posixpath.normpath(posixpath.join(f"{web_url}/{parent}", url).replace("://", ":"))
        url = url.replace(":", "://", 1)
    host = re.escape(web_url.partition("://")[2])
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


def _listed(packed: IO[bytes]) -> dict[str, _Pointer | None] | None:
    """The paths below the top folder, with the pointers among them; None if the archive cannot be read."""
    try:
        return {member.name.partition("/")[2]: _pointer(_small(tar, member)) for tar, member in _members(packed)}
    except (*_BROKEN, UnsafeArchive):
        return None


def _small(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """The content of a file that may be a pointer; b"" for any other entry."""
    content = tar.extractfile(member) if member.isreg() and member.size <= _POINTER_BYTES else None
    return content.read() if content is not None else b""


async def _read(packed: IO[bytes]) -> AsyncIterator[bytes]:
    with packed:
        packed.seek(0)
        while chunk := await asyncio.to_thread(packed.read, MIB):
            yield chunk


async def _joined(
    packed: IO[bytes], added: Sequence[_Added], modules: Sequence[_Module], large: _Large
) -> AsyncIterator[bytes]:
    """The archive with further files; as it is, if it cannot be read (the sandbox says why) or would become too large."""
    with ExitStack() as closing:
        for spool in (packed, large.spool, *(module.archive for module in modules)):
            closing.enter_context(spool)
        joined = closing.enter_context(tempfile.TemporaryFile())
        try:
            await asyncio.to_thread(_join, joined, packed, added, modules, large)
            source: IO[bytes] = joined if joined.tell() <= _LIMITS.packed else packed
        except (*_BROKEN, UnsafeArchive):
            source = packed
        async for chunk in _read(source):
            yield chunk


def _join(joined: IO[bytes], packed: IO[bytes], added: Sequence[_Added], modules: Sequence[_Module], large: _Large) -> None:
    top = ""
    # Fast rather than small: it only goes from this process to the sandbox.
    with tarfile.open(fileobj=joined, mode="w:gz", compresslevel=1) as target:
        for tar, member in _members(packed):
            top = top or member.name.partition("/")[0]
            _copy(member, tar, large, target)
        for each in added:
            _write(*_file(f"{top}/{each.entry.path}", each), large, target)
        for module in modules:
            for tar, member in _members(module.archive):
                if inner := member.name.partition("/")[2]:
                    member.name = f"{top}/{module.path}/{inner}"
                    member.pax_headers = {}  # of the old path; the header has what counts
                    _copy(member, tar, large, target)


def _copy(member: tarfile.TarInfo, source: tarfile.TarFile, large: _Large, target: tarfile.TarFile) -> None:
    _write(member, source.extractfile(member) if member.isreg() else None, large, target)


def _write(member: tarfile.TarInfo, content: IO[bytes] | None, large: _Large, target: tarfile.TarFile) -> None:
    """Write an entry; for a pointer, with what it stands for."""
    if content is not None and member.size <= _POINTER_BYTES:
        small = content.read()  # an archive cannot be read twice
        content, pointer = io.BytesIO(small), _pointer(small)
        if pointer is not None and pointer in large.starts:
            large.spool.seek(large.starts[pointer])
            content, member.size = large.spool, pointer.size
    target.addfile(member, content)
    target.members = []  # type: ignore[attr-defined]  # otherwise tarfile would keep every header


def _file(name: str, added: _Added) -> tuple[tarfile.TarInfo, io.BytesIO | None]:
    header = tarfile.TarInfo(name)
    if added.entry.mode == _LINK:
        header.type, header.linkname = tarfile.SYMTYPE, added.content.decode("utf-8", "surrogateescape")
        return header, None
    header.size, header.mode = len(added.content), 0o755 if added.entry.mode == _EXECUTABLE else 0o644
    return header, io.BytesIO(added.content)
