"""The benchmarks in which code is written from specifications."""

# Not `from __future__ import annotations`: the decorator needs the types of the options, not their source.
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer

from app.cli.bench.options import benchmark, measure_written

if TYPE_CHECKING:
    from agent.solving.tasks import SolveBenchmark

SolveOracle = Annotated[
    Literal["given", "own", "both"],
    typer.Option("--oracle", help="Tests that the agent sees: the benchmark's, its own from the specification, or both."),
]
Data = Annotated[Path, typer.Option("--data", metavar="FILE", help="The benchmark's JSON Lines file, or hf:DATASET.")]
Subset = Annotated[
    Literal["doctests", "everyday"] | None, typer.Option("--subset", help="Nine tasks with examples, or eight in words.")
]
BenchmarkName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the benchmark's entry point.")]
AnyData = Annotated[Path | None, typer.Option("--data", metavar="PATH", help="What the benchmark reads.")]


def add_benchmarks(group: typer.Typer) -> None:
    """Their commands."""

    @benchmark(group, measure_written)
    def humaneval(data: Data, oracle: SolveOracle = "own") -> "SolveBenchmark":
        """164 functions to write from their docstrings: first answers beside healed ones, judged by HumanEval's tests."""
        from agent.solving import humaneval

        return humaneval.load(data, oracle)

    @benchmark(group, measure_written)
    def mbpp(data: Data, oracle: SolveOracle = "both") -> "SolveBenchmark":
        """Short functions to write from a sentence: the agent may see the first test, all of them judge it."""
        from agent.solving import mbpp

        return mbpp.load(data, oracle)

    @benchmark(group, measure_written)
    def suite(subset: Subset = None, oracle: SolveOracle = "own") -> "SolveBenchmark":
        """24 everyday tasks with edge cases, in eight categories, judged by tests that the agent never sees."""
        from agent.solving import suite

        return suite.load(oracle, subset)

    @benchmark(group, measure_written)
    def run(name: BenchmarkName, data: AnyData = None, oracle: SolveOracle = "own") -> "SolveBenchmark":
        """A benchmark that an installed package adds (docs/extending.md)."""
        from agent.bench.lab import BadInput
        from agent.contract import extension

        try:
            known = extension.installed(extension.BENCHMARKS)
        except extension.BrokenExtension as error:
            raise BadInput(str(error)) from error
        if name not in known:
            raise BadInput(f"no installed package adds the benchmark {name!r}; there {_are(list(known))}")
        point, load = known[name]
        try:
            found = load(data, oracle)
        except BadInput:
            raise
        except Exception as error:  # an extension can raise anything
            raise BadInput(str(extension.broken(point, f"{type(error).__name__}: {error}"))) from error
        return cast("SolveBenchmark", found)


def _are(names: list[str]) -> str:
    return f"are {', '.join(names)}" if names else "are none"
