"""Finds the commits of a checkout that may be the last good one, and what changed since.

Reads only git's objects and the files that are packed: no filter, hook or external diff of the checkout's configuration runs.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agent.contract.last_good import ChangedFile, LastGood
from app.cli.checkout.checkout import CheckoutFiles, git, paths_of
from sandbox.base import MIB
from sandbox.host.git import batch_contents

MOST_FILES = 1_000  # that differ from a good commit; with more, it is too far away to explain a failure
LARGEST = 64 * MIB  # of their contents at the good commit
_FILES = ("100644", "100755")
_CONVERTING = ("filter", "ident", "eol", "working-tree-encoding")  # attributes


class NoSuchRevision(Exception):
    """`--good` names no commit of the checkout; the message says so."""


class UnknownDifference(Exception):
    """What changed since a commit cannot be told; the message is a clause that says why."""


async def last_good(root: Path, files: CheckoutFiles, revision: str | None) -> tuple[tuple[LastGood, ...], tuple[str, ...]]:
    """The likely good commits, the nearest first: the last commit if files changed since, its parent, the merge base.

    With a `revision`, only that, and a note if it is of no use. Empty without git or history. Raises `NoSuchRevision`.
    """
    if files.names is None:
        if revision is not None:
            raise NoSuchRevision(f"--good {revision!r}: {root} is not a git checkout")
        return (), ()
    if revision is not None:
        commit = await _commit(root, revision)
        if commit is None:
            raise NoSuchRevision(f"--good {revision!r} is not a commit of this checkout; see `git log --oneline`")
        named = [(commit, f"commit {commit[:10]}")]
    else:
        named = await _named(root)
    names = await _as_stored(root, files.names)
    now = await asyncio.to_thread(_hashes, root, names, await _hash_name(root))
    found: list[LastGood] = []
    notes: list[str] = []
    for commit, name in named:
        try:
            changed = await _changed(root, commit, now, frozenset(files.names).difference(names))
        except UnknownDifference as why:
            notes.append(f"there is no comparison with {name}: {why}")
            continue
        if changed:
            found.append(LastGood(name, changed))
        elif revision is not None:
            notes.append(f"there is no comparison with {name}: no file has changed since")
    return tuple(found), tuple(notes) if revision is not None else ()


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


async def _as_stored(root: Path, names: Sequence[str]) -> list[str]:
    """The files whose content git stores as it is, without filters such as LFS and without converted line endings."""
    asked = "".join(f"{name}\0" for name in names).encode(errors="surrogateescape")
    told = paths_of(await git(root, "check-attr", "-z", "--stdin", *_CONVERTING, stdin=asked) or b"")
    converted = {path for path, value in zip(told[::3], told[2::3], strict=False) if value not in ("unspecified", "unset")}
    return [name for name in names if name not in converted]


async def _hash_name(root: Path) -> str:
    shown = await git(root, "rev-parse", "--show-object-format")
    return (shown or b"sha1").decode().strip()


def _hashes(root: Path, names: Sequence[str], hash_name: str) -> dict[str, str]:
    """The object ids of the files as they are now."""
    found = {}
    for name in names:
        file = root / name
        if file.is_symlink() or not file.is_file():
            continue
        with suppress(OSError), file.open("rb") as content:  # packing reports what cannot be read
            digest = hashlib.new(hash_name, b"blob %d\0" % os.fstat(content.fileno()).st_size, usedforsecurity=False)
            while chunk := content.read(MIB):
                digest.update(chunk)
            found[name] = digest.hexdigest()
    return found


async def _changed(root: Path, commit: str, now: Mapping[str, str], unread: frozenset[str]) -> tuple[ChangedFile, ...]:
    """The files that differ from the commit, without the unread ones. Raises `UnknownDifference`."""
    listed = await git(root, "ls-tree", "-r", "-z", commit)
    if listed is None:
        raise UnknownDifference("git cannot read it")
    then: dict[str, str] = {}
    modules: list[str] = []
    for line in paths_of(listed):
        head, _, path = line.partition("\t")
        mode, _, rest = head.partition(" ")
        if mode in _FILES:
            then[path] = rest.split(" ")[1]
        elif mode == "160000":
            modules.append(f"{path}/")
    differing = [path for path in sorted({*then, *now}) if then.get(path) != now.get(path)]
    differing = [path for path in differing if path not in unread and not path.startswith(tuple(modules))]
    if len(differing) > MOST_FILES:
        raise UnknownDifference(f"{len(differing):,} files differ, more than {MOST_FILES:,}")
    known = [path for path in differing if path in then]
    sizes = await git(root, "cat-file", "--batch-check=%(objectsize)", stdin=_asked(then, known))
    try:
        if sizes is None or sum(map(int, sizes.splitlines())) > LARGEST:
            raise UnknownDifference(f"the changed files are larger than {LARGEST // MIB} MiB")
        contents = await git(root, "cat-file", "--batch", stdin=_asked(then, known))
        before = dict(zip(known, batch_contents(contents or b"", len(known)), strict=True))
    except ValueError as error:
        raise UnknownDifference("its files are not here, as in a partial clone; run `git fetch --refetch`") from error
    return tuple(ChangedFile(path, before.get(path)) for path in differing)


def _asked(then: Mapping[str, str], paths: Sequence[str]) -> bytes:
    return "".join(f"{then[path]}\n" for path in paths).encode()
