"""The commands of `selfheal bench`. Their implementations are imported when a benchmark runs, not for `--help`.

Exit codes: 0 all tasks measured (healed or not), 1 some not measured or no sandbox available, 2 usage error, 130 stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

from app.cli.command import Json, end

if TYPE_CHECKING:
    from agent.bench.lab import Benchmark
    from agent.bench.score import Entry
    from agent.contract.task import Policy
    from agent.solving.solve import Options
    from agent.solving.tasks import SolveBenchmark

bench = typer.Typer(
    help="Measure on a benchmark: fix rate, correctness by held-out tests, time and cost.", no_args_is_help=True
)

DEFAULT_LEAST = 0.8  # as `agent.contract.task.Policy`

Ids = Annotated[str | None, typer.Option("--task-ids", metavar="A,B", help="Only these tasks.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of tasks to run at once.")]
Seconds = Annotated[float, typer.Option("--budget", min=1, metavar="SECONDS", help="Time limit of one task.")]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FILE", help="Save results to this file; a rerun skips finished tasks."),
]
Least = Annotated[
    float,
    typer.Option(
        "--min-confidence",
        min=0,
        max=1,
        help="Confidence that a repair needs. With 1, all verified changes are collected and judged, for `fit`.",
    ),
]
Model = Annotated[str, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `none` to use no model.")]
Oracle = Annotated[
    Literal["all", "half"], typer.Option("--oracle", help="Tests that the repair may see: all, or half (the others judge it).")
]


Switch = Literal["on", "off"]
SolveOracle = Annotated[
    Literal["given", "own", "both"],
    typer.Option("--oracle", help="Tests that the agent sees: the benchmark's, its own from the specification, or both."),
]
SolveModel = Annotated[str, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `scripted:FILE`.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only the first N tasks.")]
Iterations = Annotated[int, typer.Option("--iters", min=1, help="Most rounds of a task, the first answer included.")]
Candidates = Annotated[int, typer.Option("--candidates", min=1, max=16, help="First answers to choose from.")]
Temperature = Annotated[float, typer.Option("--temperature", min=0, max=2, help="Temperature of further first answers.")]
Blind = Annotated[Switch, typer.Option("--spec-tests", help="Tests from the specification, before any code.")]
Attack = Annotated[Switch, typer.Option("--adversarial", help="Tests that try to break the accepted code.")]
Critic = Annotated[Switch, typer.Option("--critic", help="A review of the accepted code.")]
MinRate = Annotated[
    float | None,
    typer.Option("--min-rate", min=0, max=1, help="Exit with 1 if a smaller share of the tasks is solved and validated."),
]


@dataclass(frozen=True, slots=True)
class Solving:
    """How the tasks of a benchmark of specifications are solved, and which."""

    iterations: int
    candidates: int
    temperature: float
    blind_tests: bool
    adversarial: bool
    critic: bool
    limit: int | None
    min_rate: float | None

    @property
    def options(self) -> Options:
        from agent.solving.solve import Options
        from agent.solving.writer import Writing

        writing = Writing(self.candidates, temperature=self.temperature)
        return Options(
            writing=writing, blind_tests=self.blind_tests, adversarial=self.adversarial, critic=self.critic, retry=False
        )

    @property
    def conditions(self) -> dict[str, str]:
        """As they are stored with the results."""
        switches = {"spec_tests": self.blind_tests, "adversarial": self.adversarial, "critic": self.critic}
        return {
            "iters": str(self.iterations),
            "candidates": str(self.candidates),
            **({"temperature": f"{self.temperature:g}"} if self.candidates > 1 else {}),
            **{name: "on" if value else "off" for name, value in switches.items()},
        }


@bench.command()
def humanevalfix(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="JSON Lines file with HumanEvalFix's Python tasks.")],
    oracle: Oracle = "all",
    task_ids: Ids = None,
    jobs: Jobs = 1,
    budget: Seconds = 60.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Single functions with one bug each, scored by held-out tests or by comparison with the reference."""

    def load() -> Benchmark:
        from agent.bench import humanevalfix

        return humanevalfix.load(data, oracle)

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json)


