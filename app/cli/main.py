"""`selfheal`: the command line. Each command imports only what it needs, so that `--help` stays fast, and reads its settings
first, so that an invalid setting is reported immediately.

`fix` exits with 0 if it found a repair, `reproduce` if the failure occurs here too, `verify` if the proof holds, `doctor` if no
check failed. `command.py` lists the other exit codes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.cli.attempts.commands import attempts
from app.cli.bench.commands import bench
from app.cli.cache import cache
from app.cli.command import Json, load_settings, run, tune_interpreter, wrong_use
from app.cli.memory import memory
from app.cli.models import models
from app.cli.solve.command import solve
from app.cli.solve.runs import runs

if TYPE_CHECKING:
    from app.cli.checkout.workflow_jobs import JobSelection

app = typer.Typer(
    name="selfheal",
    help="Reproduce a failing CI run, repair the code, verify the repair and open a pull request with the evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(attempts, name="attempts")
app.add_typer(bench, name="bench")
app.add_typer(memory, name="memory")
app.add_typer(cache, name="cache")
app.add_typer(models, name="models")
app.add_typer(runs, name="runs")
app.command()(solve)

LONGEST_COMMAND = 10_000
Workflow = Annotated[
    str | None, typer.Option("--workflow", metavar="FILE", help="Replay a job of this workflow in .github/workflows.")
]
JobName = Annotated[
    str | None, typer.Option("--job", metavar="NAME", help="Job to replay: its id, or the name that GitHub shows.")
]
Matrix = Annotated[
    list[str] | None,
    typer.Option("--matrix", metavar="KEY=VALUE", help="Matrix value of the job. Repeat the option for each key."),
]
StepName = Annotated[
    str | None,
    typer.Option("--step", metavar="NAME", help="The failing step, as GitHub shows it. Default: try each step in turn."),
]
Test = Annotated[
    str | None, typer.Option("--test", metavar="CMD", help="Command that runs the tests, instead of a job's steps.")
]
Good = Annotated[
    str | None,
    typer.Option(
        "--good",
        metavar="REV",
        help="Last good commit. Default: HEAD if files changed since, its parent, or the merge base with the default branch.",
    ),
]


def main() -> None:
    """Entry point of the `selfheal` script."""
    app()


def _print_version(requested: bool) -> None:
    if requested:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of `selfheal` itself."""


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(f"selfheal {installed('selfheal')}")


@app.command()
def fix(
    path: Annotated[Path, typer.Argument(help="Checkout with failing tests.")],
    test: Annotated[
        str | None, typer.Option("--test", metavar="CMD", help="Command that runs the tests. Default: detected.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model, or `none` to use no model.")
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option("--max-iterations", min=1, help="Maximum number of iterations (propose, verify, reflect).")
    ] = None,
    min_confidence: Annotated[
        float | None,
        typer.Option(
            "--min-confidence",
            min=0,
            max=1,
            help="Confidence that a repair needs (default: 0.85; 0.65 for a clear change of the search without a model); less "
            "sure changes are shown as suspects.",
        ),
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the verified repair to the checkout. Default: change nothing.")
    ] = False,
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    step: StepName = None,
    good: Good = None,
    allow_reversals: Annotated[
        bool, typer.Option("--allow-reversals", help="A repair may take back what changed since the last good commit.")
    ] = False,
    flaky: Annotated[bool, typer.Option("--flaky", help="Also repair intermittent failures.")] = False,
    json: Json = False,
) -> None:
    """Repair a local checkout with failing tests, and show the patch with its evidence.

    Settings come from the environment only. A `.env` file is not read, as it may belong to the checkout.
    """
    selection = _selection(test, workflow, job, matrix, step, good)
    from app.cli.checkout import fix as fixing
    from app.cli.checkout.checkout import NotACheckout
    from app.cli.checkout.last_good import NoSuchRevision
    from app.cli.checkout.workflow_jobs import NoSuchJob

    given = {"model": model, "max_iterations": max_iterations, "min_confidence": min_confidence}
    settings = load_settings(env_file=None, **{name: value for name, value in given.items() if value is not None})
    allowed = fixing.Allowed(flaky=flaky, reversals=allow_reversals)
    fixed = fixing.run(path, settings, selection=selection, allowed=allowed, apply=apply, json=json)
    healed = run(fixed, wrong=(NotACheckout, NoSuchJob, NoSuchRevision))
    raise typer.Exit(0 if healed else 1)


@app.command()
def reproduce(
    path: Annotated[Path, typer.Argument(help="Checkout whose CI fails.")],
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    step: StepName = None,
    test: Test = None,
    good: Good = None,
    json: Json = False,
) -> None:
    """Reproduce a checkout's CI failure: its steps, the differences from CI and the failing tests. Changes nothing."""
    selection = _selection(test, workflow, job, matrix, step, good)
    from app.cli.checkout import reproduce as reproducing
    from app.cli.checkout.checkout import NotACheckout
    from app.cli.checkout.last_good import NoSuchRevision
    from app.cli.checkout.workflow_jobs import NoSuchJob

    settings = load_settings(env_file=None, model="none")
    is_reproduced = run(
        reproducing.run(path, settings, selection=selection, json=json), wrong=(NotACheckout, NoSuchJob, NoSuchRevision)
    )
    raise typer.Exit(0 if is_reproduced else 1)


