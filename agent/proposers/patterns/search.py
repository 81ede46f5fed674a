"""The search's host side: passes changes to the guest inside the sandbox and reads its events; ranks what passes.

A hit is one change, or a pair, with which every failing test passes. Knows no patterns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from agent.checks.sampling import guest_request, run_of
from agent.contract.proposal import Edits, FileChange
from agent.contract.verdicts import Check
from agent.proposer import Situation
from agent.proposers.patterns.generate import Change

LONGEST = 60.0  # seconds of one search: mutations that work are found early, and a model can take over
AFTER_HIT = 0.8  # seconds to look for alternatives after the first change that passes
RELATED = 150  # passing tests to run with the failing ones
PAIR = 0.3  # factor on the prior for a second change: few passing pairs are right
MARGIN = 2.0  # seconds reserved for starting and ending the search


class SearchEvent(msgspec.Struct):
    """One line of the guest's output; `event` decides which fields are set."""

    event: str
    id: int = -1
    also: int = -1  # the second change of a pair
    tests: int = 0
    kept: int = 0  # docstring examples that hold
    promised: int = 0
    why: str = ""
    missing: list[str] = []
    red: list[str] = []
    tried: int = 0
    exhausted: bool = False
    batched: tuple[int, float] = (0, 0.0)  # (count, seconds): changes tried many to a process,
    forked: tuple[int, float] = (0, 0.0)  # in a fork each,
    fresh: tuple[int, float] = (0, 0.0)  # in a fork each that imports everything


async def search(situation: Situation, check: Check, found: Sequence[Change]) -> list[SearchEvent]:
    """Try the changes; events identify them by their index in `found`. Raises `SandboxError` if the sandbox is lost."""
    seconds = min(situation.seconds, LONGEST)
    plan = {
        **guest_request(check, situation.oracle, run_of(check, situation.red), red=None, green=RELATED),
        "seconds": max(1.0, seconds - MARGIN),
        "after_hit": AFTER_HIT,
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
    """The valid events. They are untrusted and only decide what the gate tries."""
    for line in output.splitlines():
        try:
            yield msgspec.json.decode(line, type=SearchEvent)
        except (ValueError, msgspec.ValidationError):
            continue


@dataclass(frozen=True, slots=True)
class Hit:
    """Changes of one file that do not overlap. With them, `kept` of `promised` docstring examples hold."""

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
    """The likeliest first; hits that break more docstring examples than others come last."""
    most = max((hit.kept for hit in hits), default=0)
    return sorted(hits, key=lambda hit: (hit.promised > 0 and hit.kept < most, -hit.prior, hit.size))
