"""Judges what an attempt says about a break: its repair, or the diagnosis it gives instead of one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from agent.bench.breaks import variants
from agent.bench.breaks.operators import same_program
from agent.bench.breaks.posing import Posed, is_product
from agent.bench.lab import Changes, Judgement, Lab, Labs, changed, text_of
from agent.bench.suites import unlike, verdicts
from agent.ci.project.configuration import Configuration
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Edits, FileChange, Span
from agent.contract.verdicts import Verdict, VerdictId
from agent.edits.changes import changed_ranges, lines
from agent.source.archive import File, Files
from agent.source.test_files import is_test

SMALL = 5  # changed lines; a larger culprit that is most of the change names no line
WHOLE_SUITE, OTHER_INPUTS = "the whole suite", "with other inputs"  # what a judgement was made by
SUSPECTS = 3  # most suspicious locations that count as naming the lines
_SUSPECT = re.compile(r"(?:`[^`]*` in )?(?P<path>[^;`]+?), lines? (?P<first>\d+)(?: to (?P<last>\d+))? \(")
_SUSPECTS = "Suspicious locations"


@dataclass(frozen=True, slots=True)
class Judge:
    """The judge of one break. `whole` are the commit's files without the break, `before` those of its parent."""

    labs: Labs
    configuration: Configuration
    tag: str  # the newest before the commit
    posed: Posed
    whole: Files
    before: Files
    suite: Mapping[VerdictId, Verdict]  # without the break
    seconds: float  # that setting up this task took

    async def repair(self, repair: Repair) -> Judgement:
        right, how = await self._right(repair.edits)
        broken = self.posed.broken
        touched = [
            Span(change.path, start + 1, end, 1.0, "")
            for change in repair.edits
            if change.path == broken.path
            for start, end, _, _ in changed_ranges(FileChange(change.path, broken.after, change.after))
        ]
        told = {"located": self._names(touched), "found": False, "withheld": False, "reversed": self._reverses(repair.edits)}
        told["suite_only"] = how.startswith(WHOLE_SUITE) and not how.endswith(OTHER_INPUTS)
        return Judgement(right, how, {**self._task(), **told})

    async def no_repair(self, ended: NoRepair) -> Judgement:
        culprit = ended.culprit
        verified = any(iteration.result == "verified" for iteration in ended.log.iterations)
        right, how = await self._right(culprit.reversal) if culprit is not None else (False, "no change is named")
        named = culprit is not None and (culprit.lines <= SMALL or 2 * culprit.lines <= culprit.of)
        places = list(culprit.places) if culprit is not None and named else suspects(ended.log.notes)[:SUSPECTS]
        told: dict[str, object] = {
            "located": self._names(places),
            "found": right is True,
            "withheld": culprit is not None or verified,
            "reversed": False,
            "culprit": f"{culprit.lines} of {culprit.of} changed lines" if culprit is not None else None,
        }
        return Judgement(None, how, {**self._task(), **told})

    async def _right(self, edits: Edits) -> tuple[bool | None, str]:
        broken = self.posed.broken
        product = tuple(change for change in edits if not is_test(change.path))
        if [change.path for change in product] == [broken.path]:
            after = product[0].after
            if after is not None and same_program(after, broken.before):
                return True, "it is the original program"
        if self._reverses(product):
            return False, "it takes the commit back"
        changes = {broken.path: broken.after.encode(), **changed(product)}
        async with self.labs.open(self.whole, self.configuration, self.tag) as lab:
            different = unlike(await verdicts(lab, changes), self.suite)
            if different:  # in both of two runs, so that a flaky test decides nothing
                again = unlike(await verdicts(lab, changes), await verdicts(lab, {}))
                different = [id_ for id_ in different if id_ in again]
            if different:
                out = f", {len(self.posed.held_out)} of them held out" if self.posed.held_out else ""
                return False, f"{different[0]} differs from the original, of {len(self.suite)} results{out}"
            return await self._same(lab, changes)

    async def _same(self, lab: Lab, changes: Changes) -> tuple[bool | None, str]:
        """Compares the function with the original on inputs that no test has."""
        broken, out = self.posed.broken, len(self.posed.held_out)
        same = f"{WHOLE_SUITE} has the same {len(self.suite)} results, {out} of them held out"
        agreement = await variants.compare(lab, broken, self.posed.red, self.whole, changes)
        if agreement is None:
            return (True, same) if out else (None, "no test is held out, and the function cannot be compared on other inputs")
        if agreement.difference is not None:
            return False, f"differs from the original with other literals in a test, {agreement.difference[:200]}"
        return True, f"{same}; the function gives the same in {agreement.compared} calls {OTHER_INPUTS}"

    def _reverses(self, edits: Edits) -> bool:
        """Whether more than half of the lines that the commit changed are as before it."""
        after = {change.path: change.after for change in edits}
        total = back = 0
        for path in {*self.whole, *self.before}:
            if not is_product(path) or self.before.get(path) == self.whole.get(path):
                continue
            old, new = _lines(self.before, path), _lines(self.whole, path)
            now = Counter(lines(self.posed.broken.after)) if path == self.posed.broken.path else new
            end = Counter(lines(after[path] or "")) if path in after else now
            came, went = (new - old) & now, (old - new) - now
            total += came.total() + went.total()
            back += (came - end).total() + (went & end).total()
        return back * 2 > total

    def _names(self, places: list[Span]) -> bool:
        """Whether the places include the broken lines; a line that is missing stands between its neighbours."""
        path, first, last = place_of(self.posed)
        return any(
            span.path == path and span.first_line <= last and first <= max(span.first_line, span.last_line) for span in places
        )

    def _task(self) -> dict[str, object]:
        broken = self.posed.broken
        path, first, last = place_of(self.posed)
        return {
            "kind": broken.kind,
            "function": broken.function,
            "place": f"{path}:{first}" if first == last else f"{path}:{first}-{last}",
            "break": broken.shown,
            "red": len(self.posed.red),
            "held_out": len(self.posed.held_out),
            "set_up_seconds": round(self.seconds, 1),
        }


def place_of(posed: Posed) -> tuple[str, int, int]:
    """The file, and the broken lines in it; where lines are missing, the ones before and after."""
    broken = posed.broken
    ranges = changed_ranges(FileChange(broken.path, broken.before, broken.after))
    first, last = min(start for _, _, start, _ in ranges) + 1, max(end for _, _, _, end in ranges)
    return (broken.path, max(1, last), first) if last < first else (broken.path, first, last)


def suspects(notes: tuple[str, ...]) -> list[Span]:
    """The suspicious locations that a report names, most suspicious first."""
    told = next((note for note in notes if note.startswith(_SUSPECTS)), "").partition(": ")[2]
    found = []
    for match in _SUSPECT.finditer(told):
        first = int(match["first"])
        found.append(Span(match["path"].strip(), first, int(match["last"] or first), 0.0, ""))
    return found


def _lines(files: Files, path: str) -> Counter[str]:
    file: File | None = files.get(path)
    return Counter(lines((text_of(file) if file is not None else None) or ""))
