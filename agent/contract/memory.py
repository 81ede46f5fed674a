"""What earlier attempts learned, looked up by the failure's signature. `app` decides where it is stored."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.contract.outcome import Outcome
from agent.contract.verdicts import Failure

LONGEST = 2_000  # characters of a signature
SIMILAR = 0.5  # minimum `likeness` of two failures
_FRAME = frozenset({"assert", "assertionerror", "error", "py", "src", "test", "tests"})
_CHANGING = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\"[^\"]*\"")


@dataclass(frozen=True, slots=True)
class Recollection:
    """One ended attempt: its failure's signature and its result."""

    attempt: str  # its id
    signature: str
    outcome: str
    lessons: tuple[str, ...] = ()
    title: str = ""  # of the repair, if there was one
    diff: str = ""  # of the repair, bounded


def worth_keeping(recollection: Recollection) -> bool:
    """Whether to store it: repairs, and lessons of attempts that ran to their end without one, but no interrupted attempts."""
    if recollection.outcome == Outcome.HEALED:
        return True
    return bool(recollection.lessons) and recollection.outcome in (Outcome.GAVE_UP, Outcome.OUT_OF_BUDGET)


class Memory(Protocol):
    """Earlier attempts at one repository."""

    async def recall(self, signature: str, most: int = 3) -> tuple[Recollection, ...]:
        """The attempts with the most similar failures, most similar first."""

    async def keep(self, recollection: Recollection) -> None:
        """Store one, replacing an earlier one of the same attempt."""


class ProcessMemory:
    """Remembers for the life of the process, by attempt."""

    def __init__(self) -> None:
        self.kept: dict[str, Recollection] = {}

    async def recall(self, signature: str, most: int = 3) -> tuple[Recollection, ...]:
        wanted = words_of(signature)
        found = [(likeness(wanted, words_of(each.signature)), each) for each in self.kept.values()]
        alike = sorted((pair for pair in found if pair[0] >= SIMILAR), key=lambda pair: -pair[0])
        return tuple(each for _, each in alike[:most])

    async def keep(self, recollection: Recollection) -> None:
        self.kept[recollection.attempt] = recollection


def words_of(signature: str) -> set[str]:
    """The words by which failures are compared: in lower case, without words that every failing test has."""
    return {word for word in re.findall(r"\w+", signature.lower()) if word not in _FRAME}


def likeness(one: set[str], other: set[str]) -> float:
    """The Dice coefficient of two sets of words: 0 for nothing in common, 1 for equal ones."""
    return 2 * len(one & other) / max(1, len(one) + len(other))


def signature(failures: Sequence[Failure]) -> str:
    """Search text for failures, without details that vary from run to run (numbers, addresses, quoted values)."""
    lines = []
    for failure in failures[:10]:
        where = " ".join(f"{frame.path} {frame.function}" for frame in failure.frames[-3:])
        lines.append(f"{failure.id} {_CHANGING.sub('…', failure.message)} {where}")
    return "\n".join(dict.fromkeys(lines))[:LONGEST]
