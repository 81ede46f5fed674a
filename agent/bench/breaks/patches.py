"""Breaks that people made up: patches that each put one bug into a commit of a repository whose tests pass.

A manifest is a JSON list of bugs, each with `id`, `commit` and `patch`, a unified diff of one Python file. The engine gets the
broken commit alone: no earlier commit is known at which the tests pass.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from agent.bench import history
from agent.bench.breaks import heldout
from agent.bench.breaks.code import read
from agent.bench.breaks.figures import figures
from agent.bench.breaks.judge import Judge
from agent.bench.breaks.operators import Break, same_program
from agent.bench.breaks.posing import Posed, is_few
from agent.bench.lab import BadInput, Benchmark, Labs, NotPosed, Specimen, Trial, listed, text_of
from agent.bench.packages import DoesNotApply, applied
from agent.bench.suites import verdicts
from agent.ci.project.configuration import Configuration
from agent.contract.proposal import FileChange
from agent.contract.verdicts import EXIT, Verdict, VerdictId
from agent.edits.changes import changed_ranges
from agent.source.archive import Files
from agent.source.test_files import is_test

BY_A_PERSON = "by a person"


class _Bug(msgspec.Struct):
    id: str
    commit: str
    patch: str


def load(root: Path, manifest: Path) -> Benchmark:
    """The bugs of the manifest, in its order. Raises `BadInput`."""
    bugs = listed(manifest, _Bug, "a list of patches")
    known = {bug.id: bug for bug in bugs}
    if len(known) < len(bugs) or not bugs:
        raise BadInput(
            f"{manifest} needs at least one patch, and an id of its own for each; docs/benchmarks.md shows its format"
        )
    configuration = history.read_checkout(root)
    groups, options = dict.fromkeys(known, BY_A_PERSON), {"path": str(root), "patches": str(manifest)}
    return Benchmark(
        "breaks", groups, options, lambda id_, labs: _trial(root, known[id_], configuration, labs), figures=figures
    )


@asynccontextmanager
async def _trial(root: Path, bug: _Bug, configuration: Configuration, labs: Labs) -> AsyncIterator[Trial]:
    whole, tag = await history.files(root, bug.commit), await history.tag_of(root, bug.commit)
    broken = _broken(whole, bug)
    after = broken.after.encode()
    async with labs.open(whole, configuration, tag) as lab:
        suite, found = await verdicts(lab, {}), await verdicts(lab, {broken.path: after})
    fit, gone = _green(whole, suite)
    suite, found = ({i: told[i] for i in told if heldout.function_of(i) not in gone} for told in (suite, found))
    red = tuple(sorted(i for i, verdict in found.items() if verdict.red and suite.get(i, Verdict.PASSED) is Verdict.PASSED))
    if not red:
        raise NotPosed("no test that passes at the commit fails with the patch")
    files = {**fit, broken.path: replace(whole[broken.path], content=after)}
    judge = Judge(labs, configuration, tag, Posed(broken, red, ()), fit, fit, suite, 0.0)
    yield Trial(Specimen(bug.id, files, configuration, (), tag), judge.repair, judge.no_repair)


def _green(whole: Files, suite: Mapping[VerdictId, Verdict]) -> tuple[Files, set[heldout.TestFunction]]:
    """The files without the tests that fail without the bug, too, such as for a missing locale, and these tests, if they are
    few and can be removed."""
    unfit = [id_ for id_, verdict in suite.items() if verdict.red and id_ != EXIT]
    left = heldout.leaving_out(whole, unfit) if is_few(unfit, suite) else None
    return (whole, set()) if left is None else (left, {heldout.function_of(id_) for id_ in unfit})


def _broken(whole: Files, bug: _Bug) -> Break:
    """Raises `NotPosed`."""
    code = {path: file for path, file in whole.items() if path.endswith(".py") and not is_test(path)}
    texts = {path: text for path, file in code.items() if (text := text_of(file)) is not None}
    try:
        [(path, after)] = applied(bug.patch, texts).items()
    except (DoesNotApply, KeyError) as error:
        raise NotPosed(f"its patch does not apply to commit {bug.commit[:12]}: {error}") from error
    except ValueError as error:
        raise NotPosed("its patch must change exactly one file") from error
    if after is None or path not in texts or same_program(after, texts[path]) is not False:
        raise NotPosed(f"its patch must change the program in one Python file that is no test, not only {path or 'a file'}")
    return Break(path, BY_A_PERSON, _function(path, texts[path], after), texts[path], after)


def _function(path: str, before: str, after: str) -> str:
    """The innermost function around the first change; "" if there is none."""
    line = changed_ranges(FileChange(path, before, after))[0][0] + 1
    module = read(before)
    around = [code for code in module.functions() if code.node.lineno <= line <= (code.node.end_lineno or 0)] if module else []
    return around[-1].name if around else ""
