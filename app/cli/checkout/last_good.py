"""Finds the commits of a checkout that may be the last good one, and what changed since.

Reads only git's objects and the files that are packed: no filter, hook or external diff of the checkout's configuration runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from agent.contract import words
from agent.contract.last_good import MESSAGES, ChangedFile, LastGood
from agent.edits.changes import EDITABLE
from app.cli.checkout.checkout import CheckoutFiles, git, paths_of
from sandbox.base import MIB
from sandbox.host.git import batch_contents

MOST_FILES = 1_000  # that differ from a good commit; with more, it is too far away to explain a failure
LARGEST = 64 * MIB  # of their contents at the good commit
_FILE, _EXECUTABLE, _LINK, _MODULE = "100644", "100755", "120000", "160000"
_CONVERTING = ("filter", "ident", "working-tree-encoding")  # attributes
_Listed = Mapping[str, tuple[str, str]]  # path → mode and object id


class NoSuchRevision(Exception):
    """`--good` names no commit to compare with; the message says why."""


class UnknownDifference(Exception):
    """What changed since a commit cannot be told; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class CheckoutHistory:
    """The commits before HEAD, along first parents, compared with the files as they were when the checkout was read."""

    root: Path
    now: _Now

    async def before(self, count: int) -> LastGood | None:
        shown = await git(self.root, "rev-list", "--first-parent", "--max-count=1", f"--skip={count}", "HEAD")
        commit = (shown or b"").decode().strip()
        if not commit:
            return None
        name = f"the parent commit {commit[:10]}" if count == 1 else f"commit {commit[:10]} ({count} commits ago)"
        subject = await git(self.root, "show", "-s", "--format=%s", commit)
        try:
            found = await _compared(self.root, commit, name, self.now)
        except UnknownDifference:
            return None
        return replace(found, subject=(subject or b"").decode("utf-8", "replace").strip())


@dataclass(frozen=True, slots=True)
class Known:
    """What a checkout tells about good commits."""

    good: tuple[LastGood, ...] = ()  # the likely ones, the nearest first
    history: CheckoutHistory | None = None
    notes: tuple[str, ...] = ()


async def last_good(root: Path, files: CheckoutFiles, revision: str | None) -> Known:
    """The likely good commits: the last commit if files changed since, its parent, the merge base; and the commits before.

    With a `revision`, only that, and a note if it is of no use. Nothing without git or history. Raises `NoSuchRevision`.
    """
    if files.names is None:
        if revision is not None:
            raise NoSuchRevision(f"--good {revision!r}: {root} is not a git checkout")
        return Known()
    notes: list[str] = []
    if revision is not None:
        commit = await _commit(root, revision)
        if commit is None:
            raise NoSuchRevision(f"--good {revision!r} is not a commit of this checkout; see `git log --oneline`")
        named = [(commit, f"commit {commit[:10]}")]
        if await git(root, "merge-base", "--is-ancestor", commit, "HEAD") is None:
            notes.append(f"commit {commit[:10]} is no ancestor of HEAD, so the comparison shows more than what changed since")
    else:
        named = await _named(root)
    now = await _now(root, files.names)
    found: list[LastGood] = []
    for commit, name in named:
        try:
            good = await _compared(root, commit, name, now)
        except UnknownDifference as why:
            notes.append(f"there is no comparison with {name}: {why}")
            continue
        if good.files:
            said = await git(root, "log", "--no-show-signature", "--max-count=50", "--format=%B", f"{commit}..HEAD", "--")
            found.append(replace(good, messages=(said or b"").decode("utf-8", "replace")[:MESSAGES]))
        elif revision is not None:
            what = f"only {words.named(good.unread)} changed since" if good.unread else f"no file differs from {name}"
            told = f"{what}, so a comparison tells nothing; name a commit before the break, such as HEAD~1"
            raise NoSuchRevision(f"--good {revision!r}: {told}")
    if revision is not None:
        return Known(tuple(found), notes=tuple(notes))
    is_cut = not found and await git(root, "rev-parse", "--is-shallow-repository") == b"true\n"
    cut = ("this clone is shallow, so older commits are not compared; `git fetch --unshallow` gets them",) if is_cut else ()
    return Known(tuple(found), CheckoutHistory(root, now), cut)