@bench.command()
def quixbugs(
    path: Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A checkout of QuixBugs.")],
    oracle: Oracle = "all",
    task_ids: Ids = None,
    jobs: Jobs = 1,
    budget: Seconds = 60.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Small algorithms, each with a bug on one line."""

    def load() -> Benchmark:
        from agent.bench import quixbugs

        return quixbugs.load(path, oracle)

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json)


@bench.command()
def packages(
    manifest: Annotated[Path, typer.Option("--manifest", metavar="FILE", help="JSON list of bugs fixed between releases.")],
    task_ids: Annotated[str | None, typer.Option("--task-ids", "--ids", metavar="A,B", help="Only these bugs.")] = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Real bugs of published packages, scored by the full test suite and compared with the authors' fix."""

    def load() -> Benchmark:
        from platformdirs import user_cache_path

        from agent.bench import packages

        return packages.load(manifest, user_cache_path("selfheal") / "releases")

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json)


@bench.command()
def repo(
    path: Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A git checkout of your repository.")],
    last: Annotated[int, typer.Option("--last", min=1, metavar="N", help="How many of the latest commits to try.")] = 20,
    task_ids: Ids = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Bugs from your repository's history: Selfheal tries to repair the commit before each fix."""

    def load() -> Benchmark:
        import asyncio

        from agent.bench import history

        return asyncio.run(history.load(path.resolve(), last))

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json)


@bench.command()
def breaks(
    path: Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A git checkout of your repository.")],
    count: Annotated[int, typer.Option("--count", min=1, max=1000, metavar="N", help="How many breaks to try.")] = 10,
    seed: Annotated[
        int, typer.Option("--seed", metavar="S", help="Chooses commits and breaks; the same seed, the same ones.")
    ] = 0,
    without: Annotated[
        str | None, typer.Option("--without", metavar="RUNG[,RUNG]", help="Sources of patches that are not used.")
    ] = None,
    allow_reversals: Annotated[
        bool,
        typer.Option("--allow-reversals", help="Repairs may take back what the commit did: here, the breaks are mistakes."),
    ] = False,
    task_ids: Ids = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Realistic breaks of your own code: what would Selfheal do for your repository?"""

    def load() -> Benchmark:
        import asyncio

        from agent.bench.breaks import tasks

        return asyncio.run(tasks.load(path.resolve(), count, seed))

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json, without, allow_reversals)


@bench.command()
def stale(
    path: Annotated[Path, typer.Option("--path", metavar="CHECKOUT", help="A git checkout of your repository.")],
    count: Annotated[int, typer.Option("--count", min=1, max=1000, metavar="N", help="How many commits to measure.")] = 10,
    task_ids: Ids = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    model: Model = "none",
    min_confidence: Least = DEFAULT_LEAST,
    json: Json = False,
) -> None:
    """Intended changes of your history with the tests from before: does Selfheal undo the authors' work?"""

    def load() -> Benchmark:
        import asyncio

        from agent.bench import stale

        return asyncio.run(stale.load(path.resolve(), count))

    _measure(load, task_ids, jobs, budget, resume, model, min_confidence, json)


@bench.command()
def humaneval(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="HumanEval's JSON Lines file; it can be gzipped.")],
    model: SolveModel,
    oracle: SolveOracle = "own",
    task_ids: Ids = None,
    limit: Limit = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    iters: Iterations = 4,
    candidates: Candidates = 1,
    temperature: Temperature = 0.7,
    spec_tests: Blind = "on",
    adversarial: Attack = "on",
    critic: Critic = "on",
    min_rate: MinRate = None,
    json: Json = False,
) -> None:
    """164 functions to write from their docstrings: first answers beside healed ones, judged by HumanEval's tests."""

    def load() -> SolveBenchmark:
        from agent.solving import humaneval

        return humaneval.load(data, oracle)

    how = Solving(iters, candidates, temperature, spec_tests == "on", adversarial == "on", critic == "on", limit, min_rate)
    _measure(load, task_ids, jobs, budget, resume, model, 0.0, json, solving=how)


