"""Realistic breaks of a repository's own code, put into real commits of its history whose tests pass.

The commits are chosen from the latest ones by the seed. A task has up to three numbers for each commit, such as
`3f2a91c0de12-1`; what a commit has no break for is passed over, and the next commit is tried until enough tasks are set up.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent.bench import history
from agent.bench.breaks import heldout, posing
from agent.bench.breaks.figures import figures
from agent.bench.breaks.judge import Judge
from agent.bench.breaks.posing import EACH, Posed, is_product
from agent.bench.history import Commit
from agent.bench.lab import BadInput, Benchmark, Labs, NoTask, Skipped, Specimen, Trial, passing_over
from agent.ci.project.configuration import Configuration
from agent.contract.last_good import ChangedFile, LastGood
from agent.contract.verdicts import Verdict, VerdictId
from agent.source.archive import File, Files
from agent.source.test_files import is_test

SPARE = 12  # commits that may be passed over
TOO_SLOW = 2  # commits with a suite that does not finish, after which no more are tried
LATEST = 20  # commits that change code: the seed chooses from so many, and from as many older ones when these are used up


async def load(root: Path, count: int, seed: int) -> Benchmark:
    """Raises `BadInput`."""
    most = count + SPARE
    every = await history.commits(root, most * history.LOOKED_THROUGH)
    commits = [commit for commit in every if any(map(is_product, commit.paths))]
    await _check(root, commits)
    rng, order = random.Random(seed), list[Commit]()  # noqa: S311 - reproducible, nothing secret
    for start in range(0, min(most, len(commits)), LATEST):
        latest = commits[start : start + LATEST]
        order += rng.sample(latest, len(latest))
    ids = {f"{commit.id[:12]}-{number}": "" for commit in order for number in range(1, EACH + 1)}
    commits_of = {commit.id[:12]: commit for commit in order}
    source = _Source(root, history.read_checkout(root), seed, commits_of)
    options = {"path": str(root), "seed": str(seed)}
    return Benchmark("breaks", ids, options, source.trial, wanted=count, figures=figures)


async def _check(root: Path, commits: Sequence[Commit]) -> None:
    """Raises `BadInput` if no break can be put into this checkout."""
    paths = await history.paths(root, "HEAD")
    if not any(map(is_product, paths)):
        raise BadInput(f"{root} has no Python code besides tests; breaks are put into Python code only")
    if not any(is_test(path) and path.endswith(".py") for path in paths):
        raise BadInput(f"{root} has no Python tests; a break needs tests that notice it")
    if not commits and await history.is_shallow(root):
        raise BadInput(f"{root} is a shallow clone without the history that is needed; run `git fetch --unshallow` in it")
    if not commits:
        raise BadInput(f"{root} has no commit that changes Python code and has a parent; give a checkout with such a history")


@dataclass(frozen=True, slots=True)
class Setup:
    """The breaks of one commit, and the verdicts of its suite without a break."""

    posed: tuple[Posed, ...]
    left_out: tuple[VerdictId, ...]  # tests that fail without a break, removed from all files
    suite: Mapping[VerdictId, Verdict]
    seconds: float  # that it took


@dataclass(slots=True)
class _Source:
    """Sets up the tasks of a checkout, all those of one commit at once."""

    root: Path
    configuration: Configuration
    seed: int
    commits: dict[str, Commit]
    known: dict[str, Setup | Exception] = field(default_factory=dict)
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)

    @asynccontextmanager
    async def trial(self, id_: str, labs: Labs) -> AsyncIterator[Trial]:
        name, _, number = id_.rpartition("-")
        commit, at = self.commits[name], int(number) - 1
        before, whole = await history.files(self.root, commit.parent), await history.files(self.root, commit.id)
        setup = await self._setup(commit, before, whole, labs)
        if isinstance(setup, Exception):
            raise setup if at == 0 else NoTask(str(setup))
        if at >= len(setup.posed):
            raise NoTask(f"only {len(setup.posed)} breaks were found for this commit")
        posed = setup.posed[at]
        whole = heldout.leaving_out(whole, setup.left_out) or whole
        before = {path: file for path, file in heldout.without(before, setup.left_out).items() if path not in setup.left_out}
        broken = whole[posed.broken.path]
        files = {**whole, posed.broken.path: replace(broken, content=posed.broken.after.encode())}
        files, shown = heldout.without(files, posed.held_out), heldout.without(before, posed.held_out)
        good = LastGood(f"the parent commit {commit.parent[:12]}", _changes(shown, files), passed_in_ci=True)
        took, tag = setup.seconds / len(setup.posed), await history.tag_of(self.root, commit.id)
        judge = Judge(labs, self.configuration, tag, posed, whole, before, setup.suite, took)
        specimen = Specimen(id_, files, self.configuration, (good,), tag)
        yield Trial(specimen, judge.repair, judge.no_repair, posed.broken.kind)

    async def _setup(self, commit: Commit, before: Files, whole: Files, labs: Labs) -> Setup | Exception:
        """The commit's breaks, or why there are none. Raises `SandboxError`."""
        async with self.locks.setdefault(commit.id, asyncio.Lock()):
            if commit.id not in self.known:
                unfinished = [known for known in self.known.values() if isinstance(known, posing.Unfinished)]
                if len(unfinished) >= TOO_SLOW:
                    return NoTask(str(unfinished[0]))
                try:
                    with passing_over():
                        self.known[commit.id] = await self._posed(commit, before, whole, labs)
                except Skipped as error:
                    self.known[commit.id] = error
            return self.known[commit.id]

    async def _posed(
        self, commit: Commit, before: Files, whole: Files, labs: Labs, left_out: tuple[VerdictId, ...] = ()
    ) -> Setup:
        """Raises `NotPosed`, `Skipped`, `SandboxError`."""
        started, tag = time.monotonic(), await history.tag_of(self.root, commit.id)
        try:
            async with labs.open(whole, self.configuration, tag) as lab:
                posed, suite = await posing.pose(lab, whole, before, commit.paths, f"{self.seed} {commit.id}")
        except posing.Red as red:
            green = heldout.leaving_out(whole, red.ids) if red.few and not left_out else None
            if green is None:
                raise
            return await self._posed(commit, before, green, labs, red.ids)
        return Setup(posed, left_out, suite, time.monotonic() - started)


def _changes(before: dict[str, File], after: dict[str, File]) -> tuple[ChangedFile, ...]:
    """Every file that differs, with its content before."""
    paths = sorted(path for path in {*before, *after} if _content(before, path) != _content(after, path))
    return tuple(ChangedFile(path, _content(before, path)) for path in paths)


def _content(files: dict[str, File], path: str) -> bytes | None:
    return files[path].content if path in files and not files[path].link else None