async def _named(root: Path) -> list[tuple[str, str]]:
    """Commits and what to call them. Branch names are left out: they are foreign text."""
    wanted = [("HEAD", "the last commit ({})"), ("HEAD~1", "the parent commit {}")]
    found: dict[str, str] = {}
    for revision, name in wanted:
        if (commit := await _commit(root, revision)) is not None:
            found.setdefault(commit, name.format(commit[:10]))
    for branch in ("refs/remotes/origin/HEAD", "refs/heads/main", "refs/heads/master"):
        base = await git(root, "merge-base", "HEAD", branch)
        if base is not None:
            commit = base.decode().strip()
            found.setdefault(commit, f"the merge base with the default branch ({commit[:10]})")
            break
    return list(found.items())


async def _commit(root: Path, revision: str) -> str | None:
    shown = await git(root, "rev-parse", "--verify", "-q", "--end-of-options", f"{revision}^{{commit}}")
    return shown.decode().strip() if shown is not None else None


@dataclass(frozen=True, slots=True)
class _Now:
    """The checkout as it is, with the object ids that git would give to its files."""

    files: _Listed  # files and links, without the converted ones
    crlf: frozenset[str]  # files with CRLF line endings that git stores with LF
    staged: _Listed  # git's index
    converted: frozenset[str]  # files whose content git stores in another form, by filters such as LFS
    has_modes: bool  # does the file system keep the executable bit?


async def _now(root: Path, names: Sequence[str]) -> _Now:
    staged = _listed(await git(root, "ls-files", "-s", "-z"), at=1)
    converted = await _converted(root, names)
    is_crlf = await _setting(root, "core.autocrlf") == "true"
    crlf_names = frozenset(names if is_crlf else await _with_attribute(root, names, {"eol": ("crlf",)}))
    algorithm = (await git(root, "rev-parse", "--show-object-format") or b"sha1").decode().strip()

    def read() -> tuple[dict[str, tuple[str, str]], frozenset[str]]:
        files: dict[str, tuple[str, str]] = {}
        crlf: set[str] = set()
        for name in names:
            if name in converted:
                continue
            with suppress(OSError):  # packing reports what cannot be read
                mode, raw, stored = _hashed(root / name, algorithm)
                known = staged.get(name, ("", ""))[1]
                if stored and known and raw != known and (stored == known or name in crlf_names):
                    crlf.add(name)
                files[name] = (mode, stored if name in crlf else raw)
        return files, frozenset(crlf)

    files, crlf = await asyncio.to_thread(read)
    return _Now(files, crlf, staged, converted, await _setting(root, "core.fileMode") != "false")


async def _setting(root: Path, name: str) -> str:
    return (await git(root, "config", "--get", name) or b"").decode("utf-8", "replace").strip().lower()


async def _converted(root: Path, names: Sequence[str]) -> frozenset[str]:
    return await _with_attribute(root, names, dict.fromkeys(_CONVERTING, ()))


async def _with_attribute(root: Path, names: Sequence[str], wanted: Mapping[str, Sequence[str]]) -> frozenset[str]:
    """The files with one of these attributes set to one of its values; to any value, if none is given."""
    asked = "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")
    told = paths_of(await git(root, "check-attr", "-z", "--stdin", *wanted, stdin=asked) or b"")
    facts = zip(told[::3], told[1::3], told[2::3], strict=False)
    return frozenset(
        path
        for path, name, value in facts
        if (value in wanted[name] if wanted[name] else value not in ("unspecified", "unset"))
    )


