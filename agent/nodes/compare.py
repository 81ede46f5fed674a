"""Runs the failing checks at the last good commit, to learn which failures the change since then caused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from agent.checks.oracle import turned
from agent.contract import words
from agent.contract.events import Compared
from agent.contract.last_good import LastGood, Regression
from agent.contract.proposal import FileChange
from agent.contract.verdicts import CheckRun, Oracle, VerdictId
from agent.edits.changes import EditProblem, read_text
from agent.gate.gate import needs_install
from agent.nodes.reproduce import for_want
from agent.report import endings
from agent.reproduce.comparison import Comparison, is_new, not_this_changes, only_here, without
from agent.source.test_files import is_prose, is_test
from agent.state import BaselineOrEnd, State, Work, fell_back, pack
from sandbox.base import DeadlinePassed, InstallFailed, LimitExceeded, Workspace

SHOWN = 50  # ids in one event of the timeline
ABREAST = 8  # files that are read at once


async def compare(state: State, work: Work) -> BaselineOrEnd:
    """Narrows the oracle to what the change broke; sets `regression_ref`. Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    if not work.task.good:
        return await _bounded(work, oracle, base)
    try:
        seen = await _nearest(work, oracle, {run.check: run for run in base})
    except (LimitExceeded, DeadlinePassed) as error:
        return await fell_back(work, "compare", f"The last good commit could not be run: {error}.")
    left = not_this_changes(oracle, base, seen, work.task.reported_ids)
    oracle = without(oracle, left)
    broke = sorted(id_ for ids in seen.passing.values() for id_ in ids)
    new = sorted(id_ for ids in seen.new.values() for id_ in ids)
    text = _text(seen, broke, new, sorted(left))
    await context.emit(
        Compared(text=text, good=seen.good.name, broke=[*map(str, broke[:SHOWN])], left=[*map(str, sorted(left)[:SHOWN])])
    )
    if not oracle.is_red:
        sign = next((sign for sign in left.values() if sign), "")
        return {"ending": pack(endings.not_this_change(sorted(left), seen.good, sign, failed_in_ci=work.task.failed_in_ci))}
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    if (ending := for_want(work, red, base)) is not None:
        return {"ending": pack(ending)}
    update: BaselineOrEnd = {"notes": [f"{text}."]} if seen.has_failing else {}
    if left:
        update["oracle_ref"] = await context.keep(oracle)
    if broke or new:
        update["regression_ref"] = await context.keep(await _regression(work, seen, sorted({*broke, *new}), new))
    return update


async def _bounded(work: Work, oracle: Oracle, base: Sequence[CheckRun]) -> BaselineOrEnd:
    """Without a good commit, CI's log alone tells which failures only the sandbox has."""
    left = only_here(oracle, base, work.task.reported_ids)
    if not left:
        return {}
    fail = "fails" if len(left) == 1 else "fail"
    note = f"{words.named(left)} {fail} here, but not according to CI's log: the sandbox lacks something that CI has."
    return {"oracle_ref": await work.context.keep(without(oracle, left)), "notes": [note]}


def _text(seen: Comparison, broke: list[VerdictId], new: list[VerdictId], left: list[VerdictId]) -> str:
    """One sentence without its full stop."""
    there = sorted(id_ for ids in seen.failing.values() for id_ in ids)
    said = (
        (broke, "passes", "pass", "at {}"),
        (new, "is new", "are new", "since {}"),
        (left or there, "fails", "fail", "at {} too"),
    )
    parts = [
        f"{words.named(ids)} {one if len(ids) == 1 else many} {where.format(seen.good.name)}"
        for ids, one, many, where in said
        if ids
    ]
    return "; ".join(parts) or f"The failing checks could not be run at {seen.good.name}"


async def _nearest(work: Work, oracle: Oracle, base: Mapping[str, CheckRun]) -> Comparison:
    """The first good commit at which a failing id passes; if there is none, the first."""
    first = None
    for good in work.task.good:
        files = tuple(FileChange(file.path, "", "") for file in good.files)
        try:
            seen = await _compared(work, oracle, base, good, reinstall=False)
            if not seen.has_passing and needs_install(files, work.task.packages):
                seen = await _compared(work, oracle, base, good, reinstall=True)
        except ValueError:
            seen = Comparison(good, {}, {}, {})
        if seen.has_passing:
            return seen
        first = first or seen
    assert first is not None, "called with at least one good commit"
    return first


async def _compared(work: Work, oracle: Oracle, base: Mapping[str, CheckRun], good: LastGood, *, reinstall: bool) -> Comparison:
    passing: dict[str, frozenset[VerdictId]] = {}
    failing: dict[str, frozenset[VerdictId]] = {}
    new: dict[str, frozenset[VerdictId]] = {}
    for check in oracle.checks:
        target = oracle.must_turn[check.name]
        if not target or work.ledger.seconds_left() <= 0:
            continue
        async with work.task.sandbox.candidate() as workspace:
            await _write(workspace, good)
            if reinstall:
                try:
                    await workspace.install(work.task.packages)
                except InstallFailed:
                    continue
            only = target if check.runs_tests and not check.needs_company else None
            run = await work.runner.run(workspace, check, only=only, timeout=work.patience(check))
        if run.ending == "finished" and not run.stopped_at:
            passing[check.name] = frozenset(turned(check, base[check.name], run, target))
            failing[check.name] = target & run.red
            rest = target - passing[check.name] - failing[check.name]
            new[check.name] = frozenset(id_ for id_ in rest if is_new(id_, good))
    return Comparison(good, passing, failing, new)


async def _write(workspace: Workspace, good: LastGood) -> None:
    """Raises `ValueError` where a path is no file, such as one that was replaced by a link."""
    # Removals first: a folder may have taken the place of a file.
    for file in sorted(good.files, key=lambda file: file.before is not None):
        if file.before is None:
            await workspace.remove(file.path)
        else:
            await workspace.write(file.path, file.before)


async def _regression(work: Work, seen: Comparison, ids: list[VerdictId], new: list[VerdictId]) -> Regression:
    reversal: list[FileChange] = []
    tests = [file.path for file in seen.good.files if is_test(file.path)]
    unread: list[str] = []
    code = [file for file in seen.good.files if not is_test(file.path) and not is_prose(file.path)]
    for some in (code[at : at + ABREAST] for at in range(0, len(code), ABREAST)):
        read = await asyncio.gather(*(read_text(work.task.sandbox.base, file.path) for file in some))
        for file, now in zip(some, read, strict=True):
            before = _decoded(file.before)
            if isinstance(now, EditProblem) or isinstance(before, EditProblem):
                unread.append(file.path)
            elif now != before:
                reversal.append(FileChange(file.path, now, before))
    names, recent = tuple(map(str, ids)), tuple(map(str, new))
    return Regression(seen.good.name, tuple(reversal), tuple(tests), names, tuple(unread), recent)


def _decoded(content: bytes | None) -> str | EditProblem | None:
    if content is None:
        return None
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return EditProblem("It is not UTF-8.")
    return EditProblem("It is a binary file.") if "\0" in text else text
