"""`selfheal reproduce`: reproduce a local checkout's CI failure, and report the steps and differences. Repairs nothing.

Progress goes to standard error, the result to standard output.
"""

from __future__ import annotations

import json as jsonlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from agent.case import Case
from agent.ci.job.leg import StepOutcome
from agent.ci.project.commands import telling_line
from agent.contract import words
from agent.contract.outcome import ConfirmedFailure, NoRepair
from agent.contract.verdicts import EXIT
from agent.engine import Reproduction
from app.cli import terminal
from app.cli.checkout import local_engine
from app.cli.checkout.checkout import root_of
from app.cli.checkout.local_engine import Screen
from app.cli.checkout.workflow_jobs import JobSelection, job_of
from app.cli.terminal import plain
from app.settings import Settings

_SHOWN = 30  # failing ids
_LINES = 10  # of a failing step's output
_TITLE, _DETAIL, _WIDEST = 40, 70, 200  # characters of a step's name, of its detail, of a line of its output
_STYLES = {"fails": "bold red", "runs": "", "installs": "cyan", "sets up": "cyan", "left out": "yellow"}


async def run(path: Path, settings: Settings, *, selection: JobSelection, json: bool) -> bool:
    """Reproduce the failure of the checkout at `path`; True if it fails here too.

    Raises `NotACheckout`, `NoSuchJob`, `NoSuchRevision`.
    """
    root, note = await root_of(path, "reproduce")
    job = await job_of(root, selection)
    started = time.monotonic()
    screen = Screen(terminal.console(stderr=True), started)
    screen.say(note)

    async def reproduce(case: Case) -> Reproduction:
        return await (await local_engine.engine(settings, screen)).reproduce(case, emit=screen.emit)

    async with screen.working("Reproducing"):
        found = await local_engine.on_checkout(root, job, selection, reproduce)
    seen = Reproduction(found, None) if isinstance(found, NoRepair) else found
    ended = time.monotonic()
    report = ReproductionReport(seen, ended - started, screen.timings(ended))
    if json:
        print(jsonlib.dumps(report.as_json(), indent=2))  # noqa: T201 - the command's answer
    else:
        report.show(terminal.console())
    return isinstance(seen.result, ConfirmedFailure)


@dataclass(frozen=True, slots=True)
class ReproductionReport:
    """Formats a reproduction as text or JSON."""

    seen: Reproduction
    seconds: float
    timings: Mapping[str, float]  # seconds of each step, in order

    @property
    def outcome(self) -> str:
        return "reproduced" if isinstance(self.seen.result, ConfirmedFailure) else self.seen.result.outcome.value

    def as_json(self) -> dict[str, Any]:
        """The same keys for every result; missing values are null or empty."""
        result, prepared = self.seen.result, self.seen.prepared
        ended = result if isinstance(result, NoRepair) else None
        failure = result if isinstance(result, ConfirmedFailure) else None
        plan = self.seen.plan
        return {
            "outcome": self.outcome,
            "reason": ended.reason if ended else None,
            "next_step": ended.next_step if ended else None,
            "flakiness": asdict(ended.flakiness) if ended and ended.flakiness else None,
            "failing": list(failure.failing) if failure else [],
            "failures": [asdict(each) for run in failure.base for each in run.failures] if failure else [],
            "jobs": [
                {"source": source, "steps": [asdict(step) for step in steps]} for source, steps in (plan.steps if plan else ())
            ],
            "checks": [asdict(check) for check in (plan.checks if plan else ())],
            "packages": asdict(plan.packages) if plan else None,
            "environment": prepared.task.environment if prepared else None,
            "approximated": self._approximated(),
            "seconds": round(self.seconds, 3),
            "timings": {step: round(seconds, 3) for step, seconds in self.timings.items()},
        }

    def show(self, console: Console) -> None:
        result, prepared = self.seen.result, self.seen.prepared
        plan = self.seen.plan
        for source, steps in plan.steps if plan else ():
            console.print(plain(f"\n{source[0].upper()}{source[1:]}", "bold"))
            console.print(_steps(steps))
        for check in plan.checks if plan and not plan.steps else ():
            console.print(plain(f"\nRuns `{telling_line(check.command)}` ({check.source})", "bold"))
        if approximated := self._approximated():
            console.print(plain("\nDifferences from CI", "bold"))
            for note in approximated:
                console.print(plain(f"  - {note}"))
        console.print()
        if isinstance(result, ConfirmedFailure):
            console.print(plain(f"Reproduced: {words.counted(len(result.failing), 'failing result')}", "bold red"))
            messages: dict[str, str] = {failure.id: failure.message.strip() for run in result.base for failure in run.failures}
            for id_ in result.failing[:_SHOWN]:
                console.print(plain(f"  {words.verdict(id_)}"))
                if message := messages.get(id_):
                    console.print(plain(f"    {_cut(message.splitlines()[0], _WIDEST)}", "dim"))
            for run in result.base:
                if EXIT in run.red and EXIT in result.failing:
                    console.print(plain(f"`{run.check}` exited with code {run.exit_code}. Last lines of its output:"))
                    for line in [line for line in run.output.splitlines() if line.strip()][-_LINES:]:
                        console.print(plain(f"  | {_cut(line, _WIDEST)}", "dim"))
            if len(result.failing) > _SHOWN:
                console.print(plain(f"  … and {len(result.failing) - _SHOWN} more; use --json to list all"))
        else:
            console.print(plain(f"Not reproduced ({result.outcome.value}): {result.reason}", "bold yellow"))
            console.print(plain(f"Next: {result.next_step}"))
        environment = f"{prepared.task.environment}, " if prepared else ""
        most = [f"{words.took(seconds)} {step}" for step, seconds in self.timings.items() if seconds >= self.seconds / 20]
        console.print(plain(f"{environment}{words.took(self.seconds)} ({', '.join(most)})", "dim"))

    def _approximated(self) -> list[str]:
        result, prepared, plan = self.seen.result, self.seen.prepared, self.seen.plan
        notes = [*(plan.notes if plan else ()), *(prepared.installed.notes if prepared else ())]
        return list(dict.fromkeys([*notes, *(result.notes if isinstance(result, ConfirmedFailure) else result.log.notes)]))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def _steps(steps: Sequence[StepOutcome]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for step in steps:
        shown = telling_line(step.detail) if step.does in ("fails", "runs") else step.detail.strip().partition("\n")[0]
        more = " …" if "\n" in step.detail.strip() else ""
        table.add_row(
            plain(f"  {step.number}"),
            plain(step.does, _STYLES.get(step.does, "dim")),
            plain(_cut(step.title, _TITLE)),
            plain(_cut(shown + more, _DETAIL), "dim"),
        )
    return table
