"""`selfheal bench fit`: fits the confidence on saved results, and tests it on repositories that were left out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from rich.console import Console

from agent.bench.lab import BadInput
from agent.gate import fitting
from agent.gate.fitting import Fit
from app.cli.bench.report import bands, interval, table
from app.cli.bench.results_file import header, stored
from app.cli.terminal import plain


def fit(files: Sequence[Path], out: Path | None) -> Mapping[str, Fit]:
    """A file is a repository, named by the file's stem. Raises `BadInput`."""
    names = [file.stem for file in files]
    if doubled := next((name for name in names if names.count(name) > 1), None):
        raise BadInput(f"two files are called {doubled!r}; a file is one repository, so rename one of them")
    known = [one for file in files for one in fitting.observations(file.stem, stored(file), _is_by_program(file))]
    if not known:
        raise BadInput("no file has a verified change that was judged; run benchmarks with `--resume FILE --min-confidence 1`")
    fits = fitting.fit(known, datetime.now(UTC).date().isoformat())
    if out is not None:
        coefficients = {kind: each.coefficients for kind, each in fits.items()}
        try:
            out.write_bytes(msgspec.json.format(msgspec.json.encode(coefficients), indent=2) + b"\n")
        except OSError as error:
            raise BadInput(f"{out} cannot be written: {error.strerror}; pass another file to --out") from error
    return fits


def _is_by_program(file: Path) -> bool:
    """Whether the bugs were made by a program. Raises `BadInput`."""
    head = header(file)
    return head.benchmark == "breaks" and "patches" not in head.options


def as_json(fits: Mapping[str, Fit]) -> str:
    return msgspec.json.format(msgspec.json.encode(fits), indent=2).decode()


def show(console: Console, fits: Mapping[str, Fit]) -> None:
    for kind, found in fits.items():
        known = found.coefficients
        console.print(plain(f"{kind}: {known.data}{'' if known.very_sure else '; never very sure'}", "bold"))
        if not found.reliability:
            console.print(
                plain(f"  {found.observations} judged changes from {len(found.repositories)} repositories: too few to fit it.")
            )
            continue
        weights = ", ".join(f"{name} {weight:+.2f}" for name, weight in known.weights.items())
        console.print(plain(f"  start {known.start:+.2f}, {weights}"))
        console.print(plain("  On repositories that were not used for fitting:"))
        console.print(bands(found.reliability))
        console.print(_thresholds(found))


def _thresholds(found: Fit) -> object:
    columns = table("published from", "repairs", "right", "95 %", "of all right ones", "95 %")
    for at in found.thresholds:
        precision, kept = at.precision, at.published
        columns.add_row(
            f"{at.threshold:.0%}",
            str(precision.of),
            f"{precision.count} ({precision.count / max(1, precision.of):.0%})",
            interval(precision),
            f"{kept.count} of {kept.of} ({kept.count / max(1, kept.of):.0%})",
            interval(kept),
        )
    return columns
