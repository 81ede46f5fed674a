"""The commands of `selfheal attempts`: options in, exit code out."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.command import Json, OfRepository, load_settings, run, wrong_use

attempts = typer.Typer(help="Look at what the service did, answer what it asks, go another way.", no_args_is_help=True)

AttemptId = Annotated[str, typer.Argument(metavar="ID", help="Id of the attempt, or its first characters.")]


@attempts.command("list")
def list_attempts(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="How many, newest first.")] = 20,
    json: Json = False,
) -> None:
    """List attempts, newest first."""
    settings = load_settings()
    from app.cli.attempts import listing as inspection

    run(inspection.list_attempts(settings, repository=repository, limit=limit, json=json), inspection.StoreError)


@attempts.command("show")
def show_attempt(
    attempt: AttemptId,
    json: Json = False,
) -> None:
    """Show one attempt with its timeline."""
    settings = load_settings()
    from app.cli.attempts import listing as inspection

    if not run(inspection.show_attempt(settings, attempt, json=json), inspection.StoreError):
        wrong_use(f"there is no attempt {attempt!r}; `selfheal attempts list` shows them")


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
    settings = load_settings()
    from app.cli.attempts import decisions as steering

    try:
        run(steering.fork(settings, attempt, from_iteration=from_iteration, hint=hint, model=model), steering.StoreError)
    except steering.CannotSteer as refusal:
        wrong_use(str(refusal))


@attempts.command()
def calibration(repository: OfRepository = None, json: Json = False) -> None:
    """Show how sure repairs were, and how many of them people merged."""
    settings = load_settings()
    from app.cli.attempts import listing as inspection

    run(inspection.calibration(settings, repository=repository, json=json), inspection.StoreError)


def _steer(*, approved: bool, attempt: str, why: str = "") -> None:
    settings = load_settings()
    from app.cli.attempts import decisions as steering

    try:
        run(steering.answer(settings, attempt, approved=approved, why=why), steering.StoreError)
    except steering.CannotSteer as refusal:
        wrong_use(str(refusal))
