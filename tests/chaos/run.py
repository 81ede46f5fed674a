"""`make chaos`: all scenarios, or those that are named; a table at the end, and exit code 1 unless every one is good."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import fnmatch
import json
import sys

from tests.chaos.runner import Report, run
from tests.chaos.scenarios import SCENARIOS, Scenario

COLUMNS = ("scenario", "acknowledged", "lost", "doubled", "taken over in", "leftovers", "took")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="scenarios by name; * matches anything (default: all)")
    parser.add_argument("--list", action="store_true", help="only say which there are")
    parser.add_argument("--json", action="store_true", help="print the reports as JSON instead of the table")
    parser.add_argument("--allow-skips", action="store_true", help="what this machine cannot show is no failure")
    asked = parser.parse_args()
    chosen = _chosen(asked.names)
    if not chosen:
        parser.error(f"no scenario is called {' or '.join(asked.names)}; --list shows them")
    if asked.list:
        print("\n".join(f"{scenario.name:24} {scenario.what}" for scenario in chosen))
        return 0
    reports = asyncio.run(run(chosen, _tell))
    print(json.dumps([dataclasses.asdict(report) for report in reports], indent=2) if asked.json else table(reports))
    return 0 if all(report.good or (report.skipped and asked.allow_skips) for report in reports) else 1


def table(reports: list[Report]) -> str:
    """The reports in Markdown, one line each."""
    rows = [COLUMNS, tuple("---" for _ in COLUMNS), *(_cells(report) for report in reports)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _cells(report: Report) -> tuple[str, ...]:
    if report.skipped:
        return (report.name, *"––––––"[: len(COLUMNS) - 2], "skipped")
    takeover = "–" if report.takeover is None else f"{report.takeover:.1f} s"
    counts = (report.acknowledged, len(report.lost), len(report.doubled))
    return (report.name, *map(str, counts), takeover, str(len(report.leftovers)), f"{report.seconds:.0f} s")


def _tell(report: Report) -> None:
    """One line when a scenario is over, and what is wrong with it."""
    print("ok  " if report.good else "FAIL", " · ".join(_cells(report)), file=sys.stderr, flush=True)
    for line in (
        *filter(None, (report.missed, report.skipped)),
        *report.lost,
        *report.doubled,
        *report.leftovers,
        *report.notes,
    ):
        print(f"       {line}", file=sys.stderr, flush=True)


def _chosen(names: list[str]) -> list[Scenario]:
    return [one for one in SCENARIOS if not names or any(fnmatch.fnmatchcase(one.name, name) for name in names)]


if __name__ == "__main__":
    sys.exit(main())
