"""A repository's own history as a benchmark: the parent of a commit with the commit's tests, and the authors' fix.

The last commits that change code become tasks if their tests fail on the parent and pass at the commit; the others are
skipped, with the reason. Commits are read from git's objects: git runs no hooks, no filters and no other program that a
configuration names, and writes nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.bench.lab import BadInput, Benchmark, Labs, NotPosed, Skipped, Specimen, Trial, text_of
from agent.bench.suites import SuiteJudge, edits_of, verdicts
from agent.ci.project.configuration import NO_CONFIGURATION, Configuration, ConfigurationProblem, read_configuration
from agent.ci.project.configuration import PATH as CONFIGURATION
from agent.contract.verdicts import Verdict
from agent.source.archive import File
from agent.source.test_files import is_prose, is_test
from sandbox.base import MIB
from sandbox.host import git, launch
from sandbox.host.archive import leads_outside

LOOKED_THROUGH = 50  # commits to examine for each wanted one
_LINK, _EXECUTABLE = "120000", "100755"


@dataclass(frozen=True, slots=True)
class Commit:
    id: str
    parent: str
    paths: tuple[str, ...]  # the files that it changed
    rewritten: frozenset[str]  # those of them that lost lines, so that more than an addition happened to them


async def load(root: Path, last: int) -> Benchmark:
    """The last commits that change code, newest first. Raises `BadInput`."""
    every = await commits(root, last * LOOKED_THROUGH)
    found = [c for c in every if any(not is_test(path) and not is_prose(path) for path in c.paths)]
    if not found:
        raise BadInput(f"{root} has no commit that changes code and has a parent; a shallow clone may lack the history")
    known, configuration = {commit.id[:12]: commit for commit in found[:last]}, read_checkout(root)
    groups = {id_: "code and tests" if any(map(is_test, commit.paths)) else "code" for id_, commit in known.items()}
    return Benchmark("repo", groups, {"path": str(root)}, lambda id_, labs: _trial(root, known[id_], configuration, labs))


@asynccontextmanager
async def _trial(root: Path, commit: Commit, configuration: Configuration, labs: Labs) -> AsyncIterator[Trial]:
    before, after = await files(root, commit.parent), await files(root, commit.id)
    tests = {path: file for path, file in after.items() if is_test(path)}
    posed = {**{path: file for path, file in before.items() if not is_test(path)}, **tests}
    paths = {path for path in {*posed, *after} if posed.get(path) != after.get(path) and not _is_link(path, posed, after)}
    tag = await tag_of(root, commit.id)
    async with labs.open(posed, configuration, tag) as lab:
        base = await verdicts(lab, {})
        red = {id_ for id_, verdict in base.items() if verdict.red}
        if not red:
            raise Skipped("its tests pass on its parent too")
        fixed = await verdicts(lab, {path: after[path].content if path in after else None for path in paths})
        if still := sorted(id_ for id_ in red if id_ in fixed and fixed[id_] is not Verdict.PASSED):
            raise Skipped(f"{still[0]} fails after the fix too; set `test:` in {CONFIGURATION} to exclude it")
        new = frozenset(id_ for id_, verdict in fixed.items() if verdict is Verdict.PASSED and id_ not in base)
        fix = edits_of(_texts(posed, paths), _texts(after, paths))
        judge = SuiteJudge(lab, fix, new | (red & fixed.keys()), base, fixed)
        yield Trial(Specimen(commit.id[:12], posed, configuration, tag=tag), judge)


def _is_link(path: str, *trees: Mapping[str, File]) -> bool:
    return any(path in tree and tree[path].link for tree in trees)


def read_checkout(root: Path) -> Configuration:
    """The checkout's own configuration. Raises `BadInput`."""
    file = root / CONFIGURATION
    try:
        read = read_configuration(file.read_text("utf-8", "replace")) if file.is_file() else NO_CONFIGURATION
    except OSError as error:
        raise BadInput(f"{file} cannot be read: {error.strerror}; make it readable") from error
    if isinstance(read, ConfigurationProblem):
        raise BadInput(f"{read.sentence}; correct it and run again")
    return read


