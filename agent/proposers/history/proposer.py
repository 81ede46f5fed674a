"""The rung that looks for what broke the tests: the smallest part of the change since the last good commit to take back.

It explains, and by default proposes nothing: whether a change is a mistake or its test is out of date, only its author knows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from agent.checks.sampling import red_check
from agent.contract import words
from agent.contract.last_good import Culprit, Regression
from agent.contract.proposal import Candidate, Edits, FileChange, Span
from agent.edits.changes import changed_lines, changed_ranges, digest, edited_lines, lines
from agent.proposer import Proposal, Situation
from agent.proposers.history.minimizing import smallest
from agent.proposers.history.pieces import PartialRevert, hunks, joined, pieces, whole_lines, with_moved
from agent.proposers.patterns.generate import Change
from agent.proposers.patterns.proposer import hits_of, is_searchable, search
from agent.proposers.patterns.source import FunctionNode, Rewrite, Source, Unreadable
from agent.proposers.trials import Trials
from agent.report import culprits
from agent.source.outline import Module

LONGEST = 60.0  # seconds of one call
WHOLE_RUNS = 3  # parts that are tried with all tests
LINES_TRIED = 12  # smaller pieces of a hunk that are run one by one, where no search inside the process is possible
PRIOR = 0.5


class HistoryProposer:
    """Finds the culprit. Proposes its reversal only if the policy allows reversals."""

    rung = "history"

    def can_help(self, situation: Situation) -> str | None:
        if situation.regression is None:
            return "no earlier commit is known at which the failing checks pass"
        if not situation.regression.reversal:
            return f"no code changed since the good commit{_beside(situation.regression)}"
        return None

    async def propose(self, situation: Situation) -> Proposal:
        """Takes `situation.seconds`, or `LONGEST`, at most. Raises `SandboxError` if the sandbox is lost."""
        regression = situation.regression
        assert regression is not None, "see can_help"
        seconds, began = min(situation.seconds, LONGEST), time.monotonic()
        everything, known = frozenset(regression.ids), frozenset(regression.ids) - frozenset(regression.new)
        hunt = _hunt(situation, regression, everything, seconds)
        culprit = await hunt.culprit()
        if culprit is None and known and known != everything:  # the new tests may fail for another reason
            hunt = _hunt(situation, regression, known, seconds - (time.monotonic() - began))
            culprit = await hunt.culprit()
        if culprit is None:
            return Proposal(tried=hunt.tried, note=hunt.note)
        candidate = Candidate("history", culprit.reversal, _title(culprit), prior=PRIOR)
        is_proposed = (
            situation.policy.allow_reversals and not culprit.breaks and digest(culprit.reversal) not in situation.tried
        )
        return Proposal((candidate,) if is_proposed else (), hunt.tried, 1, culprit=culprit)


def _beside(regression: Regression) -> str:
    """What else changed, as a clause; "" if nothing did."""
    read = f"; {words.named(regression.unread)} changed too and cannot be taken back here" if regression.unread else ""
    modes = f"; the executable bit of {words.named(regression.modes)} changed" if regression.modes else ""
    return read + modes


def _title(culprit: Culprit) -> str:
    where = words.location(culprit.places[0]) if culprit.places else culprit.reversal[0].path
    return f"Takes back {culprits.part(culprit)} ({where})"


def _hunt(situation: Situation, regression: Regression, target: frozenset[str], seconds: float) -> _Hunt:
    turn = {name: ids & target for name, ids in situation.oracle.must_turn.items()}
    narrowed = replace(situation, oracle=replace(situation.oracle, must_turn=turn), seconds=seconds)
    return _Hunt(Trials(narrowed), regression)


@dataclass(slots=True)
class _Hunt:
    """One search for the culprit. `trials` runs only the ids that pass at the good commit."""

    trials: Trials
    regression: Regression
    searched: int = 0  # pieces that were tried inside one process
    note: str = ""

    @property
    def tried(self) -> int:
        return self.searched + self.trials.tried

    async def culprit(self) -> Culprit | None:
        """None, with a note, if taking back no part of the change makes the tests pass.

        The whole change need not be such a part: changed tests may need the rest of it.
        """
        found = [edits for edits in await self._searched() if await self._turns(edits)]
        if not found and await self._turns(self.regression.reversal):
            found = [await self._minimized()]
        found = found or await self._single()
        if not found:
            start = f"no part of the change {self.regression.since} makes the tests pass if it is taken back"
            self.note = f"{start}{_beside(self.regression)}"
            return None
        found[0] = await self._with_moved(found[0])
        best, breaks = found[0], await self._broken_by(found[0])
        for edits in found[1:WHOLE_RUNS]:
            if not breaks:
                break
            if await self._broken_by(edits) == []:
                best, breaks = edits, []
        total = edited_lines(self.regression.reversal)
        count = min(edited_lines(best), total)
        places = await asyncio.to_thread(lambda: tuple(_places(best)))
        shown = await asyncio.to_thread(self._as_changed, best)
        return Culprit(
            self.regression.good,
            best,
            places,
            count,
            total,
            None if breaks is None else tuple(breaks),
            shown,
            self.regression.by,
        )

    def _as_changed(self, edits: Edits) -> Edits:
        wholes = {edit.path: edit for edit in self.regression.reversal}
        return tuple(
            whole_lines(wholes[edit.path], edit) if edit.before is not None and edit.after is not None else edit
            for edit in edits
        )

    async def _searched(self) -> list[Edits]:
        """The smallest pieces with which the failing tests and related passing ones pass in one process, smallest first."""
        situation = self.trials.situation
        check = red_check(situation.oracle)
        if check is None or sum(map(bool, situation.oracle.must_turn.values())) > 1:
            return []
        edits = [edit for edit in self.regression.reversal if is_searchable(edit.path)]
        texts = {edit.path: edit.before for edit in edits if edit.before is not None and edit.after is not None}
        found = await asyncio.to_thread(_changes, edits, texts)
        if not found:
            return []
        events = await search(replace(situation, seconds=max(1.0, self.trials.seconds_left / 2)), check, found)
        self.searched = next((event.tried for event in events if event.event == "done"), 0)
        hits = sorted(hits_of(events, found, texts), key=lambda hit: (changed_lines(hit.edits(texts)), hit.size))
        return [hit.edits(texts) for hit in hits[:WHOLE_RUNS]]

    async def _minimized(self) -> Edits:
        """The fewest hunks that must be taken back, then the fewest of their lines, by one run of the tests each."""
        parts = [(edit, hunk) for edit in self.regression.reversal for hunk in hunks(edit)]

        async def has_effect(tried: Sequence[tuple[FileChange, PartialRevert]]) -> bool | None:
            return None if self.trials.seconds_left < 1 else await self._turns(_taken(tried))

        kept = await smallest(parts, has_effect)
        if len(kept) == 1 and kept[0][0].before is not None and kept[0][0].after is not None:
            edit, hunk = kept[0]
            found = await asyncio.to_thread(pieces, (edit,))
            within = [p for p in found if hunk.start <= p.start and p.end <= hunk.end and p.size < hunk.size]
            for piece in within[:LINES_TRIED]:
                if self.trials.seconds_left < 1:
                    break
                if await self._turns(_taken([(edit, piece)])):
                    return _taken([(edit, piece)])
        return _taken(kept)

    async def _with_moved(self, edits: Edits) -> Edits:
        """With the other half of lines that were moved, if the tests pass all the same."""
        if len(edits) != 1:
            return edits
        whole = next(edit for edit in self.regression.reversal if edit.path == edits[0].path)
        if whole.before is None or whole.after is None:
            return edits
        larger = await asyncio.to_thread(with_moved, whole, edits[0])
        return (larger,) if larger is not None and await self._turns((larger,)) else edits

    async def _single(self) -> list[Edits]:
        """A hunk that is enough by itself, if the whole change is not."""
        for edit in self.regression.reversal:
            for hunk in hunks(edit)[:LINES_TRIED]:
                if self.trials.seconds_left < 1 or self.trials.tried > 2 * LINES_TRIED:
                    return []
                if await self._turns(taken := _taken([(edit, hunk)])):
                    return [taken]
        return []

    async def _turns(self, edits: Edits) -> bool:
        """Do all failing ids pass with these edits?"""
        runs = await self.trials.judged(edits, self.trials.targets)
        return not isinstance(runs, str) and all(self.trials.is_green(check, runs) for check in self.trials.targets)

    async def _broken_by(self, edits: Edits) -> list[str] | None:
        """Ids that pass now and fail with the edits; None if there is no time to run everything."""
        situation = self.trials.situation
        checks = situation.oracle.checks
        if sum(run.seconds for run in situation.red) > self.trials.seconds_left:
            return None
        runs = await self.trials.judged(edits, checks, whole=True)
        if isinstance(runs, str) or any(run.ending != "finished" for run in runs.values()):
            return None
        return sorted({id_ for name, run in runs.items() for id_ in situation.oracle.must_stay[name] - run.green})


def _taken(parts: Sequence[tuple[FileChange, PartialRevert]]) -> Edits:
    """These pieces taken back."""
    edits = []
    for edit in dict.fromkeys(edit for edit, _ in parts):
        if edit.before is None or edit.after is None:
            edits.append(edit)
            continue
        piece = joined([piece for other, piece in parts if other == edit], edit.before)
        edits.append(FileChange(edit.path, edit.before, piece.apply(edit.before)))
    return tuple(edits)


def _changes(edits: Sequence[FileChange], texts: dict[str, str]) -> list[Change]:
    """The pieces as changes for the search, the smallest with the highest score."""
    sources: dict[str, list[tuple[int, int, int, str]]] = {}
    for path, text in texts.items():
        try:
            sources[path] = _functions(Source.read(path, text))
        except Unreadable:
            continue
    found = [piece for piece in pieces(tuple(edits)) if piece.path in sources]
    changes = []
    for number, piece in enumerate(found):
        line = texts[piece.path].count("\n", 0, piece.start) + 1
        inside = [f for f in sources[piece.path] if f[0] <= piece.start and piece.end <= f[1]]
        at, name = (inside[0][2], inside[0][3]) if inside else (0, "")
        score = 0.95 * (1 - number / len(found))
        rewrite = Rewrite(piece.start, piece.end, piece.text, f"takes back line {line}", score)
        changes.append(Change(piece.path, rewrite, score, at, line, name))
    return changes


def _functions(source: Source) -> list[tuple[int, int, int, str]]:
    """Start and end offset, line of the `def`, and name of each outermost function. The end includes the line's end."""
    found = []
    for node in source.parents:
        if isinstance(node, FunctionNode) and source.outermost_function(node) is node:
            end = source.text.find("\n", source.span(node)[1])
            start = source.offset(node.lineno, 0)
            found.append((start, len(source.text) if end < 0 else end + 1, node.lineno, source.qualified_name(node)))
    return found


def _places(reversal: Edits) -> Iterator[Span]:
    """The lines of the failing commit that the reversal edits; where it only restores lines, the line after them."""
    for edit in reversal:
        module, last = Module(edit.path, edit.before or ""), max(1, len(lines(edit.before or "")))
        for first, end, _, _ in changed_ranges(edit):
            start, stop = (first + 1, end) if end > first else (min(first + 1, last), min(first + 1, last))
            inside = [d for d in module.definitions if d.first <= start <= d.last]
            name = min(inside, key=lambda d: d.last - d.first).name if inside else ""
            yield Span(edit.path, start, stop, 1.0, "taking this part of the change back makes the tests pass", name)
