"""The results of a search: one change, or a pair, with which every failing test passes; and their ranking."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.contract.proposal import Edits, FileChange
from agent.proposers.patterns.generate import Change

PAIR = 0.3  # factor on the prior for a second change: few passing pairs are right


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
