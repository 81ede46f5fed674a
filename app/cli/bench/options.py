"""The options that benchmarks share: of those that repair code, and of those that write it."""

# Not `from __future__ import annotations`: the decorator needs the types of the options, not their source.
import functools
import inspect
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, Union

import typer

from agent.solving.options import Decode
from app.cli.bench.measure import Measuring, Repairing, Solving, measure
from app.cli.command import Json, wrong_use
from app.cli.solve.wish import DEFAULTS, Autonomy, Switch, option

if TYPE_CHECKING:
    from agent.bench.lab import Benchmark
    from agent.solving.tasks import SolveBenchmark

Loaded = Union["Benchmark", "SolveBenchmark"]
Load = TypeVar("Load", bound=Callable[..., Loaded])

Ids = Annotated[str | None, typer.Option("--task-ids", "--ids", metavar="A,B", help="Only these tasks.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N tasks.")]
Runs = Annotated[int, typer.Option("--runs", min=1, max=100, metavar="N", help="Run each task N times.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of tasks to run at once.")]
Seconds = Annotated[float, typer.Option("--budget", min=1, metavar="SECONDS", help="Time limit of one task.")]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FILE", help="Save results to this file; a rerun skips finished tasks."),
]
MinRate = Annotated[
    float | None,
    typer.Option(
        "--min-rate", min=0, max=1, help="Exit with 1 if a smaller share of the tried tasks is right by held-out tests."
    ),
]
Mlflow = Annotated[bool, typer.Option("--mlflow", help="Log the results to MLflow at the end; needs the extra `mlflow`.")]


def measure_repairs(
    *,
    task_ids: Ids = None,
    limit: Limit = None,
    runs: Runs = 1,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    model: Annotated[
        str, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `none` to use no model.")
    ] = "none",
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence",
            min=0,
            max=1,
            help="Confidence that a repair needs (default: 0.85; 0.65 for a clear change of the search without a model). "
            "With 1, all verified changes are collected and judged, for `fit`.",
        ),
    ] = None,
    without: Annotated[
        str | None, typer.Option("--without", metavar="RUNG[,RUNG]", help="Sources of patches that are not used.")
    ] = None,
    allow_reversals: Annotated[
        bool, typer.Option("--allow-reversals", help="Repairs may take back what the last commit did.")
    ] = False,
    min_rate: MinRate = None,
    mlflow: Mlflow = False,
    json: Json = False,
    load: "Callable[[], Benchmark]",
) -> None:
    """Benchmarks in which code is repaired."""
    which = Measuring(model, task_ids, limit, runs, jobs, budget, resume, min_rate, mlflow, json)
    measure(load, which, Repairing(min_confidence, without, allow_reversals))


def measure_written(
    *,
    model: Annotated[str, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `scripted:FILE`.")],
    task_ids: Ids = None,
    limit: Limit = None,
    runs: Runs = 1,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    iters: Annotated[int, typer.Option("--iters", min=1, help="Most rounds of a task, the first answer included.")] = 4,
    candidates: Annotated[int, option("candidates")] = DEFAULTS.candidates,
    decode: Annotated[Decode, option("decode")] = DEFAULTS.decode,
    temperature: Annotated[float, option("temperature")] = DEFAULTS.temperature,
    spec_tests: Annotated[Switch, option("spec_tests")] = "on",
    adversarial: Annotated[Switch, option("adversarial")] = "on",
    critic: Annotated[Switch, option("critic")] = "on",
    debugger: Annotated[Switch, option("debugger")] = "on",
    memory: Annotated[Switch, typer.Option("--memory", help="Lessons of earlier tasks of this run.")] = "off",
    strategies: Annotated[int | None, option("strategies")] = DEFAULTS.strategies,
    design: Annotated[
        Switch, typer.Option("--design", help="Draft signature and examples, instead of using the task's own stub.")
    ] = "off",
    retry: Annotated[Switch, option("retry")] = "off",
    autonomy: Annotated[Autonomy, typer.Option("--autonomy", help="Only `full`: a benchmark has nobody to ask.")] = "full",
    min_rate: MinRate = None,
    mlflow: Mlflow = False,
    json: Json = False,
    load: "Callable[[], SolveBenchmark]",
) -> None:
    """Benchmarks in which code is written."""
    if autonomy != "full":
        wrong_use(
            f"a benchmark has nobody to ask, so it runs with --autonomy full; `selfheal solve --autonomy {autonomy}` asks"
        )
    which = Measuring(model, task_ids, limit, runs, jobs, budget, resume, min_rate, mlflow, json)
    how = Solving(
        iterations=iters,
        candidates=candidates,
        decode=decode,
        temperature=temperature,
        spec_tests=spec_tests == "on",
        adversarial=adversarial == "on",
        critic=critic == "on",
        debugger=debugger == "on",
        memory=memory == "on",
        strategies=strategies,
        design=design == "on",
        retry=retry == "on",
    )
    measure(load, which, how)


def benchmark(
    group: typer.Typer, shared: Callable[..., None], *, omit: Collection[str] = (), **defaults: Any
) -> Callable[[Load], Load]:
    """Make a command of a function that loads a benchmark. Its own options come first, then the shared ones.

    `defaults` replace those of the shared options; options in `omit` make no sense for this benchmark.
    """

    def decorate(load: Load) -> Load:
        own = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in inspect.signature(load).parameters.values()]
        common = [
            each.replace(default=defaults.get(name, each.default))
            for name, each in inspect.signature(shared).parameters.items()
            if name != "load" and name not in omit
        ]

        @functools.wraps(load)
        def command(**given: Any) -> None:
            mine = {each.name: given.pop(each.name) for each in own}
            shared(**given, load=lambda: load(**mine))

        command.__signature__ = inspect.Signature([*own, *common])  # type: ignore[attr-defined]
        command.__annotations__ = {option.name: option.annotation for option in [*own, *common]}
        group.command()(command)
        return load

    return decorate