@app.command()
def verify(
    repair: Annotated[
        str,
        typer.Argument(metavar="PULL_REQUEST|PATH", help="Address of a pull request, or checkout of a repair's commit."),
    ] = ".",
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    step: StepName = None,
    test: Test = None,
    good: Good = None,
    json: Json = False,
) -> None:
    """Repeat the proof of a repair: the checks fail before it, pass with it, and fail again without it. Changes nothing."""
    selection = _selection(test, workflow, job, matrix, step, good)
    from app.cli.checkout import verify as verifying
    from app.cli.checkout.checkout import NotACheckout
    from app.cli.checkout.last_good import NoSuchRevision
    from app.cli.checkout.workflow_jobs import NoSuchJob

    settings = load_settings(env_file=None, model="none")
    is_verified = run(
        verifying.run(repair, settings, selection=selection, json=json),
        wrong=(verifying.NotVerifiable, NotACheckout, NoSuchJob, NoSuchRevision),
    )
    raise typer.Exit(0 if is_verified else 1)


@app.command()
def serve() -> None:
    """Run the web process, which receives GitHub's webhooks."""
    settings = load_settings()
    from app.service import run as service

    run(service.web(settings), *service.CANNOT_START, new_loop=service.loop_of_web)


@app.command()
def worker() -> None:
    """Run a worker process, which carries out the requested repairs. Start as many as you like."""
    settings = load_settings()
    from app.service import run as service

    run(service.worker(settings), *service.CANNOT_START)


@app.command()
def dev() -> None:
    """Run the web process, a worker and an embedded Redis together, to try Selfheal on one machine."""
    settings = load_settings()
    from app.service import run as service

    run(service.both(settings), *service.CANNOT_START)


@app.command()
def migrate() -> None:
    """Migrate the database to this version of Selfheal and exit. `serve` and `worker` also do this when they start."""
    settings = load_settings()
    from app.clock import SystemClock
    from app.store.checkpoints.checkpoints import open_checkpoints
    from app.store.database.address import StoreError
    from app.store.database.condition import condition
    from app.store.store import open_store

    async def migrated() -> str:
        async with open_store(settings, SystemClock()), open_checkpoints(settings):
            pass
        now = await condition(settings.database)
        if now is None or now.revision is None:
            raise StoreError("the database disappeared after its migration")
        return f"{now.name}: at migration {now.revision} (latest)"

    typer.echo(run(migrated(), StoreError))


@app.command()
def doctor(json: Json = False) -> None:
    """Check everything the service needs, test the sandbox's isolation on this machine, and suggest fixes."""
    from app.cli.doctor import report
    from app.settings import ENV_FILE, SettingsError, load

    try:
        settings = load(env_file=ENV_FILE)
    except SettingsError as error:
        raise typer.Exit(report.report_invalid_settings(error, json=json)) from None
    raise typer.Exit(run(report.run(settings, ENV_FILE, json=json)))


@app.command()
def health() -> None:
    """Report whether this machine's worker is healthy, a line for each part. Exits with 0 if all parts are, otherwise with 1.

    Intended for container health checks. The web process serves `/healthz` and `/readyz` itself.
    """
    settings = load_settings()
    from app.queue.redis import RedisMissing
    from app.service import health as service_health
    from app.store.database.address import StoreError

    parts = run(service_health.of_worker(settings), StoreError, RedisMissing)
    for name, reason in parts.items():
        typer.echo(f"{name}: {reason or 'ok'}", err=bool(reason))
    raise typer.Exit(1 if any(parts.values()) else 0)


def _selection(
    test: str | None,
    workflow: str | None,
    job: str | None,
    matrix: list[str] | None,
    step: str | None,
    good: str | None,
) -> JobSelection:
    """The selected job or command; exits with a usage error if the arguments are invalid."""
    if test is not None and not 0 < len(test.strip()) <= LONGEST_COMMAND:
        wrong_use(f"--test must be a command of 1 to {LONGEST_COMMAND:,} characters, such as --test 'python -m pytest'")
    if odd := [pair for pair in matrix or () if not pair.partition("=")[0] or "=" not in pair]:
        wrong_use(f"--matrix {odd[0]!r} is not KEY=VALUE; for example --matrix python-version=3.12")
    if test is not None and (matrix or any(option is not None for option in (workflow, job, step))):
        wrong_use("--test cannot be combined with --workflow, --job, --matrix or --step: it runs a command instead of a job")
    tune_interpreter()
    from app.cli.checkout.workflow_jobs import JobSelection

    return JobSelection(test, workflow, job, dict(pair.split("=", 1) for pair in matrix or ()), step, good)
