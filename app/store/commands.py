"""Commands between the webhook and the attempt: pending until their author's permission is known.

All commands of a pull request that are pending together become one attempt, and join one that no worker has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from app.store.deliveries import attempt_row
from app.store.leases import quotas
from app.store.models import AttemptRow, CommandRow, DeliveryRow, RepositoryRow, RequestRow
from app.store.store import Store
from app.store.values import request_row
from webhooks.intake import RepairRequest, RepositoryRef

_MOST = 100  # commands of one pull request that are decided together


@dataclass(frozen=True, slots=True)
class Command:
    """A pending `/heal` comment; `guid` is its delivery's."""

    request: RepairRequest
    guid: str
    created_at: datetime

    @property
    def comment_id(self) -> int:
        assert self.request.comment_id is not None, "every command is a comment"
        return self.request.comment_id

    @property
    def sender(self) -> str:
        """Login, in lower case."""
        return (self.request.sender or "").lower()


class Admitted(NamedTuple):
    """What became of permitted commands: their attempt, or the quota that refuses it, as a sentence."""

    attempt_id: str | None
    refusal: str = ""


async def pending(store: Store, repository_id: int, pull_number: int) -> list[Command]:
    """The pull request's commands that can be decided now, oldest first."""
    async with store.database.read() as session:
        repository = await session.get(RepositoryRow, repository_id)
        if repository is None:
            return []
        ref = RepositoryRef(repository.id, repository.full_name, repository.default_branch, repository.private)
        rows = await session.scalars(
            select(CommandRow)
            .where(
                CommandRow.repository_id == repository_id,
                CommandRow.pull_number == pull_number,
                CommandRow.decided_at.is_(None),
                or_(CommandRow.due_at.is_(None), CommandRow.due_at <= store.clock.now()),
            )
            .order_by(CommandRow.created_at, CommandRow.comment_id)
            .limit(_MOST)
        )
        return [_command(row, ref) for row in rows]


async def postpone(store: Store, commands: Sequence[Command], seconds: float) -> None:
    """Decide these later."""
    due_at = store.clock.now() + timedelta(seconds=seconds)
    async with store.database.write() as session:
        await session.execute(update(CommandRow).where(_undecided(commands)).values(due_at=due_at))


async def refuse(store: Store, commands: Sequence[Command], why: str) -> None:
    """Make no attempt of these. `why`: one sentence for the list of deliveries."""
    async with store.database.write() as session:
        await _refuse(session, await _taken(session, commands, store.clock.now()), why)


async def admit(store: Store, commands: Sequence[Command]) -> Admitted | None:
    """Make one attempt of these commands of one pull request, whose authors are permitted; None if they are decided already."""
    now = store.clock.now()
    async with store.database.write() as session:
        await quotas.lock(session)
        taken = await _taken(session, commands, now)
        if not taken:
            return None
        row = await _queued(session, taken[0].request)
        if row is None:
            row = AttemptRow(**attempt_row(taken[0].request, None, now))
            if (refusal := await quotas.admit(session, row, store.quotas, now)) is not None:
                await _refuse(session, taken, refusal)
                return Admitted(None, refusal)
            session.add(row)
            await session.flush()
        session.add_all(RequestRow(**request_row(each.request, row.id, now)) for each in taken)
        await session.execute(update(DeliveryRow).where(_deliveries(taken)).values(attempt_id=row.id))
        return Admitted(row.id)


async def _taken(session: AsyncSession, commands: Sequence[Command], now: datetime) -> list[Command]:
    """Those of the commands that nobody else decides: they count as decided from now on."""
    decided = update(CommandRow).where(_undecided(commands)).values(decided_at=now).returning(CommandRow.comment_id)
    ids = set((await session.execute(decided)).scalars())
    return [command for command in commands if command.comment_id in ids]


async def _queued(session: AsyncSession, request: RepairRequest) -> AttemptRow | None:
    """The attempt of an earlier command on the pull request that no worker has started."""
    ours = select(RequestRow.attempt_id).where(RequestRow.pull_number == request.pull_number)
    queued: AttemptRow | None = await session.scalar(
        select(AttemptRow)
        .where(
            AttemptRow.repository_id == request.repository.id,
            AttemptRow.trigger == "command",
            AttemptRow.status == "queued",
            AttemptRow.started_at.is_(None),
            AttemptRow.id.in_(ours),
        )
        .order_by(AttemptRow.created_at)
        .limit(1)
        .with_for_update()
    )
    return queued


async def _refuse(session: AsyncSession, commands: Sequence[Command], why: str) -> None:
    await session.execute(update(DeliveryRow).where(_deliveries(commands)).values(decision="refused", reason=why))


def _undecided(commands: Sequence[Command]) -> ColumnElement[bool]:
    return and_(CommandRow.decided_at.is_(None), CommandRow.comment_id.in_([command.comment_id for command in commands]))


def _deliveries(commands: Sequence[Command]) -> ColumnElement[bool]:
    return DeliveryRow.guid.in_([command.guid for command in commands])


def _command(row: CommandRow, repository: RepositoryRef) -> Command:
    request = RepairRequest(
        "comment",
        row.installation_id,
        repository,
        head_sha=None,
        head_branch=None,
        pull_number=row.pull_number,
        comment_id=row.comment_id,
        sender=row.sender,
        title=row.title,
        flaky=row.flaky,
    )
    return Command(request, row.guid, row.created_at)
