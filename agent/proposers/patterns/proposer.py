"""The rung without a model: mutations of suspicious lines, tried in warm test processes inside the sandbox.

A hit is one change or a pair of changes with which every failing test passes. This module does not know the patterns.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import msgspec

from agent.checks.sampling import guest_request, red_check, run_of, test_files
from agent.contract import words
from agent.contract.last_good import Culprit
from agent.contract.proposal import Candidate, Edits, FileChange, Span
from agent.contract.verdicts import Check
from agent.edits.changes import digest
from agent.prompts.failures import red
from agent.proposer import Proposal, Situation
from agent.proposers.patterns import generate
from agent.proposers.patterns.differences import lost_methods
from agent.proposers.patterns.generate import Change, Patience, changes, still_parses
from agent.proposers.patterns.source import LIMIT
from agent.source.test_files import is_test
from sandbox.base import LimitExceeded, Sandbox

FILES = 12  # suspicious files to search
CHANGES = 12_000  # that are tried at most
MAX_CANDIDATES = 5
LISTING, LISTING_SHARE = 10.0, 0.25  # seconds of CPU time for listing the changes, and their share of the call's time
LONGEST = 60.0  # seconds of one search: most hits are found early, and a model can take over
AFTER_HIT = 2_000  # changes that are tried after the first one that passes, to find better ones,
AFTER_HIT_SECONDS = 6.0  # within this time
RELATED = 150  # passing tests to run with the failing ones
PAIR = 0.3  # factor on the prior for a second change: few passing pairs are right
MARGIN = 2.0  # seconds reserved for starting and ending the search
RECOGNIZED = 100  # number of likeliest changes that are always compared with those already judged


class PatternsProposer:
    """Proposes changes with which every failing test and the related passing tests pass in a warm process."""

    rung = "patterns"

    def can_help(self, situation: Situation) -> str | None:
        if not any(is_searchable(span.path) for span in situation.suspects):
            return "no Python file is suspicious"
        if red_check(situation.oracle) is None:
            return "no test fails"
        regression = situation.regression
        if regression is not None and not regression.tests and not situation.policy.allow_reversals:
            return f"the change {regression.since} edits no test, so it may be intended and the failing test out of date"
        return None

    async def propose(self, situation: Situation) -> Proposal:
        """Takes about `situation.seconds`, or `LONGEST`, at most. Raises `SandboxError` if the sandbox is lost."""
        begin = time.monotonic()
        check = red_check(situation.oracle)
        if check is None:
            return Proposal(note="no test fails")
        if situation.culprit is not None:
            situation = replace(situation, suspects=_near(situation.culprit, situation.suspects))
        texts = await _read(situation.sandbox, [s.path for s in situation.suspects])
        tests = await _read(
            situation.sandbox, test_files(sorted(situation.oracle.must_turn[check.name]), check.reader), is_test
        )
        found, skipped = await asyncio.to_thread(_fresh_changes, texts, tests, situation)
        notes = [f"{path} was skipped: {why}" for path, why in skipped.items()]
        if not found:
            return Proposal(note="; ".join([*notes, "no mutation fits these lines"]))
        left = max(0.0, situation.seconds - (time.monotonic() - begin))
        events = await search(replace(situation, seconds=left), check, found)
        hits = ranked([hit for hit in hits_of(events, found, texts) if digest(hit.edits(texts)) not in situation.tried])
        done = next((e for e in events if e.event == "done"), SearchEvent("done"))
        return Proposal(
            candidates=tuple(_candidate(hit, texts, len(hits)) for hit in hits[:MAX_CANDIDATES]),
            tried=done.tried,
            plausible=len(hits),
            note="; ".join([*notes, *_remarks(events, done)]),
            # After a search without hits, another search would only repeat it.
            exhausted=done.exhausted or not hits,
        )


def _near(culprit: Culprit, suspects: Sequence[Span]) -> tuple[Span, ...]:
    """The lines that broke the tests, and the suspicious ones next to them: where lines are missing, one of them may lack."""
    near = [span for span in suspects if any(_touch(place, span) for place in culprit.places)]
    return (*culprit.places, *near)


def _touch(one: Span, other: Span) -> bool:
    is_apart = one.first_line - 1 > other.last_line or other.first_line > one.last_line + 1
    return one.path == other.path and not is_apart


def is_searchable(path: str) -> bool:
    return path.endswith(".py") and not is_test(path) and path.rpartition("/")[2] != "setup.py"


async def _read(sandbox: Sandbox, paths: Sequence[str], wanted: Callable[[str], bool] = is_searchable) -> dict[str, str]:
    """Texts of these files, best first; files that are not UTF-8 are skipped."""
    texts: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if len(texts) == FILES:
            break
        if wanted(path):
            try:
                texts[path] = (await sandbox.base.read(path, 4 * LIMIT)).decode()
            except (FileNotFoundError, ValueError, LimitExceeded):
                continue
    return texts


def _fresh_changes(texts: dict[str, str], tests: dict[str, str], situation: Situation) -> tuple[list[Change], dict[str, str]]:
    """Changes not judged before, best first, and the skipped files with the reason."""
    seconds = min(LISTING, situation.seconds * LISTING_SHARE)
    lost = lost_methods(red(situation))
    found, skipped = changes(texts, situation.suspects, CHANGES, generate.words(tests.values()), seconds, lost)
    patience = Patience(seconds / 2)
    fresh: list[Change] = []
    for number, change in enumerate(found if situation.tried else ()):
        # A digest needs whole files. Judged changes are likely, so they come early; later ones are filtered out as hits.
        if number >= RECOGNIZED and patience.ended():
            return fresh + found[number:], skipped
        if digest(Hit((change,)).edits(texts)) not in situation.tried:
            fresh.append(change)
    return (fresh if situation.tried else found), skipped


def hits_of(events: Sequence[SearchEvent], found: Sequence[Change], texts: dict[str, str]) -> list[Hit]:
    """The changes that passed according to the guest; events about unknown changes are ignored."""
    hits: list[Hit] = []
    for event in events:
        numbers = [event.id] if event.also < 0 else [event.id, event.also]
        if event.event == "plausible" and all(0 <= number < len(found) for number in numbers):
            hit = Hit(tuple(found[number] for number in numbers), event.kept, event.promised)
            if hit.is_consistent and all(still_parses(e.before or "", e.after or "") for e in hit.edits(texts)):
                hits.append(hit)
    return hits


def _candidate(hit: Hit, texts: dict[str, str], plausible: int) -> Candidate:
    others = f"; {plausible - 1} other mutations achieve the same" if plausible > 1 else "; no other tried mutation does"
    promises = f" {hit.kept} of {hit.promised} docstring examples pass." if hit.promised else ""
    return Candidate(
        rung="patterns",
        edits=hit.edits(texts),
        title=hit.title,
        reasoning=f"With this change the failing tests and the related passing tests pass{others}.{promises}",
        prior=hit.prior,
    )


def _remarks(events: Sequence[SearchEvent], done: SearchEvent) -> list[str]:
    remarks = [f"the search could not run: {e.why}" for e in events if e.event == "unavailable"]
    for ready in (e for e in events if e.event == "ready"):
        if ready.missing:
            remarks.append(f"{words.counted(len(ready.missing), 'failing test')} cannot run in the search's reused process")
        elif not ready.red:
            remarks.append("the failing tests pass in the search's reused process")
    if not events:
        remarks.append("the search ended without a result")
    if not any(e.event == "plausible" for e in events):
        if done.why:
            remarks.append(f"the search is incomplete: {done.why}")
        elif done.tried and not done.exhausted:
            remarks.append("the search ran out of time before trying all mutations")
    ways = (("in one process", done.batched), ("in separate forks", done.forked), ("with a fresh import each", done.fresh))
    rates = [f"{count} {way} ({count / seconds:.0f}/s)" for way, (count, seconds) in ways if count and seconds > 0]
    if rates:
        remarks.append("tried " + ", ".join(rates))
    return remarks


class SearchEvent(msgspec.Struct):
    """One line of the guest's output; `event` determines which fields are set."""

    event: str
    id: int = -1
    also: int = -1  # the second change of a pair
    kept: int = 0  # docstring examples that pass
    promised: int = 0
    why: str = ""
    missing: list[str] = []
    red: list[str] = []
    tried: int = 0
    exhausted: bool = False
    batched: tuple[int, float] = (0, 0.0)  # (count, seconds) for changes tried together in one process,
    forked: tuple[int, float] = (0, 0.0)  # for changes tried in a fork each,
    fresh: tuple[int, float] = (0, 0.0)  # for changes tried in a fork each that imports everything again


