"""The rung without a model: mutations of suspicious lines, tried in warm test processes inside the sandbox."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.checks.sampling import red_check, test_files
from agent.contract.proposal import Candidate
from agent.edits.changes import digest
from agent.proposer import Proposal, Situation
from agent.proposers.patterns.generate import Change, changes, still_parses, words
from agent.proposers.patterns.search import Hit, SearchEvent, ranked, search
from agent.proposers.patterns.source import LIMIT
from agent.source.test_files import is_test
from sandbox.base import LimitExceeded, Sandbox

FILES = 12  # suspicious files to search
CHANGES = 12_000  # to try at most
MAX_CANDIDATES = 5
LISTING, LISTING_SHARE = 10.0, 0.25  # seconds for listing the changes, and their share of the call's time
RECOGNIZED = 100  # the likeliest changes, always compared with those already judged


class PatternsProposer:
    """Proposes changes with which every failing test and the related passing tests pass in a warm process."""

    rung = "patterns"

    def can_help(self, situation: Situation) -> str | None:
        if not any(is_searchable(span.path) for span in situation.suspects):
            return "no Python file is suspicious"
        if red_check(situation.oracle) is None:
            return "no test fails"
        return None

    async def propose(self, situation: Situation) -> Proposal:
        """Takes about `situation.seconds`, or `search.LONGEST`, at most. Raises `SandboxError` if the sandbox is lost."""
        begin = time.monotonic()
        check = red_check(situation.oracle)
        if check is None:
            return Proposal(note="no test fails")
        texts = await _read(situation.sandbox, [s.path for s in situation.suspects])
        tests = await _read(
            situation.sandbox, test_files(sorted(situation.oracle.must_turn[check.name]), check.reader), is_test
        )
        until = begin + min(LISTING, situation.seconds * LISTING_SHARE)
        found, skipped = await asyncio.to_thread(_fresh_changes, texts, tests, situation, until)
        notes = [f"{path} was skipped: {why}" for path, why in skipped.items()]
        if not found:
            return Proposal(note="; ".join([*notes, "no mutation fits these lines"]))
        left = max(0.0, situation.seconds - (time.monotonic() - begin))
        events = await search(replace(situation, seconds=left), check, found)
        hits = ranked([hit for hit in _hits(events, found, texts) if digest(hit.edits(texts)) not in situation.tried])
        done = next((e for e in events if e.event == "done"), SearchEvent("done"))
        return Proposal(
            candidates=tuple(_candidate(hit, texts, len(hits)) for hit in hits[:MAX_CANDIDATES]),
            tried=done.tried,
            plausible=len(hits),
            note="; ".join([*notes, *_remarks(events, done)]),
            # After a search without hits, another one would only repeat it.
            exhausted=done.exhausted or not hits,
        )


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


def _fresh_changes(
    texts: dict[str, str], tests: dict[str, str], situation: Situation, until: float
) -> tuple[list[Change], dict[str, str]]:
    """Changes not judged before, best first, and the skipped files with the reason."""
    found, skipped = changes(texts, situation.suspects, CHANGES, words(tests.values()), until)
    fresh: list[Change] = []
    for number, change in enumerate(found if situation.tried else ()):
        # A digest needs whole files. Judged changes are likely and so come early; any later one is filtered out as a hit.
        if number >= RECOGNIZED and time.monotonic() >= until:
            return fresh + found[number:], skipped
        if digest(Hit((change,)).edits(texts)) not in situation.tried:
            fresh.append(change)
    return (fresh if situation.tried else found), skipped


def _hits(events: Sequence[SearchEvent], found: Sequence[Change], texts: dict[str, str]) -> list[Hit]:
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
    others = f"; {plausible - 1} other mutations achieve the same" if plausible > 1 else "; no other mutation tried does"
    promises = f" {hit.kept} of {hit.promised} docstring examples hold." if hit.promised else ""
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
            remarks.append(f"{len(ready.missing)} failing tests cannot be run in a warm process")
        elif not ready.red:
            remarks.append("the failing tests pass in a warm process")
    if not events:
        remarks.append("the search ended without a result")
    if done.tried and not done.exhausted and not any(e.event == "plausible" for e in events):
        remarks.append("it ran out of time before trying them all")
    ways = (("in one process", done.batched), ("in a fork each", done.forked), ("with a fresh import each", done.fresh))
    rates = [f"{count} {way} ({count / seconds:.0f}/s)" for way, (count, seconds) in ways if count and seconds > 0]
    if rates:
        remarks.append("tried " + ", ".join(rates))
    return remarks
