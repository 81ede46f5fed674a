"""Runs a benchmark for a command: reads its options, shows progress, prints the results, and exits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import typer

from app.cli.command import end

if TYPE_CHECKING:
    from agent.bench.lab import Benchmark
    from agent.bench.score import Entry
    from agent.contract.task import Policy
    from agent.extensions import Extensions
    from agent.solving.options import Decode
    from agent.solving.solution import Options
    from agent.solving.tasks import SolveBenchmark


NOT_SAVED = (
    "These results will only be printed: save them with --resume FILE for a rerun, `selfheal bench report` and `… compare`."
)


@dataclass(frozen=True, slots=True)
class Measuring:
    """Which tasks are run, and what becomes of the results."""

    model: str
    task_ids: str | None
    limit: int | None
    runs: int
    jobs: int
    budget: float  # seconds of one task
    resume: Path | None
    min_rate: float | None
    mlflow: bool
    json: bool

    def chosen(self, benchmark: Benchmark | SolveBenchmark) -> tuple[Benchmark | SolveBenchmark, list[str]]:
        """The benchmark with an id for each run of a task, and the ids to run. Raises `BadInput` for an unknown id."""
        from agent.bench.score import repeated

        ids, numbers = _chosen(benchmark, self.task_ids)[: self.limit], range(1, self.runs + 1)
        groups = {repeated(id_, run): group for run in numbers for id_, group in benchmark.groups.items()}
        return replace(benchmark, groups=groups), [repeated(id_, run) for run in numbers for id_ in ids]


@dataclass(frozen=True, slots=True)
class Repairing:
    """What a repair may be."""

    min_confidence: float | None
    without: str | None
    allow_reversals: bool

    @property
    def policy(self) -> Policy:
        """Raises `BadInput` for an unknown rung."""
        from agent.bench.lab import BadInput
        from agent.contract.task import Policy

        policy = Policy(min_confidence=self.min_confidence, allow_reversals=self.allow_reversals)
        names = {name.strip() for name in (self.without or "").split(",")} - {""}
        if unknown := sorted(names - set(policy.rungs)):
            raise BadInput(f"--without names the unknown rung {unknown[0]!r}; there are {', '.join(policy.rungs)}")
        return replace(policy, rungs=tuple(rung for rung in policy.rungs if rung not in names))

    @property
    def conditions(self) -> dict[str, str]:
        """How the policy differs from the default, and the confidence that it demands, as they are stored with the results."""
        from agent.contract.task import USUAL, USUAL_CLEAR, Policy

        usual, policy = Policy(), self.policy
        without = ",".join(rung for rung in usual.rungs if rung not in policy.rungs)
        return {
            **({"without": without} if without else {}),
            "min_confidence": f"{USUAL}, clear {USUAL_CLEAR}"
            if policy.min_confidence is None
            else f"{policy.min_confidence:g}",
            **({"allow_reversals": "yes"} if policy.allow_reversals else {}),
        }


@dataclass(frozen=True, slots=True)
class Solving:
    """How the tasks of a benchmark of specifications are solved."""

    iterations: int
    candidates: int
    decode: Decode
    temperature: float
    spec_tests: bool
    adversarial: bool
    critic: bool
    debugger: bool
    memory: bool
    strategies: int | None
    design: bool
    retry: bool

    @property
    def policy(self) -> Policy:
        from agent.contract.task import Policy

        return Policy(min_confidence=0.0)

    @property
    def options(self) -> Options:
        from agent.solving.solution import Options

        return Options(
            candidates=self.candidates,
            decode=self.decode,
            temperature=self.temperature,
            spec_tests=self.spec_tests,
            adversarial=self.adversarial,
            critic=self.critic,
            debugger=self.debugger,
            strategies=self.strategies,
            memory=self.memory,
            design=self.design,
            retry=self.retry,
        )

    @property
    def conditions(self) -> dict[str, str]:
        """As they are stored with the results."""
        from agent.prompts import digest

        switches = {
            "spec_tests": self.spec_tests,
            "adversarial": self.adversarial,
            "critic": self.critic,
            "debugger": self.debugger,
            "memory": self.memory,
            "design": self.design,
            "retry": self.retry,
        }
        samples = self.candidates > 1 or self.decode == "sample"
        return {
            "iters": str(self.iterations),
            "candidates": str(self.candidates),
            **({"decode": self.decode} if self.decode != "greedy" else {}),
            **({"temperature": f"{self.temperature:g}"} if samples else {}),
            **({"strategies": str(self.strategies)} if self.strategies is not None else {}),
            **{name: "on" if value else "off" for name, value in switches.items()},
            "autonomy": "full",  # there is nobody to ask
            "prompts": digest(),
        }


def measure(load: Callable[[], Benchmark | SolveBenchmark], which: Measuring, how: Repairing | Solving) -> NoReturn:
    """Run a benchmark until it ends or Ctrl-C is pressed, print the results and exit."""
    from agent import extensions
    from agent.bench import metrics
    from agent.bench.lab import BadInput
    from agent.bench.score import repaired
    from agent.contract.extension import BrokenExtension
    from agent.contract.words import counted
    from app.cli.bench import tracking
    from app.cli.bench.results_file import Header, ResultsNotSaved, open_results
    from app.settings import SettingsError
    from app.settings import load as settings

    solving = how if isinstance(how, Solving) else None
    try:
        # Settings come from the environment only, as the current folder may not be trusted.
        configured = settings(model=which.model)
        policy = how.policy
        if solving is not None and configured.model in (None, "none"):
            raise BadInput("a model must write the code: name one with --model, or a script with --model scripted:FILE")
        benchmark, ids = which.chosen(load())
        wanted = benchmark.wanted if which.task_ids is None else None
        added, known_metrics = extensions.load(), metrics.installed()
        own = {**how.conditions, **_added(added)}
        header = Header(benchmark.name, {**benchmark.options, "budget": f"{which.budget:g}", "model": which.model, **own})
        if which.mlflow:
            tracking.check()
        state = open_results(which.resume, header)
    except (BadInput, BrokenExtension, SettingsError) as error:
        end(str(error), 2)
    # Imported late: this takes seconds, and usage errors should be reported first.
    from app import stopping
    from app.cli import terminal
    from app.cli.bench import report
    from app.cli.bench.run import Run
    from sandbox.base import SandboxUnavailable

    screen = terminal.console(stderr=True)
    if which.resume is None:
        screen.print(terminal.plain(NOT_SAVED, "yellow"), soft_wrap=not screen.is_terminal)
    bar, task = report.progress(screen, benchmark.name, wanted or len(ids))

    def done(entry: Entry) -> None:
        report.print_entry(screen, entry)
        bar.advance(task, 0 if wanted is not None and entry.skipped else 1)

    run = Run(benchmark, ids, configured, which.budget, which.jobs, state, done, policy, added, wanted)
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
        figures["quality"] = metrics.means(metrics.measured(entries, known_metrics), known_metrics)
    if which.json:
        typer.echo(report.as_json(header.benchmark, header.options, entries, figures or repaired(entries), complete=complete))
    else:
        report.show(terminal.console(), entries, figures, complete=complete, written=solving is not None)
    posed = [entry for entry in entries if entry.skipped is None]
    if complete and wanted is not None and len(posed) < wanted:
        said = (
            f"Only {len(posed)} of {counted(wanted, 'task')} could be set up; the list above says why commits were passed over."
        )
        screen.print(terminal.plain(said, "yellow"), soft_wrap=not screen.is_terminal)
    if which.mlflow and entries:
        try:
            where = tracking.track(header, entries, figures)
        except tracking.NotTracked as error:
            end(str(error), 1)
        screen.print(terminal.plain(f"Logged to MLflow: {where}"), soft_wrap=not screen.is_terminal)
    if complete:
        _check(posed, which.min_rate)
    unmeasured = any(entry.error for entry in posed) or (wanted is not None and not posed)
    raise typer.Exit(130 if not complete else 1 if unmeasured else 0)


def _check(posed: Sequence[Entry], min_rate: float | None) -> None:
    """Exits with 1 if nothing could be measured for one reason, or if too few tasks are right."""
    from agent.contract.words import counted

    reasons = {entry.error for entry in posed}
    if len(reasons) == 1 and (why := reasons.pop()) is not None:
        end(f"no task could be measured, for one reason: {why.rstrip('.')}. Correct that, then run the command again.", 1)
    tried = [entry for entry in posed if entry.error is None]
    rate = sum(entry.heldout_correct is True for entry in tried) / max(1, len(tried))
    if min_rate is not None and rate < min_rate:
        end(
            f"{rate:.1%} of {counted(len(tried), 'tried task')} {'is' if len(tried) == 1 else 'are'} right by held-out tests, "
            f"and --min-rate asks for {min_rate:.1%}",
            1,
        )


def _added(extensions: Extensions) -> dict[str, str]:
    """The extensions that take part, as they are stored with the results."""
    names = [*(placed.proposer.rung for placed in extensions.rungs), *(opinion.name for opinion in extensions.opinions)]
    return {"extensions": ", ".join(names)} if names else {}


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
