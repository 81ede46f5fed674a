"""`selfheal runs`: list the runs of `selfheal solve`, fork one from a round, or repeat it with another model or prompt."""

from __future__ import annotations

import json as jsonlib
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.command import Json, load_settings, run, tune_interpreter, wrong_use

if TYPE_CHECKING:
    from agent.solving.solution import Start
    from app.cli.solve.records import Record

runs = typer.Typer(help="List the runs of `solve`, fork one from a round, or repeat one.", no_args_is_help=True)

RunId = Annotated[str, typer.Argument(metavar="ID", help="ID of the run, or a unique prefix of it.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="Another model. Default: the same one.")]


@runs.command("list")
def list_runs(
    limit: Annotated[int, typer.Option("--limit", min=1, max=1000, help="Maximum number of rows.")] = 20, json: Json = False
) -> None:
    """List runs, newest first."""
    from app.cli.solve import records

    found = records.all_runs()[:limit]
    if json:
        typer.echo(jsonlib.dumps([_as_json(record) for record in found], indent=2))
        return
    if not found:
        typer.echo("No runs yet: selfheal solve 'Merge overlapping intervals' --model scripted")
        return
    from rich.table import Table

    from app.cli import terminal
    from app.cli.terminal import plain

    table = Table(box=None, pad_edge=False)
    for column in ("id", "what", "result", "rounds", "tokens", "model", "started", "origin"):
        table.add_column(column, no_wrap=column in ("id", "result"))
    for record in found:
        told = record.result
        cells = (str(told.last_round), f"{told.tokens:,}") if told is not None else ("", "")
        started = terminal.moment(record.started_at)
        what = plain((record.spec.name or record.spec.text.split("\n")[0])[:40])
        status = record.status.replace("_", " ")
        table.add_row(record.id[:12], what, status, *cells, plain(record.model), started, _origin(record))
    terminal.console().print(table)


@runs.command("show")
def show_run(id_: RunId, json: Json = False) -> None:
    """Show one run: its rounds with what was learned, and its events."""
    from app.cli.solve import records

    try:
        record = records.find(id_)
    except records.NoSuchRun as error:
        wrong_use(str(error))
    happened = records.events(record.id)
    if json:
        import msgspec

        typer.echo(jsonlib.dumps({**msgspec.to_builtins(record), "status": record.status, "events": happened}, indent=2))
        return
    from agent.contract import words
    from app.cli import terminal
    from app.cli.terminal import plain

    console = terminal.console()
    if record.origin:
        console.print(plain(f"{words.capitalized(_origin(record))}\n", "dim"))
    console.print(plain(f"{record.spec.text[:2_000]}\n"))
    for each in happened:
        if each.get("text"):
            at = terminal.moment(datetime.fromisoformat(each["at"]), seconds=True)
            console.print(plain(f"{at}  {each['text']}"))
    if record.result is not None:
        for told in record.result.rounds:
            console.print(plain(f"\nRound {told.number}: {told.title}. {told.result}", "bold"))
            console.print(plain(told.diff.rstrip()))
            if told.lesson:
                console.print(plain(f"Lesson: {told.lesson}"))
        if record.result.reason:
            console.print(plain(f"\n{record.result.reason}"))
    short = record.id[:12]
    console.print(
        plain(
            f"\nTo go on from a round: selfheal runs fork {short} --from-iteration N. To repeat: selfheal runs replay {short}"
        )
    )


@runs.command()
def fork(
    id_: RunId,
    from_iteration: Annotated[
        int | None,
        typer.Option(
            "--from-iteration",
            metavar="K",
            min=1,
            help="First round to run again. Default: the last one, or the interrupted one.",
        ),
    ] = None,
    hint: Annotated[str, typer.Option("--hint", metavar="TEXT", help="Hint for the model.")] = "",
    model: Model = None,
    json: Json = False,
) -> None:
    """Start a new run that goes on from the code and the tests as they were before a round."""
    from app.cli.solve import records

    try:
        record = records.find(id_)
        number = from_iteration or _latest(record)
        start = _start(record, number, hint)
    except records.NoSuchRun as error:
        wrong_use(str(error))
    _again(record, start, model, json, origin=(record.id, number, hint))


@runs.command()
def replay(id_: RunId, model: Model = None, json: Json = False) -> None:
    """Run the same request from the beginning, with the same design; tests and code are written again, by today's prompts."""
    from agent.solving.solution import Start
    from app.cli.solve import records

    try:
        record = records.find(id_)
    except records.NoSuchRun as error:
        wrong_use(str(error))
    draft = record.result.draft if record.result is not None else None
    start = Start(draft) if draft is not None else None
    _again(record, start, model, json, origin=(record.id, 0, ""))


def _origin(record: Record) -> str:
    """What the run was made of: "fork of 3f2a…, round 2", "replay of 3f2a…", "" if of nothing."""
    round_ = f", round {record.from_iteration}" if record.origin == "fork" else ""
    return f"{record.origin} of {record.forked_from[:12]}{round_}" if record.origin else ""


def _latest(record: Record) -> int:
    """The last round that can run again: that in which the run was interrupted, or else its last one."""
    last = record.result.last_round if record.result is not None else 0
    return max(1, last if record.has_ended else last + 1)


def _start(record: Record, number: int, hint: str) -> Start:
    """Raises `NoSuchRun`."""
    from agent.contract import words
    from agent.edits.changes import EditProblem
    from agent.solving.answers import after
    from agent.solving.solution import Start
    from app.cli.solve.records import NoSuchRun

    told, short = record.result, record.id[:12]
    if told is None or told.draft is None:
        raise NoSuchRun(f"run {short} has no design to go on from; repeat it with `selfheal runs replay {short}`")
    if number > (latest := _latest(record)):
        count = words.counted(told.last_round, "round")
        raise NoSuchRun(f"run {short} has {count}, so none can start at {number}; give at most --from-iteration {latest}")
    earlier = [each for each in told.rounds if each.number < number]
    if not earlier:
        return Start(told.draft, told.tests or None, hint=hint.strip())
    answer = after(told.bases[earlier[-1].base], earlier[-1].diff)
    if isinstance(answer, EditProblem):
        raise NoSuchRun(f"the answer of round {earlier[-1].number} is not complete in the log: {answer.sentence}")
    return Start(told.draft, told.tests, answer, hint.strip())


def _again(record: Record, start: Start | None, model: str | None, json: bool, origin: tuple[str, int, str]) -> None:
    tune_interpreter()
    from agent.models.values import ModelError
    from agent.solving.home import BadSpecification
    from app.cli.solve import run as solving
    from app.cli.solve.wish import Wish
    from sandbox.base import SandboxError

    limits = {"max_tokens": record.tokens, "max_cost": record.cost}
    limits |= {"max_iterations": record.iterations, "max_seconds": record.seconds}
    given = {name: value for name, value in limits.items() if value is not None}
    settings = load_settings(env_file=None, model=model or record.model, **given)
    known = {name: value for name, value in record.options.items() if name in Wish.__dataclass_fields__}
    wish = replace(Wish(**known), design=start is None and bool(known.get("design", True)), yes=True, streams=False, out=None)
    work = solving.run(record.spec, settings, wish, json=json, start=start, origin=origin)
    is_solved = run(work, ModelError, SandboxError, wrong=(BadSpecification,))
    raise typer.Exit(0 if is_solved else 1)


def _as_json(record: Record) -> dict[str, Any]:
    told = record.result
    return {
        "id": record.id,
        "status": record.status,
        "name": record.spec.name or None,
        "specification": record.spec.text,
        "model": record.model,
        "options": record.options,
        "started_at": record.started_at.isoformat(),
        "origin": record.origin or None,
        "forked_from": record.forked_from or None,
        "from_iteration": record.from_iteration or None,
        "rounds": told.last_round if told is not None else None,
        "tokens": told.tokens if told is not None else None,
        "cost": told.cost if told is not None else None,
        "seconds": told.seconds if told is not None else None,
        "confidence": told.confidence if told is not None else None,
        "reason": (told.reason or None) if told is not None else None,
    }