@bench.command()
def mbpp(
    data: Annotated[Path, typer.Option("--data", metavar="FILE", help="MBPP's JSON Lines file; it can be gzipped.")],
    model: SolveModel,
    oracle: SolveOracle = "both",
    task_ids: Ids = None,
    limit: Limit = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    iters: Iterations = 4,
    candidates: Candidates = 1,
    temperature: Temperature = 0.7,
    spec_tests: Blind = "on",
    adversarial: Attack = "on",
    critic: Critic = "on",
    min_rate: MinRate = None,
    json: Json = False,
) -> None:
    """Short functions to write from a sentence: the agent sees the first test, all of them judge it."""

    def load() -> SolveBenchmark:
        from agent.solving import mbpp

        return mbpp.load(data, oracle)

    how = Solving(iters, candidates, temperature, spec_tests == "on", adversarial == "on", critic == "on", limit, min_rate)
    _measure(load, task_ids, jobs, budget, resume, model, 0.0, json, solving=how)


@bench.command()
def suite(
    model: SolveModel,
    subset: Annotated[
        Literal["doctests", "everyday"] | None, typer.Option("--subset", help="Nine tasks with examples, or eight in words.")
    ] = None,
    oracle: SolveOracle = "own",
    task_ids: Ids = None,
    limit: Limit = None,
    jobs: Jobs = 1,
    budget: Seconds = 300.0,
    resume: Resume = None,
    iters: Iterations = 4,
    candidates: Candidates = 1,
    temperature: Temperature = 0.7,
    spec_tests: Blind = "on",
    adversarial: Attack = "on",
    critic: Critic = "on",
    min_rate: MinRate = None,
    json: Json = False,
) -> None:
    """24 everyday tasks with edge cases, in eight categories, judged by tests that the agent never sees."""

    def load() -> SolveBenchmark:
        from agent.solving import suite

        return suite.load(oracle, subset)

    how = Solving(iters, candidates, temperature, spec_tests == "on", adversarial == "on", critic == "on", limit, min_rate)
    _measure(load, task_ids, jobs, budget, resume, model, 0.0, json, solving=how)


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
        one, two, found = compared.read(first, second)
    except BadInput as error:
        end(str(error), 2)
    if json:
        typer.echo(compared.as_json(one, two, found))
    else:
        from app.cli import terminal

        compared.show(terminal.console(), one, two, found)