async def search(situation: Situation, check: Check, found: Sequence[Change], *, all_alone: bool = False) -> list[SearchEvent]:
    """Try the changes; events identify them by their index in `found`. Raises `SandboxError` if the sandbox is lost.

    With `all_alone`, every change is tried, however many pass, and none together with another.
    """
    seconds = min(situation.seconds, LONGEST)
    plan = {
        **guest_request(check, situation.oracle, run_of(check, situation.red), red=None, green=RELATED),
        "seconds": max(1.0, seconds - MARGIN),
        "after_hit": len(found) if all_alone else AFTER_HIT,
        "after_hit_seconds": seconds if all_alone else AFTER_HIT_SECONDS,
        "all_alone": all_alone,
    }
    requests = [
        {
            "id": number, "path": c.path, "line": c.function_line, "score": c.score,
            "start": c.rewrite.start, "end": c.rewrite.end, "text": c.rewrite.text, "names": c.rewrite.names,
            "wants": c.rewrite.wants,
        }
        for number, c in enumerate(found)
    ]  # fmt: skip
    stdin = "\n".join(map(json.dumps, [plan, *requests])).encode()
    async with situation.sandbox.candidate() as workspace:
        asked = await situation.runner.ask(workspace, "search", stdin, seconds + MARGIN, check=check)
    events = list(_events(asked.output))
    return events or [SearchEvent("unavailable", why=asked.problem)] if asked.problem else events


