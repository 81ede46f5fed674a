"""`make chaos`: all scenarios, or those that are named; a table at the end, and exit code 1 unless every one is good.

Told to end (SIGTERM, Ctrl-C), it stops what it has started and prints the table of what there is.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import fnmatch
import json
import signal
import sys
import time

from tests.chaos.runner import TAKEOVER_SECONDS, Report, run
from tests.chaos.scenarios import SCENARIOS, Scenario

COLUMNS = ("scenario", "deliveries acknowledged", "lost", "doubled", "seconds to take over", "leftovers")
INTERRUPTED = "interrupted before its end"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios by name; * matches anything (default: all)")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON instead of the table")
    parser.add_argument("--allow-skips", action="store_true", help="what this machine cannot show is no failure")
    parser.add_argument("--at-once", type=int, default=2, metavar="N", help="services that run at once (default: 2)")
    asked = parser.parse_args()
    chosen = _chosen(asked.names)
    if not chosen:
        parser.error(f"no scenario is called {' or '.join(asked.names)}; --list shows them")
    if asked.at_once < 1:
        parser.error("--at-once takes a number from 1 on")
    if asked.list:
        print("\n".join(f"{scenario.name:24} {scenario.what}" for scenario in chosen))
        return 0
    told = asyncio.run(_run(chosen, asked.at_once))
    reports = [told.get(scenario.name) or Report(scenario.name, missed=INTERRUPTED) for scenario in chosen]
    print(json.dumps([dataclasses.asdict(report) for report in reports], indent=2) if asked.json else table(reports))
    return 0 if all(report.good or (report.skipped and asked.allow_skips) for report in reports) else 1


async def _run(chosen: list[Scenario], at_once: int) -> dict[str, Report]:
    """The reports by name: all of them, or those that there are when the process is told to end."""
    reports: dict[str, Report] = {}
    began = time.monotonic()

    def tell(report: Report) -> None:
        reports[report.name] = report
        _tell(report, f"{len(reports)}/{len(chosen)} {(time.monotonic() - began) / 60:4.1f} min")

    running = asyncio.create_task(run(chosen, tell, at_once))
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    print(f"{len(chosen)} scenarios, {at_once} services at once", file=sys.stderr, flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await running
    return reports


def table(reports: list[Report]) -> str:
    """The reports in Markdown, one line each; below them what is wrong with those that are not good."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(_cells(report) for report in reports)]
    wrong = [f"- {report.name}: {'; '.join(_wrong(report))}" for report in reports if not report.good]
    return "\n".join([*(f"| {' | '.join(row)} |" for row in rows), *(["", "Not good:", *wrong] if wrong else [])])


def _cells(report: Report) -> tuple[str, ...]:
    takeover = "–" if report.takeover is None else f"{report.takeover:.1f}"
    counts = (report.acknowledged, len(report.lost), len(report.doubled))
    return (report.name, *map(str, counts), takeover, str(len(report.leftovers)))


def _wrong(report: Report) -> list[str]:
    """One line each."""
    slow = f"it took more than {TAKEOVER_SECONDS:.0f} s to go on" if report.slow else ""
    short = [" ".join(text.split())[:1000] for text in (report.missed, report.skipped and f"skipped: {report.skipped}", slow)]
    return [*filter(None, short), *report.lost, *report.doubled, *report.leftovers]


def _tell(report: Report, progress: str) -> None:
    """One line when a scenario is over, and what is wrong with it."""
    found = " · ".join(f"{name} {cell}" for name, cell in zip(COLUMNS[1:], _cells(report)[1:], strict=True))
    state = "ok  " if report.good else "FAIL"
    print(f"{progress} {state} {report.name} in {report.seconds:.0f} s · {found}", file=sys.stderr, flush=True)
    for line in (*_wrong(report), *report.notes):
        print(f"       {line}", file=sys.stderr, flush=True)


def _chosen(names: list[str]) -> list[Scenario]:
    return [one for one in SCENARIOS if not names or any(fnmatch.fnmatchcase(one.name, name) for name in names)]


if __name__ == "__main__":
    sys.exit(main())
