"""The rung that needs no model: small changes of suspicious lines, tried in warm test processes inside the sandbox."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import msgspec

from agent.edits import digest
from agent.localization import sample, test_files
from agent.proposers.base import Proposal, Situation
from agent.proposers.patterns.generate import Change, changes, still_parses
from agent.proposers.patterns.source import LIMIT
from agent.task import Candidate, Check, CheckRun, FileChange, VerdictId
from agent.testfiles import is_test
from sandbox.base import MIB, Command, DeadlinePassed, LimitExceeded, Sandbox

FILES = 12  # suspicious files that are searched
CHANGES = 6000  # that are tried at most
HANDED_ON = 5
LONGEST = 60.0  # seconds of one search: what small changes can heal, they heal early, and a model may be waiting
AFTER_HIT = 0.8  # seconds to look for alternatives once one change passed
RELATED = 150  # passing tests that are run beside the failing ones
MARGIN = 2.0  # seconds kept back for starting and ending the search

_READERS = ("pytest", "unittest")


class _Event(msgspec.Struct):
    """One line of the guest's answer; which fields are set depends on `event`."""

    event: str
    id: int = -1
    tests: int = 0
    why: str = ""
    missing: list[str] = []
    red: list[str] = []
    tried: int = 0
    exhausted: bool = False


class PatternsProposer:
    """Searches; what it proposes made every failing test pass in a warm process, and the related passing tests stay green."""

    rung = "patterns"

    def can_help(self, situation: Situation) -> str | None:
        if not any(is_searchable(span.path) for span in situation.suspects):
            return "no Python file is suspicious"
        if _check(situation) is None:
            return "no test is red"
        return None

    async def propose(self, situation: Situation) -> Proposal:
        """Takes about `situation.seconds`, or `LONGEST`, at most. Raises `SandboxError` when the sandbox is lost."""
        check = _check(situation)
        if check is None:
            return Proposal(note="no test is red")
        texts = await _read(situation.sandbox, [s.path for s in situation.suspects])
        found, skipped = await asyncio.to_thread(changes, texts, situation.suspects, CHANGES)
        found = [c for c in found if digest((_edit(c, texts),)) not in situation.tried] if situation.tried else found
        notes = [f"{path} was not searched: {why}" for path, why in skipped.items()]
        if not found:
            return Proposal(note="; ".join([*notes, "no small change is known for these lines"]))
        events = await _search(situation, check, found)
        hits = [found[e.id] for e in events if e.event == "plausible" and 0 <= e.id < len(found)]
        hits = [c for c in hits if still_parses(texts[c.path], c.rewrite.apply(texts[c.path]))]
        candidates = tuple(_candidate(c, texts, len(hits)) for c in hits[:HANDED_ON])
        done = next((e for e in events if e.event == "done"), _Event("done"))
        return Proposal(
            candidates=candidates,
            tried=done.tried,
            plausible=len(hits),
            note="; ".join([*notes, *_remarks(events, done)]),
            # A search that found nothing would begin again where this one began.
            exhausted=done.exhausted or not hits,
        )


def is_searchable(path: str) -> bool:
    return path.endswith(".py") and not is_test(path) and path.rpartition("/")[2] != "setup.py"


def _check(situation: Situation) -> Check | None:
    """The red test check. With several, the first: the gate asks the others."""
    oracle = situation.oracle
    return next((c for c in oracle.checks if c.reader in _READERS and oracle.must_turn.get(c.name)), None)


async def _read(sandbox: Sandbox, paths: Sequence[str]) -> dict[str, str]:
    """Texts of the suspicious files, best first; what is no UTF-8 text is passed over."""
    texts: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        if len(texts) == FILES:
            break
        if is_searchable(path):
            try:
                texts[path] = (await sandbox.base.read(path, 4 * LIMIT)).decode()
            except (FileNotFoundError, ValueError, LimitExceeded):
                continue
    return texts


async def _search(situation: Situation, check: Check, found: Sequence[Change]) -> list[_Event]:
    run = next((r for r in situation.red if r.check == check.name), CheckRun(check.name, "finished", {}, (), 0.0))
    seconds = min(situation.seconds, LONGEST)
    red: list[VerdictId] = sorted(situation.oracle.must_turn[check.name], key=lambda i: (run.durations.get(i, 0.0), i))
    plan = {
        "reader": check.reader,
        "cwd": check.cwd,
        "args": test_files(red, check.reader),
        "red": red,
        "green": sample(check, situation.oracle, run, red, RELATED),
        "seconds": max(1.0, seconds - MARGIN),
        "after_hit": AFTER_HIT,
    }
    requests = [
        {
            "id": number, "path": c.path, "line": c.function_line,
            "start": c.rewrite.start, "end": c.rewrite.end, "text": c.rewrite.text,
        }
        for number, c in enumerate(found)
    ]  # fmt: skip
    await situation.runner.prepare()
    async with situation.sandbox.candidate() as workspace:
        command = Command(
            argv=(workspace.python, situation.runner.guest, "search"),
            timeout=seconds + MARGIN,
            env=check.env,
            stdin="\n".join(map(json.dumps, [plan, *requests])).encode(),
            output_limit=4 * MIB,
        )
        try:
            output = (await workspace.run(command)).stdout
        except DeadlinePassed as passed:
            output = passed.stdout
        except LimitExceeded as exceeded:
            return [_Event("unavailable", why=str(exceeded))]
    return list(_events(output))


def _events(output: bytes) -> list[_Event]:
    """What can be believed of the answer: it is only about what to try in the gate."""
    events: list[_Event] = []
    for line in output.splitlines():
        try:
            events.append(msgspec.json.decode(line, type=_Event))
        except (ValueError, msgspec.ValidationError):
            continue
    return events


def _remarks(events: Sequence[_Event], done: _Event) -> list[str]:
    remarks = [f"the search could not run: {e.why}" for e in events if e.event == "unavailable"]
    for ready in (e for e in events if e.event == "ready"):
        if ready.missing:
            remarks.append(f"{len(ready.missing)} failing tests cannot be run in a warm process")
        elif not ready.red:
            remarks.append("the failing tests pass in a warm process")
    if not events:
        remarks.append("the search ended without an answer")
    if done.tried and not done.exhausted and not any(e.event == "plausible" for e in events):
        remarks.append("its time was up before it had tried them all")
    return remarks


def _edit(change: Change, texts: dict[str, str]) -> FileChange:
    before = texts[change.path]
    return FileChange(change.path, before, change.rewrite.apply(before))


def _candidate(change: Change, texts: dict[str, str], plausible: int) -> Candidate:
    others = f"; {plausible - 1} other small changes do too" if plausible > 1 else "; no other small change that was tried does"
    return Candidate(
        rung="patterns",
        edits=(_edit(change, texts),),
        title=change.title,
        reasoning=f"With this change the failing tests pass and the related passing tests stay green{others}.",
        prior=min(0.95, change.score),
    )
