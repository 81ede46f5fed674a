"""Benchmarks of whole repositories, judged by comparing the suite's results for a repair and for the authors' fix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent.bench.lab import Changes, Judgement, Lab, changed, printed
from agent.contract.outcome import Repair
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import CheckRun, Verdict, VerdictId
from agent.edits.changes import added, changed_lines, removed


@dataclass(frozen=True, slots=True)
class SuiteJudge:
    """`target` are the ids that must pass. `fix` is the authors' fix; `fixed` are the verdicts with it, `base` those before."""

    lab: Lab
    fix: Edits
    target: frozenset[VerdictId]
    base: Mapping[VerdictId, Verdict]
    fixed: Mapping[VerdictId, Verdict]

    async def __call__(self, repair: Repair) -> Judgement:
        runs = await self.lab.runs(changed(repair.edits))
        repaired = _by_id(runs)
        green = {id_ for id_, verdict in repaired.items() if verdict is Verdict.PASSED}
        missed = sorted(self.target - green)
        # A test that also fails with the authors' fix does not count against the repair.
        spoilt = sorted(
            i for i, verdict in self.base.items() if verdict is Verdict.PASSED and i not in green and _green(self.fixed, i)
        )
        different = unlike(repaired, self.fixed)
        details = {
            "target_green": not missed,
            "nothing_else_red": not spoilt,
            "equal_to_fix": not different,
            "unlike": [str(id_) for id_ in different[:10]],
            **beside(repair.edits, self.fix),
            **printed(runs),
        }
        how = f"{len(self.fixed)} results of the whole suite compared with the authors' fix"
        return Judgement(not missed and not spoilt and not different, how, details)


def beside(edits: Edits, fix: Edits) -> dict[str, object]:
    """A repair's size and lines compared with the authors' fix."""
    return {
        "changed_lines": changed_lines(edits),
        "authors_changed_lines": changed_lines(fix),
        "same_files": {change.path for change in edits} == {change.path for change in fix},
        "same_lines": _stripped(edits) == _stripped(fix),
    }


async def verdicts(lab: Lab, changes: Changes) -> dict[VerdictId, Verdict]:
    """The verdicts of the whole suite with these changes. Raises `SandboxError`."""
    return _by_id(await lab.runs(changes))


def _by_id(runs: Iterable[CheckRun]) -> dict[VerdictId, Verdict]:
    return {id_: verdict for run in runs for id_, verdict in run.verdicts.items()}


def edits_of(before: Mapping[str, str | None], after: Mapping[str, str | None]) -> Edits:
    """The files that differ, as changes."""
    paths = sorted({*before, *after})
    return tuple(FileChange(path, before.get(path), after.get(path)) for path in paths if before.get(path) != after.get(path))


def unlike(one: Mapping[VerdictId, Verdict], other: Mapping[VerdictId, Verdict]) -> list[VerdictId]:
    """The ids that pass in only one of two runs, sorted."""
    return sorted(id_ for id_ in {*one, *other} if _green(one, id_) != _green(other, id_))


def _green(told: Mapping[VerdictId, Verdict], id_: VerdictId) -> bool:
    return told.get(id_) is Verdict.PASSED


def _stripped(edits: Edits) -> tuple[list[str], list[str]]:
    """The removed and the added lines, without indentation."""
    return [line.strip() for line in removed(edits)], [line.strip() for line in added(edits)]
