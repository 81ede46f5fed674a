"""`selfheal`: the command line. Each command loads only what it needs, so that `--help` stays instant.

Exit codes: 0 done (`fix`: healed; `reproduce`: it is red here too), 1 not so or it failed, 2 wrong use or a wrong setting.
"""

from __future__ import annotations

import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeVar

import typer

from app.bench_commands import bench

if TYPE_CHECKING:
    from app.choosing import Wish
    from app.settings import Settings

T = TypeVar("T")

app = typer.Typer(
    name="selfheal",
    help="Reproduces a red CI run, repairs the code, proves the green and opens a pull request with its evidence.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
attempts = typer.Typer(help="Look at what the service did, answer what it asks, go another way.", no_args_is_help=True)
app.add_typer(attempts, name="attempts")
app.add_typer(bench, name="bench")
memory = typer.Typer(help="Look at what is remembered of each repository, and forget it.", no_args_is_help=True)
app.add_typer(memory, name="memory")

AttemptId = Annotated[str, typer.Argument(metavar="ID", help="Id of the attempt, or its first characters.")]
OfRepository = Annotated[str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Only of this repository.")]
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
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output, for scripts.")]


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
    flaky: Annotated[bool, typer.Option("--flaky", help="Repair also a failure that comes and goes.")] = False,
    json: Json = False,
) -> None:
    """Heal a local checkout with failing tests, and show the patch with its evidence.

    Settings come from the environment and from no `.env`: that of a checkout is not yours.
    """
    if not path.is_dir():
        _wrong_use(f"{path} is not a folder; give the folder of a checkout")
    wish = _wish(test, workflow, job, matrix)
    from app import choosing
    from app import fix as local

    given = {"model": model, "max_iterations": max_iterations}
    settings = _settings(env_file=None, **{name: value for name, value in given.items() if value is not None})
    try:
        healed = _run(local.run(path.resolve(), settings, wish=wish, flaky=flaky, apply=apply, json=json))
    except choosing.NoSuchJob as problem:
        _wrong_use(str(problem))
    raise typer.Exit(0 if healed else 1)


@app.command()
def reproduce(
    path: Annotated[Path, typer.Argument(help="Folder of a checkout whose CI is red.")],
    workflow: Workflow = None,
    job: JobName = None,
    matrix: Matrix = None,
    test: Annotated[
        str | None, typer.Option("--test", metavar="CMD", help="A command that runs the tests, instead of a job's steps.")
    ] = None,
    json: Json = False,
) -> None:
    """See a local checkout's failure as its CI does: the steps, what is approximated, the failing tests. Repairs nothing."""
    if not path.is_dir():
        _wrong_use(f"{path} is not a folder; give the folder of a checkout")
    wish = _wish(test, workflow, job, matrix)
    from app import choosing
    from app import reproduce as local

    settings = _settings(env_file=None, model="none")
    try:
        is_red = _run(local.run(path.resolve(), settings, wish=wish, json=json))
    except choosing.NoSuchJob as problem:
        _wrong_use(str(problem))
    raise typer.Exit(0 if is_red else 1)


@app.command()
def serve() -> None:
    """Receive GitHub's webhooks (the web process)."""
    from app import service

    _run(service.web(_settings()), *service.CANNOT_START)


@app.command()
def worker() -> None:
    """Heal what the webhooks asked for (the worker process); start as many as you like."""
    from app import service

    _run(service.worker(_settings()), *service.CANNOT_START)


@app.command()
def dev() -> None:
    """Web, worker and an embedded Redis together, for trying things on one machine."""
    from app import service

    _run(service.both(_settings()), *service.CANNOT_START)


@app.command()
def health() -> None:
    """Say whether this machine's worker does its work: exit code 0 if so, 1 with a line about each part that does not.

    For a container's health check; the web process answers `/healthz` and `/readyz` itself.
    """
    from app import health as asked
    from app.store.database import StoreError

    parts = _run(asked.of_worker(_settings()), StoreError)
    for name, part in parts.items():
        typer.echo(f"{name}: {part.reason or 'ok'}", err=not part.ok)
    raise typer.Exit(0 if all(part.ok for part in parts.values()) else 1)


@attempts.command("list")
def list_attempts(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 20,
    json: Json = False,
) -> None:
    """List attempts, newest first."""
    from app import inspection

    _run(inspection.list_attempts(_settings(), repository=repository, limit=limit, json=json), inspection.StoreError)


@attempts.command("show")
def show_attempt(
    attempt: AttemptId,
    json: Json = False,
) -> None:
    """Show one attempt with its timeline."""
    from app import inspection

    if not _run(inspection.show_attempt(_settings(), attempt, json=json), inspection.StoreError):
        _wrong_use(f"there is no attempt {attempt!r}; `selfheal attempts list` shows them")


@attempts.command()
def approve(attempt: AttemptId) -> None:
    """Say yes to what a waiting attempt asks."""
    _steer(approved=True, attempt=attempt)


@attempts.command()
def reject(
    attempt: AttemptId,
    why: Annotated[
        str, typer.Option("--why", metavar="TEXT", help="What is wrong with it: it is learned from, and another change tried.")
    ] = "",
) -> None:
    """Say no to what a waiting attempt asks; without a reason the attempt ends."""
    _steer(approved=False, attempt=attempt, why=why)


@attempts.command()
def fork(
    attempt: AttemptId,
    from_iteration: Annotated[
        int, typer.Option("--from-iteration", metavar="K", min=1, help="The first round that goes another way.")
    ],
    hint: Annotated[str, typer.Option("--hint", metavar="TEXT", help="What the proposers should know.")] = "",
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model that is asked next.")
    ] = None,
) -> None:
    """Rewind an attempt to one of its rounds and go another way, as an attempt of its own."""
    from app import steering

    try:
        _run(steering.fork(_settings(), attempt, from_iteration=from_iteration, hint=hint, model=model), steering.StoreError)
    except steering.CannotSteer as refusal:
        _wrong_use(str(refusal))


