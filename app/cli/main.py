"""`selfheal`: the command line. Each command loads only what it needs, so that `--help` stays instant, and reads its settings
before that, so that a wrong one is told at once.

`fix` ends with 0 when it healed, `reproduce` when it is red here too, `doctor` when nothing failed; what exit codes mean
otherwise says `commands.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.attempt_commands import attempts
from app.cli.bench.commands import bench
from app.cli.command import Json, load_beside_work, load_settings, run, wrong_use
from app.memory_commands import memory

if TYPE_CHECKING:
    from app.cli.checkout.job_selection import Wish

app = typer.Typer(
    name="selfheal",
    help="Reproduces a red CI run, repairs the code, proves the green and opens a pull request with its evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(attempts, name="attempts")
app.add_typer(bench, name="bench")
app.add_typer(memory, name="memory")

LONGEST_COMMAND = 10_000
Workflow = Annotated[
    str | None, typer.Option("--workflow", metavar="FILE", help="A workflow of .github/workflows: one of its jobs is replayed.")
]
JobName = Annotated[
    str | None, typer.Option("--job", metavar="NAME", help="The job that is replayed: its id, or the name that GitHub shows.")
]
Matrix = Annotated[
    list[str] | None, typer.Option("--matrix", metavar="KEY=VALUE", help="A value of its matrix; give it once for each key.")
]
StepName = Annotated[
    str | None,
    typer.Option("--step", metavar="NAME", help="The step that is red, as GitHub shows it. Default: each is tried in turn."),
]


def main() -> None:
    """Entry point of the `selfheal` script."""
    app()


def _tell_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def options(
    _: Annotated[bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")] = False,
) -> None:
    """Options of the command itself."""


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(f"selfheal {installed('selfheal')}")


@app.command()
def fix(
    path: Annotated[Path, typer.Argument(help="Folder of a checkout whose tests fail.")],
    test: Annotated[
        str | None, typer.Option("--test", metavar="CMD", help="Command that runs the tests. Default: found in the checkout.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model; `none` for the rungs without one.")
    ] = None,
    max_iterations: Annotated[
        int | None, typer.Option("--max-iterations", min=1, help="Rounds of propose, verify, reflect.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Write the verified repair into the checkout. Without it nothing is touched.")
    ] = False,
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    step: StepName = None,
    flaky: Annotated[bool, typer.Option("--flaky", help="Repair also a failure that comes and goes.")] = False,
    json: Json = False,
) -> None:
    """Heal a local checkout with failing tests, and show the patch with its evidence.

    Settings come from the environment and from no `.env`: that of a checkout is not yours.
    """
    if not path.is_dir():
        wrong_use(f"{path} is not a folder; give the folder of a checkout")
    wish = _wish(test, workflow, job, matrix, step)
    load_beside_work()
    from app.cli.checkout import fix as local
    from app.cli.checkout.job_selection import NoSuchJob

    given = {"model": model, "max_iterations": max_iterations}
    settings = load_settings(env_file=None, **{name: value for name, value in given.items() if value is not None})
    try:
        healed = run(local.run(path.resolve(), settings, wish=wish, flaky=flaky, apply=apply, json=json))
    except NoSuchJob as problem:
        wrong_use(str(problem))
    raise typer.Exit(0 if healed else 1)


@app.command()
def reproduce(
    path: Annotated[Path, typer.Argument(help="Folder of a checkout whose CI is red.")],
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    step: StepName = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="CMD", help="A command that runs the tests, instead of a job's steps.")
    ] = None,
    json: Json = False,
) -> None:
    """See a local checkout's failure as its CI does: the steps, what is approximated, the failing tests. Repairs nothing."""
    if not path.is_dir():
        wrong_use(f"{path} is not a folder; give the folder of a checkout")
    wish = _wish(test, workflow, job, matrix, step)
    load_beside_work()
    from app.cli.checkout import reproduce as local
    from app.cli.checkout.job_selection import NoSuchJob

    settings = load_settings(env_file=None, model="none")
    try:
        is_red = run(local.run(path.resolve(), settings, wish=wish, json=json))
    except NoSuchJob as problem:
        wrong_use(str(problem))
    raise typer.Exit(0 if is_red else 1)


@app.command()
def serve() -> None:
    """Receive GitHub's webhooks (the web process)."""
    settings = load_settings()
    from app.service import run as service

    run(service.web(settings), *service.CANNOT_START, new_loop=service.loop_of_web)


@app.command()
def worker() -> None:
    """Heal what the webhooks asked for (the worker process); start as many as you like."""
    settings = load_settings()
    from app.service import run as service

    run(service.worker(settings), *service.CANNOT_START)


@app.command()
def dev() -> None:
    """Web, worker and an embedded Redis together, for trying things on one machine."""
    settings = load_settings()
    from app.service import run as service

    run(service.both(settings), *service.CANNOT_START)


@app.command()
def migrate() -> None:
    """Bring the database to this version and end. `serve` and `worker` do it too; this is for deploying before they start."""
    settings = load_settings()
    from app.cli import migrate as migrating

    typer.echo(run(migrating.migrate(settings), migrating.StoreError))


@app.command()
def doctor(json: Json = False) -> None:
    """Look at all that the service needs, prove the isolation on this machine, and say how to mend what is not right."""
    from app.cli.doctor import report
    from app.settings import ENV_FILE, SettingsError, load

    try:
        settings = load(env_file=ENV_FILE)
    except SettingsError as error:
        raise typer.Exit(report.wrong(error, json=json)) from None
    raise typer.Exit(run(report.run(settings, ENV_FILE, json=json)))


@app.command()
def health() -> None:
    """Say whether this machine's worker does its work: exit code 0 if so, 1 with a line about each part that does not.

    For a container's health check; the web process answers `/healthz` and `/readyz` itself.
    """
    settings = load_settings()
    from app.queue.redis import RedisMissing
    from app.service import health as asked
    from app.store.database.database import StoreError

    parts = run(asked.of_worker(settings), StoreError, RedisMissing)
    for name, part in parts.items():
        typer.echo(f"{name}: {part.reason or 'ok'}", err=not part.ok)
    raise typer.Exit(0 if all(part.ok for part in parts.values()) else 1)


def _wish(test: str | None, workflow: str | None, job: str | None, matrix: list[str] | None, step: str | None) -> Wish:
    from app.cli.checkout.job_selection import Wish

    if test is not None and not 0 < len(test.strip()) <= LONGEST_COMMAND:
        wrong_use(f"--test must name a command of 1 to {LONGEST_COMMAND:,} characters, such as --test 'python -m pytest'")
    if odd := [pair for pair in matrix or () if not pair.partition("=")[0] or "=" not in pair]:
        wrong_use(f"--matrix {odd[0]!r} is not KEY=VALUE; give for example --matrix python-version=3.12")
    wish = Wish(test, workflow, job, dict(pair.split("=", 1) for pair in matrix or ()), step)
    if wish.names_a_job and test is not None:
        wrong_use("--test runs a command instead of a job: give either --test, or --workflow, --job, --matrix and --step")
    return wish
