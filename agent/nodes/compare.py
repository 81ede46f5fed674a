"""Runs the failing checks at the last good commit, to learn which failures the change since then caused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from agent.checks.oracle import turned
from agent.contract import words
from agent.contract.events import Compared
from agent.contract.last_good import LastGood, Regression
from agent.contract.proposal import FileChange
from agent.contract.verdicts import CheckRun, Oracle, VerdictId
from agent.edits.changes import EditProblem, read_text, text_of
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
    update: BaselineOrEnd = {"notes": [f"{text}."]} if seen.has_failing or seen.unread else {}
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
    if parts and seen.unread:
        parts.append(f"{words.named(seen.unread)} changed too and {'stays' if len(seen.unread) == 1 else 'stay'} as now")
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
    unread = good.unread
    for check in oracle.checks:
        target = oracle.must_turn[check.name]
        if not target or work.ledger.seconds_left() <= 0:
            continue
        async with work.task.sandbox.candidate() as workspace:
            unread = (*good.unread, *await _write(workspace, good))
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
    return Comparison(good, passing, failing, new, unread)


async def _write(workspace: Workspace, good: LastGood) -> list[str]:
    """Lays the commit out. Returns the files that stay as they are now because that is impossible for them.

    Raises `ValueError` if it is for all.
    """
    folders = {str(folder) for file in good.files if file.before is None for folder in PurePosixPath(file.path).parents}
    stuck = [file.path for file in good.files if file.before is not None and file.path in folders]  # a folder is there now
    inside = tuple(f"{path}/" for path in stuck)
    # Removals first: a link may have taken the place of a folder.
    for file in sorted(good.files, key=lambda file: file.before is not None):
        if file.path in stuck or file.path.startswith(inside):
            continue
        try:
            if file.before is None:
                await workspace.remove(file.path)
            else:
                await _replace(workspace, file.path, file.before, file.executable)
        except ValueError:
            stuck.append(file.path)
    if stuck and all(file.path in stuck or file.path.startswith(inside) for file in good.files):
        raise ValueError(f"{good.name} cannot be laid out here")
    return stuck


async def _replace(workspace: Workspace, path: str, content: bytes, executable: bool | None) -> None:
    try:
        await workspace.write(path, content, executable=executable)
    except ValueError:
        await workspace.remove(path)  # a link may have taken its place
        await workspace.write(path, content, executable=executable)


async def _regression(work: Work, seen: Comparison, ids: list[VerdictId], new: list[VerdictId]) -> Regression:
    reversal: list[FileChange] = []
    tests = [path for path in (*(file.path for file in seen.good.files), *seen.good.unread) if is_test(path)]
    unread = list(seen.unread)
    modes: list[str] = []
    code = [file for file in seen.good.files if not is_test(file.path) and not is_prose(file.path)]
    for some in (code[at : at + ABREAST] for at in range(0, len(code), ABREAST)):
        read = await asyncio.gather(*(read_text(work.task.sandbox.base, file.path) for file in some))
        for file, now in zip(some, read, strict=True):
            before = None if file.before is None else text_of(file.path, file.before)
            if file.executable is not None and now is not None:
                modes.append(file.path)
            if isinstance(now, EditProblem) or isinstance(before, EditProblem):
                unread.append(file.path)
            elif now != before:
                reversal.append(FileChange(file.path, now, before))
    names, recent = tuple(map(str, ids)), tuple(map(str, new))
    return Regression(seen.good.name, tuple(reversal), tuple(tests), names, tuple(dict.fromkeys(unread)), recent, tuple(modes))
