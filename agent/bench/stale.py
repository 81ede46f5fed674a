"""Intended changes with outdated tests: commits that changed code and tests together, given with the tests from before.

Such a commit looks broken, but its authors changed the tests because they wanted the new behaviour. A repair with which their
new tests fail undoes their work. Mostly the old and the new tests contradict each other, and the right answer is a report.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from agent.bench import history
from agent.bench.breaks.figures import figures
from agent.bench.breaks.heldout import leaving_out
from agent.bench.breaks.posing import is_few, is_product
from agent.bench.history import Commit
from agent.bench.lab import BadInput, Benchmark, Judgement, Labs, Skipped, Specimen, Trial, changed, passing_over
from agent.bench.suites import verdicts
from agent.ci.project.configuration import Configuration
from agent.contract.last_good import ChangedFile, LastGood
from agent.contract.outcome import NoRepair, Repair
from agent.contract.verdicts import Verdict, VerdictId
from agent.source.archive import File, Files
from agent.source.test_files import is_test

MOST = 30  # commits that are looked at for each wanted task


async def load(root: Path, count: int) -> Benchmark:
    """The latest commits that change code and lines of existing tests, newest first. Raises `BadInput`."""
    every = await history.commits(root, count * history.LOOKED_THROUGH)
    found = [c for c in every if any(map(_is_test_code, c.rewritten)) and any(map(is_product, c.paths))]
    if not found:
        raise BadInput(
            f"{root} has no commit that changes code and existing tests together; a shallow clone may lack the history"
        )
    known, configuration = {commit.id[:12]: commit for commit in found[: count * MOST]}, history.read_checkout(root)
    return Benchmark(
        "stale",
        dict.fromkeys(known, "outdated tests"),
        {"path": str(root)},
        lambda id_, labs: _trial(root, known[id_], configuration, labs),
        wanted=count,
        figures=figures,
    )


def _is_test_code(path: str) -> bool:
    return path.endswith(".py") and is_test(path)


@asynccontextmanager
async def _trial(root: Path, commit: Commit, configuration: Configuration, labs: Labs) -> AsyncIterator[Trial]:
    before, after = await history.files(root, commit.parent), await history.files(root, commit.id)
    posed = {**{p: f for p, f in after.items() if not is_test(p)}, **{p: f for p, f in before.items() if is_test(p)}}
    paths = _different(before, posed)
    if any(path in tree and tree[path].link for path in paths for tree in (before, posed)):
        raise Skipped("it changes a link")
    tag = await history.tag_of(root, commit.id)
    with passing_over():
        async with labs.open(posed, configuration, tag) as lab:
            now = await verdicts(lab, {})
            if not any(verdict.red for verdict in now.values()):
                raise Skipped("its old tests pass with the new code")
            then = await verdicts(lab, {path: before[path].content if path in before else None for path in paths})
            if not any(verdict.red and then.get(id_) is Verdict.PASSED for id_, verdict in now.items()):
                raise Skipped("no test passes with the old code and fails with the new code")
            tests = {path: file.content for path, file in after.items() if is_test(path) and before.get(path) != file}
            wanted = await verdicts(lab, tests)
    left_out = [id_ for id_, verdict in then.items() if verdict.red]
    if not is_few(left_out, then):
        raise Skipped(f"{len(left_out)} of its old tests fail with the old code too, such as {left_out[0]}")
    if failing := [id_ for id_, verdict in wanted.items() if verdict.red and id_ not in left_out]:
        raise Skipped(f"{len(failing)} of its own tests fail here, such as {failing[0]}")
    shown, shown_before = leaving_out(posed, left_out), leaving_out(before, left_out)
    if shown is None or shown_before is None:
        raise Skipped(f"{left_out[0]} fails with the old code too and cannot be left out")
    good = LastGood(
        f"the parent commit {commit.parent[:12]}",
        tuple(
            ChangedFile(path, shown_before[path].content if path in shown_before else None)
            for path in _different(shown_before, shown)
        ),
        passed_in_ci=True,
    )
    judge = _Judge(labs, configuration, shown, tests, wanted, tag)
    yield Trial(Specimen(commit.id[:12], shown, configuration, (good,), tag), judge.repair, judge.no_repair)


def _different(before: Files, after: Files) -> list[str]:
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


@dataclass(frozen=True, slots=True)
class _Judge:
    """`tests` are the authors' new tests, with the results in `wanted`."""

    labs: Labs
    configuration: Configuration
    posed: Files
    tests: Mapping[str, bytes]
    wanted: Mapping[VerdictId, Verdict]
    tag: str

    async def repair(self, repair: Repair) -> Judgement:
        files = {**self.posed, **{path: File(content) for path, content in self.tests.items()}}
        async with self.labs.open(files, self.configuration, self.tag) as lab:
            found = await verdicts(lab, changed(repair.edits))
        lost = sorted(
            id_ for id_, verdict in self.wanted.items() if verdict is Verdict.PASSED and found.get(id_) is not verdict
        )
        how = f"{lost[0]} fails, a test that the authors wrote with the commit" if lost else "the authors' new tests pass too"
        return Judgement(not lost, how, {"reversed": bool(lost), "withheld": False})

    async def no_repair(self, ended: NoRepair) -> Judgement:
        return Judgement(None, "no repair", {"reversed": False, "withheld": ended.culprit is not None})
