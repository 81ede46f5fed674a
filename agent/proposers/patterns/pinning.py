"""Finds out whether the tests pin a change down: tries its neighbours against the same tests, in warm processes."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from agent.checks.sampling import red_check
from agent.contract.proposal import Edits
from agent.proposer import Situation
from agent.proposers.patterns.neighbours import neighbours
from agent.proposers.patterns.proposer import hits_of, is_searchable, search

SECONDS = 8.0  # for all neighbours


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A mutation of a change that passes too."""

    title: str
    edits: Edits


@dataclass(frozen=True, slots=True)
class Pinning:
    """`tried` mutations of a change, of which the `passing` ones make the same tests pass."""

    tried: int = 0
    passing: tuple[Neighbour, ...] = ()


async def pinning(situation: Situation, edits: Edits) -> Pinning:
    """Nothing is tried for a change of several files, or of one that is not Python. Raises `SandboxError`."""
    check = red_check(situation.oracle)
    product = [each for each in edits if is_searchable(each.path)]
    if check is None or len(product) != 1 or len(edits) != 1 or edits[0].before is None:
        return Pinning()
    near = await asyncio.to_thread(neighbours, edits[0])
    if not near:
        return Pinning()
    events = await search(replace(situation, seconds=min(situation.seconds, SECONDS)), check, near, all_alone=True)
    texts = {edits[0].path: edits[0].before}
    alone = [event for event in events if event.also < 0]
    tried = min(len(near), sum(event.tried for event in events if event.event == "done"))
    passing = tuple(Neighbour(hit.title, hit.edits(texts)) for hit in hits_of(alone, near, texts))
    return Pinning(tried, passing)