def _measure(
    load: Callable[[], Benchmark | SolveBenchmark],
    task_ids: str | None,
    jobs: int,
    budget: float,
    resume: Path | None,
    model: str,
    min_confidence: float,
    json: bool,
    without: str | None = None,
    allow_reversals: bool = False,
    solving: Solving | None = None,
) -> NoReturn:
    """Run a benchmark until it ends or Ctrl-C is pressed, print the results and exit."""
    from agent.bench.lab import BadInput
    from app.cli.bench.results_file import Header, ResultsNotSaved, open_results
    from app.settings import SettingsError
    from app.settings import load as settings

    try:
        # Settings come from the environment only, as the current folder may not be trusted.
        configured = settings(model=model)
        policy = replace(_policy(without), min_confidence=min_confidence, allow_reversals=allow_reversals)
        if solving is not None and configured.model in (None, "none"):
            raise BadInput("a model must write the code: name one with --model, or a script with --model scripted:FILE")
        benchmark = load()
        ids = _chosen(benchmark, task_ids)[: solving.limit if solving is not None else None]
        wanted = benchmark.wanted if task_ids is None else None
        more = solving.conditions if solving is not None else _unusual(policy)
        conditions = {**benchmark.options, "budget": f"{budget:g}", "model": model, **more}
        state = open_results(resume, Header(benchmark.name, conditions))
    except (BadInput, SettingsError) as error:
        end(str(error), 2)
    # Imported late: this takes seconds, and usage errors should be reported first.
    from app import stopping
    from app.cli import terminal
    from app.cli.bench import report
    from app.cli.bench.run import Run
    from sandbox.base import SandboxUnavailable

    screen = terminal.console(stderr=True)
    bar, task = report.progress(screen, benchmark.name, wanted or len(ids))

    def done(entry: Entry) -> None:
        report.print_entry(screen, entry)
        bar.advance(task, 0 if wanted is not None and entry.skipped else 1)

    run = Run(benchmark, ids, configured, budget, jobs, state, done, policy, wanted)
    if solving is not None:
        run = replace(run, options=solving.options, iterations=solving.iterations)
    complete = False
    try:
        with bar:
            stopping.run(run.work())
        complete = True
    except KeyboardInterrupt:
        pass
    except SettingsError as error:
        end(str(error), 2)
    except SandboxUnavailable as error:
        end(f"no sandbox is available: {error.reason}", 1)
    except ResultsNotSaved as error:
        end(str(error), 1)
    entries = run.results()
    figures = benchmark.figures(entries) if benchmark.figures is not None else {}
    if json:
        typer.echo(report.as_json(benchmark.name, conditions, entries, figures, complete=complete))
    else:
        report.show(terminal.console(), entries, figures, complete=complete)
    posed = sum(entry.skipped is None for entry in entries)
    if complete and wanted is not None and posed < wanted:
        said = f"Only {posed} of {wanted} tasks could be set up; the list above says why commits were passed over."
        screen.print(terminal.plain(said, "yellow"), soft_wrap=not screen.is_terminal)
    if solving is not None and solving.min_rate is not None and complete:
        rate = figures["validated"] / max(1, posed)
        if rate < solving.min_rate:
            end(f"{rate:.1%} of the tasks are solved and validated, and --min-rate asks for {solving.min_rate:.1%}", 1)
    unmeasured = any(entry.error for entry in entries) or (wanted is not None and not posed)
    raise typer.Exit(130 if not complete else 1 if unmeasured else 0)


def _unusual(policy: Policy) -> dict[str, str]:
    """What is not as in the default policy, as it is stored with the results."""
    from agent.contract.task import Policy

    usual = Policy()
    without = ",".join(rung for rung in usual.rungs if rung not in policy.rungs)
    return {
        **({"without": without} if without else {}),
        **({"min_confidence": f"{policy.min_confidence:g}"} if policy.min_confidence != usual.min_confidence else {}),
        **({"allow_reversals": "yes"} if policy.allow_reversals else {}),
    }


def _policy(without: str | None) -> Policy:
    """The default policy without some rungs. Raises `BadInput` for an unknown one."""
    from agent.bench.lab import BadInput
    from agent.contract.task import Policy

    policy = Policy()
    names = {name.strip() for name in (without or "").split(",")} - {""}
    if unknown := sorted(names - set(policy.rungs)):
        raise BadInput(f"--without names the unknown rung {unknown[0]!r}; there are {', '.join(policy.rungs)}")
    return replace(policy, rungs=tuple(rung for rung in policy.rungs if rung not in names))


def _chosen(benchmark: Benchmark | SolveBenchmark, wanted: str | None) -> Sequence[str]:
    """The ids of the selected tasks. Raises `BadInput` for an unknown id."""
    from agent.bench.lab import BadInput

    known = list(benchmark.groups)
    if wanted is None:
        return known
    ids = [id_.strip() for id_ in wanted.split(",") if id_.strip()]
    if not ids:
        raise BadInput(f"--task-ids is empty; ids look like {', '.join(known[:3])}")
    for id_ in ids:
        if id_ not in known:
            raise BadInput(f"unknown task {id_!r}; ids look like {', '.join(known[:3])}")
    return [id_ for id_ in known if id_ in ids]
