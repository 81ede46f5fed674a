"""Runs the tests again under other conditions, to find out whether a failure is flaky and what it depends on.

`agent/reproduce/flakiness.py` chooses the conditions and interprets the runs. When the time is up, the findings so far count.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice

from agent.checks.oracle import Round, failures, flaky_ids
from agent.contract import words
from agent.contract.events import Probed
from agent.contract.outcome import Chance, Flakiness
from agent.contract.verdicts import EXIT, CheckRun, Conditions, VerdictId
from agent.reproduce import flakiness
from agent.state import Work
from sandbox.base import LimitExceeded

SHARE, LONGEST = 0.25, 300.0  # time limits: share of the attempt's time, and seconds
TRIALS = 10  # conditions to try
UNREPORTED = 4  # conditions to try if nothing indicates that a test ever failed
AGAIN = 2  # more failures required before a test counts as failing every time
READ = 20  # most files of tracebacks that are searched for signs

_SAME = "failed in some runs and passed in others under the same conditions ({})"

Ids = frozenset[VerdictId]


@dataclass(frozen=True, slots=True)
class Probe:
    """What reruns found. `is_the_runs_own`: the failure needs only the clock or seed of the run in CI."""

    flakiness: Flakiness | None  # None: nothing ever failed
    tried: int = 0  # runs in addition to those of the base
    is_the_runs_own: bool = False


class _Enough(Exception):
    """No time is left for another run."""


@dataclass(slots=True)
class Prober:
    """`rounds` are the runs at the base, in which no failure occurred every time."""

    work: Work
    rounds: Sequence[Round]
    tried: int = 0
    seen: list[CheckRun] = field(default_factory=list)
    until: float = 0.0

    @property
    def longest(self) -> float:
        """Seconds of the slowest full run."""
        return max(sum(run.seconds for run in runs) for runs in self.rounds)

    async def probe(self) -> Probe:
        """Raises `SandboxError` when the sandbox is lost."""
        ledger = self.work.ledger
        self.until = ledger.seconds_spent() + min(LONGEST, SHARE * ledger.seconds_left())
        self.seen = [run for runs in self.rounds for run in runs]
        ids = frozenset(id_ for run in self.seen for id_ in run.verdicts if id_ != EXIT)
        wanted = flakiness.reported_in(self.work.task.reported_ids, ids) | (flaky_ids(self.rounds).keys() - {EXIT})
        found: tuple[Conditions, Ids] | None = None
        with contextlib.suppress(_Enough):
            found = await self._first_red(wanted)
            if found is not None:
                return await self._explained(*found)
            if wanted and (alone := await self._red(Conditions(hash_seed=1, seed=1), only=wanted)):
                why = "fails alone and passes with the other tests, so it depends on state that another test leaves behind"
                return Probe(self._flaky(alone, "order", (why,)), self.tried)
        runs = [[(run,) for run in self.seen if run.check == check.name] for check in self.work.task.checks]
        red = frozenset(id_ for each in runs for id_ in flaky_ids(each).keys() - {EXIT} if not wanted or id_ in wanted)
        return await self._by_signs(red) if red else Probe(None, self.tried)

    async def _first_red(self, wanted: Ids) -> tuple[Conditions, Ids] | None:
        task = self.work.task
        now = datetime.now(UTC)
        was_red = wanted or task.reported_ids or task.hints or task.clock or task.seed is not None or task.heals_flakiness
        for under in islice(flakiness.trials(task.seed, task.clock, now), TRIALS if was_red else UNREPORTED):
            red = await self._red(under)
            if suspects := (red & wanted if wanted else red):
                return under, suspects
        return None

    async def _explained(self, under: Conditions, suspects: Ids) -> Probe:
        """Find which of these conditions the failure depends on."""
        steady = await self._steady(under, suspects)
        if not steady:
            return await self._by_signs(suspects, _SAME.format(flakiness.in_words(under)))
        needed = under
        try:
            for name in flakiness.varied(under):
                for other in flakiness.alternatives(needed, name):
                    if not steady <= await self._red(other):
                        break
                else:
                    needed = flakiness.without(needed, name)
            kept = await self._steady(needed, steady)
            if not kept and needed != under:  # the runs depended on chance
                needed, kept = under, await self._steady(under, steady)
        except _Enough:
            kept = steady
        if not kept:
            return await self._by_signs(steady, _SAME.format(flakiness.in_words(under)))
        return await self._concluded(needed, kept)

    async def _concluded(self, needed: Conditions, steady: Ids) -> Probe:
        task, fixed = self.work.task, set(flakiness.varied(needed))
        one = min(steady)
        cause, evidence = flakiness.cause_of(needed), [f"fails every time {flakiness.in_words(needed)} and passes otherwise"]
        try:
            if cause == "order":
                evidence += await self._company(needed, one)
            elif "seed" in fixed and one not in await self._red(needed, only=frozenset({one})):
                cause = "order"  # pytest-randomly derives the order from the seed
                evidence.append(f"`{one}` passes alone with the same seed")
        except _Enough:
            pass
        own = {"clock"} if task.clock is not None and needed.clock == task.clock.timestamp() else set()
        own |= {"seed"} if task.seed is not None and needed.seed == task.seed else set()
        return Probe(self._flaky(steady, cause, tuple(evidence), (needed,)), self.tried, bool(fixed) and fixed <= own)

    async def _company(self, needed: Conditions, one: VerdictId) -> list[str]:
        """Find which earlier test makes it fail, or that it needs an earlier test to pass."""
        if one in await self._red(replace(needed, shuffle=None), only=frozenset({one})):
            return [f"`{one}` also fails alone, so it depends on state that another test leaves behind"]
        evidence = [f"`{one}` passes alone"]
        assert needed.shuffle is not None
        ids = {id_ for run in self.rounds[0] if one in run.verdicts for id_ in run.verdicts}
        pool = flakiness.before(ids, one, needed.shuffle)
        neighbours = flakiness.same_file(pool, one)
        if neighbours and neighbours != pool and await self._is_red_after(neighbours, one, needed):
            pool = neighbours
        while len(pool) > 1:
            middle = len(pool) // 2
            if await self._is_red_after(pool[middle:], one, needed):
                pool = pool[middle:]
            elif await self._is_red_after(pool[:middle], one, needed):
                pool = pool[:middle]
            else:
                return [*evidence, f"it fails after {words.counted(len(pool), 'other test')} together"]
        return [*evidence, *(f"it fails after `{id_}`, which leaves state behind" for id_ in pool)]

    async def _is_red_after(self, others: Sequence[VerdictId], one: VerdictId, needed: Conditions) -> bool:
        return one in await self._red(needed, only=frozenset({*others, one}))

    async def _steady(self, under: Conditions, suspects: Ids) -> Ids:
        """The suspects that fail every time under these conditions."""
        for _ in range(AGAIN):
            suspects &= await self._red(under)
            if not suspects:
                break
        return suspects

    async def _by_signs(self, ids: Ids, same: str = "") -> Probe:
        """The result if no conditions make it fail every time: signs in its tracebacks and in the files that they name."""
        failed = failures(reversed(self.seen), ids)
        texts = [text for failure in failed for text in (failure.message, failure.details)]
        cause, evidence = flakiness.by_signs(texts)
        if cause == "unknown":
            paths = dict.fromkeys(frame.path for failure in failed for frame in failure.frames)
            cause, evidence = flakiness.by_signs([await self._read(path) for path in list(paths)[:READ]])
        return Probe(self._flaky(ids, cause, tuple(each for each in (same, evidence) if each)), self.tried)

    async def _read(self, path: str) -> str:
        try:
            return (await self.work.task.sandbox.base.read(path)).decode("utf-8", "replace")
        except (OSError, LimitExceeded):
            return ""

    async def _red(self, under: Conditions, *, only: Ids | None = None) -> Ids:
        """The ids that fail in another run under these conditions, of all tests or of `only`."""
        work, red = self.work, frozenset[VerdictId]()
        if work.ledger.seconds_spent() + self.longest > self.until:
            raise _Enough
        self.tried += 1
        for check, base in zip(work.task.checks, self.rounds[0], strict=True):
            mine = None if only is None else only & base.verdicts.keys()
            if not check.is_python or (mine is not None and not mine):
                continue
            try:
                async with work.task.sandbox.candidate() as workspace:
                    fixed = replace(check, conditions=(under,))
                    run = await work.runner.run(workspace, fixed, only=mine, timeout=work.patience(check))
            except LimitExceeded as error:
                raise _Enough from error
            if mine is None:
                self.seen.append(run)
            red |= run.red - {EXIT}
        how = flakiness.in_words(under) + (f", only {words.counted(len(only), 'test')}" if only is not None else "")
        text = f"Run {self.tried} {how}: {f'{len(red):,} failed' if red else 'all passed'}"
        await work.context.emit(Probed(text=text, run=self.tried, under=how, red=[str(id_) for id_ in sorted(red)[:50]]))
        return red

    def _flaky(self, ids: Ids, cause: Chance, evidence: tuple[str, ...], under: tuple[Conditions, ...] = ()) -> Flakiness:
        """The flaky failure, with counts of the runs in which one of the ids failed, or any of them ran."""
        judged = [run for run in self.seen if ids & (run.red | run.green)]
        return Flakiness(tuple(sorted(ids)), sum(bool(ids & run.red) for run in judged), len(judged), cause, evidence, under)