def _events(output: bytes) -> Iterator[SearchEvent]:
    """The valid events. They are untrusted: they only decide which changes the gate tries."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=SearchEvent)
        except (ValueError, msgspec.ValidationError):
            continue


@dataclass(frozen=True, slots=True)
class Hit:
    """Changes of one file that do not overlap. With them, `kept` of `promised` docstring examples pass."""

    changes: tuple[Change, ...]
    kept: int = 0
    promised: int = 0

    @property
    def is_consistent(self) -> bool:
        spans = sorted((c.rewrite.start, c.rewrite.end) for c in self.changes)
        apart = all(one[1] <= other[0] for one, other in pairwise(spans))
        return apart and len({c.path for c in self.changes}) == 1

    @property
    def title(self) -> str:
        return " and ".join(change.title for change in self.changes)

    @property
    def prior(self) -> float:
        likely = min(0.95, *(change.score for change in self.changes)) if len(self.changes) > 1 else self.changes[0].score
        likely = min(0.95, likely) * PAIR ** (len(self.changes) - 1)
        return likely * (0.3 + 0.7 * min(1.0, max(0.0, self.kept / self.promised)) if self.promised > 0 else 1.0)

    @property
    def size(self) -> int:
        """Characters removed plus characters added."""
        return sum(len(c.rewrite.text) + c.rewrite.end - c.rewrite.start for c in self.changes)

    def edits(self, texts: Mapping[str, str]) -> Edits:
        path = self.changes[0].path
        after = texts[path]
        for change in sorted(self.changes, key=lambda c: -c.rewrite.start):
            after = change.rewrite.apply(after)
        return (FileChange(path, texts[path], after),)


def ranked(hits: Sequence[Hit]) -> list[Hit]:
    """The hits, likeliest first; hits that break more docstring examples than others come last."""
    most = max((hit.kept for hit in hits), default=0)
    return sorted(hits, key=lambda hit: (hit.promised > 0 and hit.kept < most, -hit.prior, hit.size))
