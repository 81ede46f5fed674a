"""The commands of `selfheal bench`. Their implementations are imported when a benchmark runs, not for `--help`.

Exit codes: 0 all tasks measured (healed or not), 1 some not measured or no sandbox available, 2 usage error, 130 stopped.
"""

# Not `from __future__ import annotations`: the decorator needs the types of the options, not their source.
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from app.cli.bench.options import Mlflow, benchmark, measure_repairs
from app.cli.bench.written import add_benchmarks
from app.cli.command import Json, end

if TYPE_CHECKING:
    from agent.bench.lab import Benchmark

bench = typer.Typer(
    help="Measure on a benchmark: fix rate, correctness by held-out tests, time and cost.", no_args_is_help=True
)

Oracle = Annotated[
    Literal["all", "half"], typer.Option("--oracle", help="Tests that the repair may see: all, or half (the others judge it).")
]


Checkout = Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A git checkout of your repository.")]
NO_HISTORY = ("allow_reversals",)  # left out where there is no commit to take back
OF_COMMITS = ("limit", "runs")  # left out where --last or --count says how many tasks there are


@benchmark(bench, measure_repairs, omit=NO_HISTORY, budget=60.0)
def humanevalfix(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="JSON Lines file with HumanEvalFix's Python tasks.")],
    oracle: Oracle = "all",
) -> "Benchmark":
    """Single functions with one bug each, scored by held-out tests or by comparison with the reference."""
    from agent.bench import humanevalfix

    return humanevalfix.load(data, oracle)


@benchmark(bench, measure_repairs, omit=NO_HISTORY, budget=60.0)
def quixbugs(
    path: Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A checkout of QuixBugs.")],
    oracle: Oracle = "all",
) -> "Benchmark":
    """Small algorithms, each with a bug on one line."""
    from agent.bench import quixbugs

    return quixbugs.load(path, oracle)


@benchmark(bench, measure_repairs, omit=NO_HISTORY)
def packages(
    manifest: Annotated[Path, typer.Option("--manifest", metavar="FILE", help="JSON list of bugs fixed between releases.")],
) -> "Benchmark":
    """Real bugs of published packages, scored by the full test suite and compared with the authors' fix."""
    from platformdirs import user_cache_path

    from agent.bench import packages

    return packages.load(manifest, user_cache_path("selfheal") / "releases")


@benchmark(bench, measure_repairs, omit=OF_COMMITS)
def repo(
    path: Checkout,
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="How many of the latest commits to try.")] = 20,
) -> "Benchmark":
    """Bugs from your repository's history: Selfheal tries to repair the commit before each fix."""
    import asyncio

    from agent.bench import history

    return asyncio.run(history.load(path.resolve(), last))


@benchmark(bench, measure_repairs, omit=OF_COMMITS)
def breaks(
    path: Checkout,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, metavar="N", help="How many breaks to try.")] = 10,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Chooses commits and breaks; the same seed, the same ones.")
    ] = 0,
    patches: Annotated[
        Path | None,
        typer.Option("--patches", metavar="FILE", help="Bugs that people made up, as patches, instead of breaks made here."),
    ] = None,
) -> "Benchmark":
    """Realistic breaks of your own code: what would Selfheal do for your repository?"""
    import asyncio

    from agent.bench.breaks import patches as made_up
    from agent.bench.breaks import tasks

    if patches is not None:
        return made_up.load(path.resolve(), patches)
    return asyncio.run(tasks.load(path.resolve(), count, seed))


@benchmark(bench, measure_repairs, omit=OF_COMMITS)
def stale(
    path: Checkout,
    count: Annotated[int, typer.Option("--count", min=1, max=1000, metavar="N", help="How many commits to measure.")] = 10,
) -> "Benchmark":
    """Intended changes of your history with the tests from before: does Selfheal undo the authors' work?"""
    import asyncio

    from agent.bench import stale

    return asyncio.run(stale.load(path.resolve(), count))


add_benchmarks(bench)


@bench.command()
def report(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS…", help="Files that `--resume` wrote, of one benchmark.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Write report, pictures, code and logs to this folder.")
    ] = None,
    mlflow: Mlflow = False,
) -> None:
    """Make a folder of saved results that can be published, or log them to MLflow."""
    from agent.bench.lab import BadInput
    from agent.contract.extension import BrokenExtension
    from app.cli.bench import published, tracking

    if out is None and not mlflow:
        end("say where the report goes with --out FOLDER, or log the results with --mlflow", 2)
    try:
        if mlflow:
            tracking.check()
        _say_what_is_left_out(results)
        if out is not None:
            for sentence in published.publish(results, out):
                typer.echo(sentence, err=True)
            typer.echo(f"Wrote {out / 'report.md'}")
        for file in results if mlflow else ():
            typer.echo(f"Logged to MLflow: {tracking.track_file(file)}")
    except (BadInput, BrokenExtension) as error:
        end(str(error), 2)
    except tracking.NotTracked as error:
        end(str(error), 1)


@bench.command()
def fit(
    results: Annotated[list[Path], typer.Argument(metavar="RESULTS…", help="Files that `--resume` wrote, one per repository.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the coefficients to this file (agent/gate/confidence.json)."),
    ] = None,
    json: Json = False,
) -> None:
    """Fit the confidence in repairs on saved results, and test it on repositories that it was not fitted on."""
    from agent.bench.lab import BadInput
    from app.cli.bench import fitted

    try:
        fits = fitted.fit(results, out)
        _say_what_is_left_out(results)
    except BadInput as error:
        end(str(error), 2)
    if json:
        typer.echo(fitted.as_json(fits))
    else:
        from app.cli import terminal

        fitted.show(terminal.console(), fits)


@bench.command()
def compare(
    first: Annotated[Path, typer.Argument(metavar="RESULTS", help="File that `--resume` wrote.")],
    second: Annotated[Path, typer.Argument(metavar="RESULTS", help="Another one, of the same benchmark.")],
    json: Json = False,
) -> None:
    """Compare two runs task by task: what did another model, prompt or switch change, and may it be chance?"""
    from agent.bench.lab import BadInput
    from app.cli.bench import compared

    try:
        _say_what_is_left_out((first, second))
        one, two, found = compared.read(first, second)
    except BadInput as error:
        end(str(error), 2)
    if json:
        typer.echo(compared.as_json(one, two, found))
    else:
        from app.cli import terminal

        compared.show(terminal.console(), one, two, found)


def _say_what_is_left_out(results: Sequence[Path]) -> None:
    """Raises `BadInput`."""
    from app.cli.bench.results_file import left_out

    for sentence in filter(None, map(left_out, results)):
        typer.echo(sentence, err=True)
