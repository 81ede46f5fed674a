"""Runs the failing checks at the last good commit, to learn which failures the change since then caused."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from agent.checks.oracle import turned
from agent.contract import words
from agent.contract.events import Compared
from agent.contract.last_good import LastGood, Regression
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import EXIT, Check, CheckRun, Oracle, VerdictId
from agent.edits.changes import EditProblem, read_text, text_of
from agent.edits.hunks import merge
from agent.gate.gate import needs_install
from agent.guard.deciding_files import is_linters
from agent.nodes.reproduce import for_want
from agent.report import endings
from agent.reproduce.bisection import FURTHEST, nearest_passing
from agent.reproduce.comparison import LastGoodComparison, fails_otherwise, is_new, not_this_changes, only_here, without
from agent.reproduce.sandbox_limits import BROWSER, LOCALE, NETWORK, is_in_log, limits_behind
from agent.source.test_files import is_prose, is_test
from agent.state import BaselineOrEnd, State, Work, fell_back, pack
from sandbox.base import DeadlinePassed, InstallFailed, LimitExceeded, Workspace

SHOWN = 50  # ids in one event of the timeline
ABREAST = 8  # files that are read at once
SHARE = 0.25  # of the time that is left, for looking through older commits


async def compare(state: State, work: Work) -> BaselineOrEnd:
    """Narrows the oracle to what the change broke; sets `regression_ref`. Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    if not work.task.good:
        return await _bounded(work, oracle, base)
    try:
        seen, breaking = await _nearest(work, oracle, {run.check: run for run in base})
    except (LimitExceeded, DeadlinePassed) as error:
        return await fell_back(work, "compare", f"The last good commit could not be run: {error}.")
    left = not_this_changes(oracle, base, seen, work.task.reported_ids)
    oracle = without(oracle, left)
    broke = sorted(id_ for ids in seen.passing.values() for id_ in ids)
    new = sorted(id_ for ids in seen.new.values() for id_ in ids)
    text = _text(seen, broke, new, sorted(left), breaking)
    await context.emit(
        Compared(text=text, good=seen.good.name, broke=[*map(str, broke[:SHOWN])], left=[*map(str, sorted(left)[:SHOWN])])
    )
    if not oracle.is_red:
        sign = next((sign for sign in left.values() if sign), "")
        return {"ending": pack(endings.not_this_change(sorted(left), seen.good, sign, failed_in_ci=work.task.failed_in_ci))}
    red = sorted(id_ for ids in oracle.must_turn.values() for id_ in ids)
    if (ending := for_want(work, red, base)) is not None:
        return {"ending": pack(ending)}
    update: BaselineOrEnd = {"notes": [f"{text}."]} if seen.has_failing or seen.unread or breaking else {}
    if left:
        update["oracle_ref"] = await context.keep(oracle)
    if broke or new:
        update["regression_ref"] = await context.keep(await _regression(work, seen, sorted({*broke, *new}), new, breaking))
    return update


async def _bounded(work: Work, oracle: Oracle, base: Sequence[CheckRun]) -> BaselineOrEnd:
    """Without a good commit, CI's log alone tells which failures only the sandbox has; without both, their messages do."""
    logged = only_here(oracle, base, work.task.reported_ids)
    said = [(logged, "but not according to CI's log: the sandbox lacks something that CI has")]
    if not logged and not work.task.failed_in_ci:
        lacking = _explained_by_lacks(work, oracle, base)
        need = "it needs" if len(lacking) == 1 else "they need"
        said = [(lacking, f"but the sandbox lacks what {need}; only the other failures are repaired")]
        said += [(_found_by_linters(without(oracle, lacking)), "but as a linter's finding: the tests are repaired first")]
    left = [id_ for ids, _ in said for id_ in ids]
    if not left:
        return {}
    notes = [f"{words.named(ids)} {'fails' if len(ids) == 1 else 'fail'} here, {why}." for ids, why in said if ids]
    return {"oracle_ref": await work.context.keep(without(oracle, left)), "notes": notes}


