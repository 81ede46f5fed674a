"""`make bench`: what Selfheal costs, measured on this machine. Prints a table; `--json` for programs; names choose figures.

Figures say how long things take here and now, beside the machine's load; they are compared within one run.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from tests.bench import fixing, service, webhooks, workspaces
from tests.bench.table import Figure, Say, table

MEASURES: dict[str, tuple[float, Callable[[Path, Say], Awaitable[list[Figure]]]]] = {
    "webhooks": (120, webhooks.measure),
    "service": (180, service.measure),
    "fix": (120, fixing.measure),
    "workspace": (90, workspaces.measure),
}
"""Names that may be given, each with the seconds that it may take."""


async def measure(names: list[str]) -> tuple[list[Figure], bool]:
    """All figures of those names, and whether each could be measured."""
    began = time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - began:6.1f} s  {text}", file=sys.stderr, flush=True)

    figures: list[Figure] = []
    sound = True
    for name in names:
        seconds, of_name = MEASURES[name]
        folder = Path(tempfile.mkdtemp(prefix="selfheal-bench-"))
        say(f"{name}:")
        try:
            async with asyncio.timeout(seconds):
                figures += await of_name(folder, say)
        except Exception as error:  # noqa: BLE001 - one figure that cannot be had does not hide the others
            sound = False
            figures.append(Figure(name, "not measured", met=False, note=f"{type(error).__name__}: {error}"))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return figures, sound


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="figure", help=f"of {', '.join(MEASURES)} (default: all)")
    parser.add_argument("--json", action="store_true", help="JSON instead of the table")
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(MEASURES))
    if unknown:
        parser.error(f"there is no figure {', '.join(unknown)}; there are {', '.join(MEASURES)}")
    before = os.getloadavg()[0]
    figures, sound = asyncio.run(measure(options.names or list(MEASURES)))
    machine = {"cores": os.cpu_count(), "load_before": round(before, 1), "load_after": round(os.getloadavg()[0], 1)}
    if options.json:
        print(json.dumps({"machine": machine, "figures": [dataclasses.asdict(figure) for figure in figures]}, indent=2))
    else:
        print(table(figures))
        print(f"\n{machine['cores']} cores, load {machine['load_before']} before and {machine['load_after']} after")
    return 0 if sound else 1


if __name__ == "__main__":
    sys.exit(main())
