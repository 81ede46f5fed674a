"""The commands of `selfheal attempts`. Their implementations are imported when a command runs."""

from __future__ import annotations

from typing import Annotated

import typer

from app.cli.command import Json, OfRepository, load_settings, run, wrong_use

attempts = typer.Typer(help="List attempts, answer their questions, and fork them.", no_args_is_help=True)

AttemptId = Annotated[str, typer.Argument(metavar="ID", help="ID of the attempt, or a unique prefix of it.")]


@attempts.command("list")
def list_attempts(
    repository: OfRepository = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 20,
    json: Json = False,
) -> None:
    """List attempts, newest first."""
    settings = load_settings()
    from app.cli.attempts import listing
    from app.store.database.address import StoreError

    run(listing.list_attempts(settings, repository=repository, limit=limit, json=json), StoreError)


@attempts.command("show")
def show_attempt(attempt: AttemptId, json: Json = False) -> None:
    """Show one attempt with its timeline."""
    settings = load_settings()
    from app.cli.attempts import listing
    from app.store.database.address import StoreError

    if not run(listing.show_attempt(settings, attempt, json=json), StoreError):
        wrong_use(f"{attempt!r} matches no attempt, or more than one; `selfheal attempts list` shows the ids")


@attempts.command()
def approve(attempt: AttemptId) -> None:
    """Approve the proposal of a waiting attempt."""
    _answer(approved=True, attempt=attempt)


@attempts.command()
def reject(
    attempt: AttemptId,
    why: Annotated[
        str,
        typer.Option(
            "--why",
            metavar="TEXT",
            help="What is wrong with the change. Selfheal learns from it and tries another one. "
            "To a question before an iteration, it is only recorded.",
        ),
    ] = "",
) -> None:
    """Reject the proposal of a waiting attempt. Without a reason, the attempt ends."""
    _answer(approved=False, attempt=attempt, why=why)


@attempts.command()
def fork(
    attempt: AttemptId,
    from_iteration: Annotated[int, typer.Option("--from-iteration", metavar="K", min=1, help="First iteration to run again.")],
    hint: Annotated[str, typer.Option("--hint", metavar="TEXT", help="Hint for proposing a repair.")] = "",
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="LiteLLM name of the model to use.")] = None,
) -> None:
    """Start a new attempt that continues an earlier one from a given iteration."""
    settings = load_settings()
    from app.cli.attempts import decisions
    from app.store.database.address import StoreError

    work = decisions.fork(settings, attempt, from_iteration=from_iteration, hint=hint, model=model)
    run(work, StoreError, wrong=(decisions.DecisionRefused,))


@attempts.command()
def calibration(repository: OfRepository = None, json: Json = False) -> None:
    """Compare the confidence of repairs with the share that was merged."""
    settings = load_settings()
    from app.cli.attempts import listing
    from app.store.database.address import StoreError

    run(listing.calibration(settings, repository=repository, json=json), StoreError)


def _answer(*, approved: bool, attempt: str, why: str = "") -> None:
    settings = load_settings()
    from app.cli.attempts import decisions
    from app.store.database.address import StoreError

    work = decisions.answer(settings, attempt, approved=approved, why=why)
    run(work, StoreError, wrong=(decisions.DecisionRefused,))