def _explained_by_lacks(work: Work, oracle: Oracle, base: Sequence[CheckRun]) -> list[VerdictId]:
    """The failing ids that the missing network, browser or locale explains, if there are others."""
    absent = (BROWSER, LOCALE, *((NETWORK,) if work.task.sandbox.isolation.untrusted else ()))
    found = limits_behind(oracle.checks, base, frozenset().union(*oracle.must_turn.values()))
    others = {id_ for id_, lack in found if lack is None or lack.what not in absent or is_in_log(lack, work.task.hints)}
    return sorted({id_ for id_, _ in found} - others) if others else []


def _found_by_linters(oracle: Oracle) -> list[VerdictId]:
    """The failing items of pytest's plugins that run linters, if tests fail too. Newer linters find more in unchanged code."""
    left: list[VerdictId] = []
    for red in oracle.must_turn.values():
        found = {id_ for id_ in red if is_linters(id_)}
        left += sorted(found) if red - found - {EXIT} else []
    return left


def _text(
    seen: LastGoodComparison, broke: list[VerdictId], new: list[VerdictId], left: list[VerdictId], breaking: LastGood | None
) -> str:
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
    if breaking is not None:
        parts.append(f"{breaking.name} broke {'it' if len(broke) == 1 else 'them'}: {words.code(breaking.subject, 80)}")
    if there and not (broke or new or left or seen.unread):
        parts = [f"{parts[0]}: the cause is older, or only this sandbox has it"]
    if parts and seen.unread:
        parts.append(f"{words.named(seen.unread)} changed too and {'stays' if len(seen.unread) == 1 else 'stay'} as now")
    return words.capitalized("; ".join(parts)) or f"The failing checks could not be run at {seen.good.name}"


async def _nearest(work: Work, oracle: Oracle, base: Mapping[str, CheckRun]) -> tuple[LastGoodComparison, LastGood | None]:
    """The nearest good commit at which a failing id passes; if there is none, the first.

    Also the commit that broke the checks, if it is known to be a single one and not the last.
    """
    tried: list[LastGoodComparison] = []
    for good in work.task.good:
        files = tuple(FileChange(file.path, "", "") for file in good.files)
        seen = await _laid_out(work, oracle, base, good, reinstall=False)
        if not seen.has_passing and needs_install(files, work.task.packages):
            seen = await _laid_out(work, oracle, base, good, reinstall=True)
        tried.append(seen)
        if seen.has_passing:
            break
    last = tried[-1]
    if (
        tried[0].has_failing
        and not (last.has_passing and last.has_failing)
        and (older := await _older(work, oracle, base, tried))
    ):
        return older
    return (last if last.has_passing else tried[0]), None


async def _older(
    work: Work, oracle: Oracle, base: Mapping[str, CheckRun], tried: Sequence[LastGoodComparison]
) -> tuple[LastGoodComparison, LastGood | None] | None:
    """The nearest commit of the history at which all failing ids pass, and the commit after it, which broke them.

    If they pass at none, the furthest at which one fails: it may have failed ever since, or fail only here. Two commits may
    have broken one id each: then none is named. A commit at which none can run is neither good nor bad.
    """
    history, until = work.task.history, work.ledger.seconds_left() * (1 - SHARE)
    if history is None:
        return None
    known = {seen.good.name: seen for seen in tried}
    at: dict[int, LastGoodComparison] = {}

    async def passes(count: int) -> bool | None:
        if work.ledger.seconds_left() < until or (good := await history.before(count)) is None:
            return None
        at[count] = seen = known.get(good.name) or await _laid_out(work, oracle, base, good, reinstall=False)
        if seen.has_failing:
            return None if seen.unread or seen.is_other else False
        return True if seen.has_passing else None

    found = await nearest_passing(passes)
    if found is None:
        failing = [count for count, seen in at.items() if seen.has_failing and not (seen.unread or seen.is_other)]
        return (replace(at[max(failing)], is_furthest=max(failing) == FURTHEST), None) if failing else None
    red, good = found
    return at[good], at[red].good if good - red == 1 and red in at and not at[red].has_passing else None


async def _laid_out(
    work: Work, oracle: Oracle, base: Mapping[str, CheckRun], good: LastGood, *, reinstall: bool
) -> LastGoodComparison:
    """Without results where the commit cannot be laid out here."""
    try:
        return await _compared(work, oracle, base, good, reinstall=reinstall)
    except ValueError:
        return LastGoodComparison(good, {}, {}, {})