def _texts(files: Mapping[str, File], paths: set[str]) -> dict[str, str | None]:
    """The texts of the files; None for a file that is not text."""
    return {path: text_of(files[path]) for path in paths if path in files}


async def commits(root: Path, most: int) -> list[Commit]:
    """The last commits except merges, newest first. Raises `BadInput`."""
    command = ("log", "--no-merges", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-show-signature", "--numstat")
    ended = await _git(root, *command, f"--max-count={most}", "--format=%x01%H %P", "HEAD", "--")
    if ended.returncode != 0:
        said = ended.stderr.decode(errors="replace").strip().split("\n")[-1]
        raise BadInput(f"{root} is not a git checkout with commits ({said[:200]}); give the folder of a checkout")
    found = []
    for part in ended.stdout.decode(errors="replace").split("\x01")[1:]:
        head, *lines = part.split("\n")
        ids, changes = head.split(" "), [line.split("\t", 2) for line in lines if line.count("\t") >= 2]
        if len(ids) == 2 and ids[1]:  # the first commit has no parent
            rewritten = frozenset(path for _, removed, path in changes if removed not in ("0", "-"))  # "-" is a binary file's
            found.append(Commit(ids[0], ids[1], tuple(path for _, _, path in changes), rewritten))
    return found


async def files(root: Path, commit: str) -> dict[str, File]:
    """The files of a commit and the links inside it, exactly as they were committed. Raises `NotPosed`."""
    listed = await _git(root, "ls-tree", "-r", "-z", "--full-tree", commit)
    entries = []
    for line in listed.stdout.split(b"\0"):
        head, tab, path = line.decode(errors="surrogateescape").partition("\t")
        mode, kind, blob = head.split(" ") if tab else ("", "", "")
        if kind == "blob":
            entries.append((path, blob, mode))
    asked = "".join(f"{blob}\n" for _, blob, _ in entries).encode()
    told = await _git(root, "cat-file", "--batch", "--buffer", stdin=asked)
    if listed.returncode != 0 or told.returncode != 0 or listed.truncated or told.truncated:
        raise NotPosed(f"the files of commit {commit[:12]} cannot be read: git failed, or they exceed {git.LARGEST // MIB} MiB")
    try:
        contents = git.batch_contents(told.stdout, len(entries))
    except ValueError as error:
        raise NotPosed(f"commit {commit[:12]} lacks files, as in a partial clone; run `git fetch --refetch`") from error
    found = {
        path: File(content, mode == _EXECUTABLE, mode == _LINK)
        for (path, _, mode), content in zip(entries, contents, strict=True)
    }
    return {path: file for path, file in found.items() if not (file.link and leads_outside(path, os.fsdecode(file.content)))}


async def paths(root: Path, commit: str) -> list[str]:
    """The paths of a commit's files, links included; none if git cannot read it."""
    listed = await _git(root, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
    return [path for path in listed.stdout.decode(errors="surrogateescape").split("\0") if path]


async def tag_of(root: Path, commit: str) -> str:
    """The newest tag before the commit; "" if there is none."""
    told = await _git(root, "describe", "--tags", "--abbrev=0", commit)
    return told.stdout.decode(errors="replace").strip() if told.returncode == 0 else ""


async def is_shallow(root: Path) -> bool:
    told = await _git(root, "rev-parse", "--is-shallow-repository")
    return told.stdout.strip() == b"true"


async def _git(root: Path, *argv: str, stdin: bytes = b"") -> launch.ProcessResult:
    """Raises `BadInput` if git is not installed."""
    told = await git.read(root, *argv, stdin=stdin)
    if told is None:
        raise BadInput("git is not installed; it is needed to read a checkout's history")
    return told