@attempts.command()
def calibration(repository: OfRepository = None, json: Json = False) -> None:
    """Show how sure repairs were, and how many of them people merged."""
    from app import inspection

    _run(inspection.calibration(_settings(), repository=repository, json=json), inspection.StoreError)


@memory.command("list")
def list_memories(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 50,
    json: Json = False,
) -> None:
    """List what is remembered, newest first."""
    from app import memories

    _run(memories.list_memories(_settings(), repository=repository, limit=limit, json=json), memories.StoreError)


@memory.command()
def forget(
    number: Annotated[int | None, typer.Argument(metavar="ID", help="Id of the memory, as `memory list` shows it.")] = None,
    repository: Annotated[
        str | None, typer.Option("--repository", metavar="OWNER/NAME", help="Everything of this repository.")
    ] = None,
) -> None:
    """Forget one memory, or everything of a repository."""
    if (number is None) == (repository is None):
        _wrong_use("say what to forget: the ID of a memory, or --repository OWNER/NAME")
    from app import memories

    dropped = _run(memories.forget(_settings(), memory_id=number, repository=repository), memories.StoreError)
    if not dropped:
        _wrong_use(f"nothing is remembered as {number or repository}; `selfheal memory list` shows what is")
    typer.echo(f"Forgotten: {dropped}.")


def _steer(*, approved: bool, attempt: str, why: str = "") -> None:
    from app import steering

    try:
        _run(steering.answer(_settings(), attempt, approved=approved, why=why), steering.StoreError)
    except steering.CannotSteer as refusal:
        _wrong_use(str(refusal))


def _wish(test: str | None, workflow: str | None, job: str | None, matrix: list[str] | None) -> Wish:
    from app.choosing import Wish

    if test is not None and not 0 < len(test.strip()) <= LONGEST_COMMAND:
        _wrong_use(f"--test must name a command of 1 to {LONGEST_COMMAND:,} characters, such as --test 'python -m pytest'")
    if odd := [pair for pair in matrix or () if not pair.partition("=")[0] or "=" not in pair]:
        _wrong_use(f"--matrix {odd[0]!r} is not KEY=VALUE; give for example --matrix python-version=3.12")
    wish = Wish(test, workflow, job, dict(pair.split("=", 1) for pair in matrix or ()))
    if wish.names_a_job and test is not None:
        _wrong_use("--test runs a command instead of a job: give either --test, or --workflow, --job and --matrix")
    return wish


def _settings(**overrides: object) -> Settings:
    """The settings, with those in the working folder's `.env` unless `env_file` says otherwise."""
    from app.settings import ENV_FILE, SettingsError, load

    try:
        return load(**{"env_file": ENV_FILE, **overrides})  # type: ignore[arg-type]
    except SettingsError as error:
        _wrong_use(str(error))


def _run(work: Coroutine[Any, Any, T], *expected: type[Exception]) -> T:
    """Run a command to its end; what is `expected` to go wrong is one line, and no fault of the one who called."""
    from app import stopping
    from app.settings import SettingsError

    try:
        return stopping.run(work)
    except SettingsError as error:
        _wrong_use(str(error))
    except expected as error:
        _end(str(error), 1)
    except KeyboardInterrupt:
        typer.echo("selfheal: stopped, nothing is left behind", err=True)
        raise typer.Exit(stopping.STOPPED) from None


def _wrong_use(message: str) -> NoReturn:
    _end(message, 2)


def _end(message: str, code: int) -> NoReturn:
    from app.redaction import redact

    for line in redact(message).splitlines():
        typer.secho(f"selfheal: {line}", err=True, fg="red" if sys.stderr.isatty() else None)
    raise typer.Exit(code)