async def _compared(
    work: Work, oracle: Oracle, base: Mapping[str, CheckRun], good: LastGood, *, reinstall: bool
) -> LastGoodComparison:
    passing: dict[str, frozenset[VerdictId]] = {}
    failing: dict[str, frozenset[VerdictId]] = {}
    new: dict[str, frozenset[VerdictId]] = {}
    unread, is_other = good.unread, False
    for check in oracle.checks:
        target = oracle.must_turn[check.name]
        if not target or work.ledger.seconds_left() <= 0:
            continue
        only = target if check.runs_tests and not check.needs_company else None
        run, stuck = await _ran(work, check, only, good, reinstall=reinstall)
        unread = (*good.unread, *stuck)
        if run is None:
            continue
        if only is not None and (broke := frozenset(turned(check, base[check.name], run, target))):
            alone, _ = await _ran(work, check, broke, None)
            if alone is not None and turned(check, base[check.name], alone, broke):
                # By themselves they pass here too: they fail only after other tests, so all tests run there.
                run = (await _ran(work, check, None, good, reinstall=reinstall))[0] or run
        if run.ending == "finished" and not run.stopped_at:
            passing[check.name] = frozenset(turned(check, base[check.name], run, target))
            failing[check.name] = target & run.red
            is_other = is_other or fails_otherwise(base[check.name], run, failing[check.name])
            rest = target - passing[check.name] - failing[check.name]
            new[check.name] = frozenset(id_ for id_ in rest if is_new(id_, good))
    return LastGoodComparison(good, passing, failing, new, unread, is_other)


async def _ran(
    work: Work, check: Check, only: frozenset[VerdictId] | None, good: LastGood | None, *, reinstall: bool = False
) -> tuple[CheckRun | None, list[str]]:
    """A run of the check at the good commit, or at the base, and the files that stay as they are now.

    None instead of the run if what it needs cannot be installed. Raises `ValueError` like `_write`.
    """
    async with work.task.sandbox.candidate() as workspace:
        stuck = await _write(workspace, good) if good is not None else []
        if reinstall:
            try:
                await workspace.install(work.task.packages)
            except InstallFailed:
                return None, stuck
        return await work.runner.run(workspace, check, only=only, timeout=work.patience(check)), stuck


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


async def _regression(
    work: Work, seen: LastGoodComparison, ids: list[VerdictId], new: list[VerdictId], breaking: LastGood | None
) -> Regression:
    """What changed since; only what `breaking` changed, unless later commits changed the same lines."""
    reversal: list[FileChange] = []
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
    then = {file.path: file.before for file in seen.good.files} | dict.fromkeys(seen.good.unread)
    alone = await asyncio.to_thread(_alone, reversal, breaking) if breaking is not None else ()
    later = {file.path for file in breaking.files if then.get(file.path) == file.before} if breaking and alone else set()
    return Regression(
        seen.good.name,
        alone or tuple(reversal),
        tuple(path for path in then if is_test(path) and path not in later),
        tuple(map(str, ids)),
        tuple(dict.fromkeys(unread)),
        tuple(map(str, new)),
        tuple(modes),
        breaking.name if breaking is not None and alone else "",
        breaking.subject if breaking is not None and alone else seen.good.messages,
    )


def _alone(reversal: Sequence[FileChange], breaking: LastGood) -> Edits:
    """What takes back the change of this commit alone, of the reversal of all; () if later ones changed the same lines."""
    then = {file.path: file.before for file in breaking.files}
    alone: list[FileChange] = []
    for edit in reversal:
        if edit.path not in then:
            alone.append(edit)  # no later commit changed this file
            continue
        content = then[edit.path]
        text = None if content is None else text_of(edit.path, content)
        if text == edit.after:
            continue
        if isinstance(text, EditProblem):
            return ()
        both = merge((FileChange(edit.path, text, edit.before),), (FileChange(edit.path, text, edit.after),))
        if both is None:
            return ()
        alone += [FileChange(each.path, edit.before, each.after) for each in both if each.after != edit.before]
    return tuple(alone)
