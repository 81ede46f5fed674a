"""The options that all benchmarks of specifications share: how code is written, and what is measured."""

# Not `from __future__ import annotations`: the decorator needs the types of the options, not their source.
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from app.cli.bench.measure import Ids, Jobs, Resume, Seconds, Solving, Switch, measure
from app.cli.command import Json

if TYPE_CHECKING:
    from agent.solving.tasks import SolveBenchmark

SolveOracle = Annotated[
    Literal["given", "own", "both"],
    typer.Option("--oracle", help="Tests that the agent sees: the benchmark's, its own from the specification, or both."),
]
Mlflow = Annotated[bool, typer.Option("--mlflow", help="Log the results to MLflow at the end; needs the extra `mlflow`.")]


def _measured(
    *,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `scripted:FILE`.")],
    oracle: SolveOracle = "own",
    task_ids: Ids = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N tasks.")] = None,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, metavar="N", help="Solve each task N times.")] = 1,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    iters: Annotated[int, typer.Option("--iters", min=1, help="Most rounds of a task, the first answer included.")] = 4,
    candidates: Annotated[int, typer.Option("--candidates", min=1, max=16, help="First answers to choose from.")] = 1,
    temperature: Annotated[float, typer.Option("--temperature", min=0, max=2, help="Of further first answers.")] = 0.7,
    spec_tests: Annotated[Switch, typer.Option("--spec-tests", help="Tests from the specification, before any code.")] = "on",
    adversarial: Annotated[Switch, typer.Option("--adversarial", help="Tests that try to break the accepted code.")] = "on",
    critic: Annotated[Switch, typer.Option("--critic", help="A review of the accepted code.")] = "on",
    debugger: Annotated[Switch, typer.Option("--debugger", help="A diagnosis with tools, after two failed rounds.")] = "on",
    memory: Annotated[Switch, typer.Option("--memory", help="Lessons of earlier tasks of this run.")] = "off",
    strategies: Annotated[
        int | None, typer.Option("--strategies", min=1, max=3, metavar="N", help="Ways to ask for a repair in one round.")
    ] = None,
    min_rate: Annotated[
        float | None,
        typer.Option("--min-rate", min=0, max=1, help="Exit with 1 if a smaller share of the tasks is solved and validated."),
    ] = None,
    mlflow: Mlflow = False,
    json: Json = False,
    load: "Callable[[], SolveBenchmark]",
) -> None:
    how = Solving(
        iterations=iters,
        candidates=candidates,
        temperature=temperature,
        blind_tests=spec_tests == "on",
        adversarial=adversarial == "on",
        critic=critic == "on",
        debugger=debugger == "on",
        memory=memory == "on",
        strategies=strategies,
        limit=limit,
        runs=runs,
        min_rate=min_rate,
    )
    measure(load, task_ids, jobs, budget, resume, model, 0.0, json, solving=how, mlflow=mlflow)


Load = Callable[..., "SolveBenchmark"]


def written(group: typer.Typer) -> Callable[[Load], Load]:
    """Make a command of a function that loads a benchmark. Its own options come first, then the common ones.

    The function takes the keyword `oracle`; a default there replaces the common one.
    """

    def decorate(load: Load) -> Load:
        own = {
            name: each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for name, each in inspect.signature(load).parameters.items()
        }
        shared = {name: each for name, each in inspect.signature(_measured).parameters.items() if name != "load"}
        oracle = own.pop("oracle")
        if oracle.default is not inspect.Parameter.empty:
            shared["oracle"] = oracle

        @functools.wraps(load)
        def command(**given: Any) -> None:
            mine = {name: given.pop(name) for name in own}
            _measured(**given, load=lambda: load(oracle=given["oracle"], **mine))

        options = [*own.values(), *shared.values()]
        command.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
        command.__annotations__ = {option.name: option.annotation for option in options}
        group.command()(command)
        return load

    return decorate


Data = Annotated[Path, typer.Option("--data", metavar="FILE", help="The benchmark's JSON Lines file, or hf:DATASET.")]
Subset = Annotated[
    Literal["doctests", "everyday"] | None, typer.Option("--subset", help="Nine tasks with examples, or eight in words.")
]
BenchmarkName = Annotated[str, typer.Argument(metavar="NAME", help="Name of the benchmark's entry point.")]
AnyData = Annotated[Path | None, typer.Option("--data", metavar="PATH", help="What the benchmark reads.")]


def add_benchmarks(group: typer.Typer) -> None:
    """The benchmarks in which code is written from specifications."""

    @written(group)
    def humaneval(oracle: SolveOracle, data: Data) -> "SolveBenchmark":
        """164 functions to write from their docstrings: first answers beside healed ones, judged by HumanEval's tests."""
        from agent.solving import humaneval

        return humaneval.load(data, oracle)

    @written(group)
    def mbpp(data: Data, oracle: SolveOracle = "both") -> "SolveBenchmark":
        """Short functions to write from a sentence: the agent may see the first test, all of them judge it."""
        from agent.solving import mbpp

        return mbpp.load(data, oracle)

    @written(group)
    def suite(oracle: SolveOracle, subset: Subset = None) -> "SolveBenchmark":
        """24 everyday tasks with edge cases, in eight categories, judged by tests that the agent never sees."""
        from agent.solving import suite

        return suite.load(oracle, subset)

    @written(group)
    def run(name: BenchmarkName, oracle: SolveOracle, data: AnyData = None) -> "SolveBenchmark":
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