def _hashed(file: Path, algorithm: str) -> tuple[str, str, str]:
    """Mode and object id of a file or link, and the object id with LF line endings if all are CRLF. Raises `OSError`."""
    if file.is_symlink():
        return _LINK, _object_id(os.fsencode(os.readlink(file)), algorithm), ""
    if not file.is_file():
        raise FileNotFoundError(file)
    with file.open("rb") as content:
        what = os.fstat(content.fileno())
        mode = _EXECUTABLE if what.st_mode & 0o100 else _FILE
        if what.st_size <= EDITABLE:
            whole = content.read()
            is_crlf = b"\r\n" in whole and b"\0" not in whole and whole.count(b"\r\n") == whole.count(b"\n")
            stored = _object_id(whole.replace(b"\r\n", b"\n"), algorithm) if is_crlf else ""
            return mode, _object_id(whole, algorithm), stored
        digest = hashlib.new(algorithm, b"blob %d\0" % what.st_size, usedforsecurity=False)
        while chunk := content.read(MIB):
            digest.update(chunk)
        return mode, digest.hexdigest(), ""


def _object_id(content: bytes, algorithm: str) -> str:
    return hashlib.new(algorithm, b"blob %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def _listed(told: bytes | None, *, at: int = 2) -> _Listed:
    """The entries of `ls-tree -z` or `ls-files -s -z`; `at` is the place of the object id."""
    found = {}
    for line in paths_of(told or b""):
        head, _, path = line.partition("\t")
        facts = head.split(" ")
        found[path] = (facts[0], facts[at])
    return found


async def _compared(root: Path, commit: str, name: str, now: _Now) -> LastGood:
    """The commit with what differs from it. Raises `UnknownDifference`."""
    listed = await git(root, "ls-tree", "-r", "-z", commit)
    if listed is None:
        raise UnknownDifference("git cannot read it")
    then = _listed(listed)
    modules = tuple(f"{path}/" for path, (mode, _) in then.items() if mode == _MODULE)
    added: list[str] = []
    known: list[str] = []
    unread: list[str] = []
    gone = await _converted(root, [path for path in then if path not in now.files and path not in now.converted])
    for path in sorted({*then, *now.files, *now.converted}):
        old, new = then.get(path), now.files.get(path)
        if path.startswith(modules):
            continue  # of a submodule, which is compared as a whole
        if old is None:
            added.append(path)
        elif old[0] == _MODULE or path in now.converted or path in gone:
            unread += [path] if old != now.staged.get(path) or path in gone else []
        elif new is None or _differ(old, new, now):
            (unread if old[0] == _LINK else known).append(path)
    if len(added) + len(known) > MOST_FILES:
        raise UnknownDifference(f"{len(added) + len(known):,} files differ, more than {MOST_FILES:,}")
    contents = await contents_of(root, [then[path][1] for path in known])
    files = [ChangedFile(path) for path in added]
    for path in known:
        mode, before = then[path][0], contents[then[path][1]]
        if path in now.crlf and b"\r" not in before:
            before = before.replace(b"\n", b"\r\n")
        old_mode = now.files.get(path, (_FILE, ""))[0]
        files.append(ChangedFile(path, before, executable=mode == _EXECUTABLE if now.has_modes and mode != old_mode else None))
    return LastGood(name, tuple(sorted(files, key=lambda file: file.path)), unread=tuple(unread))


def _differ(old: tuple[str, str], new: tuple[str, str], now: _Now) -> bool:
    is_same_kind = old[0] == new[0] or (not now.has_modes and _LINK not in (old[0], new[0]))
    return old[1] != new[1] or not is_same_kind


async def contents_of(root: Path, ids: Sequence[str]) -> dict[str, bytes]:
    """The contents of these objects. Raises `UnknownDifference`."""
    if not ids:
        return {}
    asked = "".join(f"{id_}\n" for id_ in ids).encode()
    sizes = await git(root, "cat-file", "--batch-check=%(objectsize)", stdin=asked)
    try:
        if sizes is None or sum(map(int, sizes.splitlines())) > LARGEST:
            raise UnknownDifference(f"the changed files are larger than {LARGEST // MIB} MiB")
        contents = await git(root, "cat-file", "--batch", stdin=asked)
        return dict(zip(ids, batch_contents(contents or b"", len(ids)), strict=True))
    except ValueError as error:
        raise UnknownDifference("its files are not here, as in a partial clone; run `git fetch --refetch`") from error
