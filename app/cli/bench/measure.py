"""Runs a benchmark for a command: reads its options, shows progress, prints the results, and exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn, cast

import typer

from app.cli.command import end

if TYPE_CHECKING:
    from agent.bench.lab import Benchmark
    from agent.bench.score import Entry
    from agent.contract.task import Policy
    from agent.solving.solve import Options
    from agent.solving.tasks import SolveBenchmark

Switch = Literal["on", "off"]
Ids = Annotated[str | None, typer.Option("--task-ids", metavar="A,B", help="Only these tasks.")]
Jobs = Annotated[int, typer.Option("--jobs", min=1, max=64, help="Number of tasks to run at once.")]
Seconds = Annotated[float, typer.Option("--budget", min=1, metavar="SECONDS", help="Time limit of one task.")]
Resume = Annotated[
    Path | None,
    typer.Option("--resume", metavar="FILE", help="Save results to this file; a rerun skips finished tasks."),
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
    debugger: bool
    memory: bool
    strategies: int | None
    limit: int | None
    runs: int
    min_rate: float | None

    @property
    def options(self) -> Options:
        from agent.contract.memory import ProcessMemory
        from agent.solving.solve import Options
        from agent.solving.writer import Writing

        return Options(
            writing=Writing(self.candidates, temperature=self.temperature),
            blind_tests=self.blind_tests,
            adversarial=self.adversarial,
            critic=self.critic,
            debugger=self.debugger,
            strategies=self.strategies,
            memory=ProcessMemory() if self.memory else None,
            retry=False,
        )

    @property
    def conditions(self) -> dict[str, str]:
        """As they are stored with the results."""
        from agent.prompts import digest

        switches = {
            "spec_tests": self.blind_tests,
            "adversarial": self.adversarial,
            "critic": self.critic,
            "debugger": self.debugger,
            "memory": self.memory,
        }
        return {
            "iters": str(self.iterations),
            "candidates": str(self.candidates),
            **({"temperature": f"{self.temperature:g}"} if self.candidates > 1 else {}),
            **({"strategies": str(self.strategies)} if self.strategies is not None else {}),
            **{name: "on" if value else "off" for name, value in switches.items()},
            "prompts": digest(),
        }

    def chosen(self, benchmark: SolveBenchmark, ids: Sequence[str]) -> tuple[SolveBenchmark, list[str]]:
        """The benchmark with an id for each run of a task, and the ids to run."""
        from agent.solving.tasks import repeated

        numbers = range(1, self.runs + 1)
        groups = {repeated(id_, run): group for run in numbers for id_, group in benchmark.groups.items()}
        return replace(benchmark, groups=groups), [repeated(id_, run) for run in numbers for id_ in ids[: self.limit]]


def measure(
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
    mlflow: bool = False,
) -> NoReturn:
    """Run a benchmark until it ends or Ctrl-C is pressed, print the results and exit."""
    from agent.bench import metrics
    from agent.bench.lab import BadInput
    from app.cli.bench import tracking
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
        ids = _chosen(benchmark, task_ids)
        if solving is not None:
            benchmark, ids = solving.chosen(cast("SolveBenchmark", benchmark), ids)
        wanted = benchmark.wanted if task_ids is None else None
        more = solving.conditions if solving is not None else _unusual(policy)
        conditions = {**benchmark.options, "budget": f"{budget:g}", "model": model, **more}
        header = Header(benchmark.name, conditions)
        if mlflow:
            tracking.check()
        state = open_results(resume, header)
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
    figures = dict(benchmark.figures(entries)) if benchmark.figures is not None else {}
    if solving is not None:
        figures["quality"] = metrics.means(metrics.measured(entries, known := metrics.installed()), known)
    if mlflow and entries:
        try:
            where = tracking.track(header, entries, figures)
        except tracking.NotTracked as error:
            end(str(error), 1)
        screen.print(terminal.plain(f"Logged to MLflow: {where}"), soft_wrap=not screen.is_terminal)
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
