"""What earlier attempts learned, found again by how a failure looks. Where it is kept is for others (`app`) to say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.contract.outcome import Outcome
from agent.contract.verdicts import Failure

LONGEST = 2_000  # characters of a signature


@dataclass(frozen=True, slots=True)
class Recollection:
    """One ended attempt: how its failure looked, and what came of it."""

    attempt: str  # its id
    signature: str
    outcome: str
    lessons: tuple[str, ...] = ()
    title: str = ""  # of the repair, where there was one
    diff: str = ""  # of the repair, bounded


def worth_keeping(recollection: Recollection) -> bool:
    """A repair is, and so is what was learned on the way to none; how an attempt was cut short is not."""
    if recollection.outcome == Outcome.HEALED:
        return True
    return bool(recollection.lessons) and recollection.outcome in (Outcome.GAVE_UP, Outcome.OUT_OF_BUDGET)


class Memory(Protocol):
    """The attempts at one repository."""

    async def recall(self, signature: str, most: int = 3) -> tuple[Recollection, ...]:
        """Those whose failure looked most alike, best first; nothing where nothing is alike."""

    async def keep(self, recollection: Recollection) -> None:
        """Keep one; the same attempt again replaces what was kept of it."""


def signature(failures: Sequence[Failure]) -> str:
    """How failures look, without what changes from run to run (numbers, addresses, quoted values): text to search by."""
    told = []
    for failure in failures[:10]:
        places = " ".join(f"{frame.path} {frame.function}" for frame in failure.frames[-3:])
        told.append(f"{failure.id} {_steady(failure.message)} {places}")
    return "\n".join(dict.fromkeys(told))[:LONGEST]


def _steady(message: str) -> str:
    return re.sub(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"", "…", message)
