"""The tables: the service's source of truth; Redis only carries ids of `attempts`.

They work the same on SQLite and PostgreSQL: constraints, not locks, resolve races.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    TypeDecorator,
    UniqueConstraint,
    false,
    text,
)
from sqlalchemy.engine import Dialect
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship
from sqlalchemy.types import TypeEngine

from app.store.text import storable


class Utc(TypeDecorator[datetime]):
    """A timezone-aware time in UTC, even on SQLite, which stores no time zone."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a time without a time zone cannot be stored")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Words(TypeDecorator[str]):
    """Text of any origin, made storable; `length` limits it if the database enforces lengths."""

    impl = String
    cache_ok = True

    def __init__(self, length: int | None = None) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[str]:
        return String(self.length) if self.length else Text()

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        return None if value is None else storable(value)


class Base(DeclarativeBase):
    type_annotation_map = {datetime: Utc, int: BigInteger, str: Words}  # noqa: RUF012 - read by SQLAlchemy only
    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


# SQLite auto-increments only a plain INTEGER key.
_Serial = BigInteger().with_variant(Integer(), "sqlite")


class InstallationRow(Base):
    """The App's installation on one account. `id` is GitHub's."""

    __tablename__ = "installations"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    account: Mapped[str] = mapped_column(default="")
    state: Mapped[str] = mapped_column(Words(16), default="active")  # active, suspended, removed
    permissions: Mapped[dict[str, Any]] = mapped_column(JSON, default=dict)
    updated_at: Mapped[datetime]


class RepositoryRow(Base):
    """A repository. `id` is GitHub's; it stays the same when the repository is renamed."""

    __tablename__ = "repositories"

    id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    installation_id: Mapped[int] = mapped_column(ForeignKey("installations.id"), index=True)
    full_name: Mapped[str] = mapped_column(index=True)
    default_branch: Mapped[str]
    private: Mapped[bool]
    removed: Mapped[bool] = mapped_column(default=False)
    known_at: Mapped[datetime | None]  # when it was added, the last time: its name and visibility may have changed since
    suites_stopped_at: Mapped[datetime | None]  # when GitHub was asked to make no check suite of ours for every push
    updated_at: Mapped[datetime]


class DeliveryRow(Base):
    """One webhook delivery; each GUID is handled once."""

    __tablename__ = "deliveries"

    guid: Mapped[str] = mapped_column(Words(64), primary_key=True)
    event: Mapped[str]
    action: Mapped[str | None]
    payload_sha256: Mapped[str] = mapped_column(Words(64))
    decision: Mapped[str] = mapped_column(Words(16), index=True)  # request, change, ignored, refused
    reason: Mapped[str]
    attempt_id: Mapped[str | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    received_at: Mapped[datetime]


class AttemptRow(Base):
    """One attempt to heal one commit of one repository."""

    __tablename__ = "attempts"
    __table_args__ = (
        # One automatic attempt per head that new failures join; NULLs (of commands and earlier attempts) are distinct.
        UniqueConstraint("repository_id", "automatic_sha"),
        # At most one attempt of a head runs at a time.
        UniqueConstraint("repository_id", "running_sha"),
        UniqueConstraint("repository_id", "head_sha", "number"),
        Index("ix_attempts_status_lease_expires_at", "status", "lease_expires_at"),
        Index("ix_attempts_status_outcome", "status", "outcome"),
        # For every sweep. The condition names no status: queries pass it as a parameter, so the index might not match.
        Index("ix_attempts_untold", "created_at", sqlite_where=text("told IS 0"), postgresql_where=text("told IS false")),
        Index(
            "ix_attempts_unforgotten",
            "created_at",
            sqlite_where=text("forgotten IS 0"),
            postgresql_where=text("forgotten IS false"),
        ),
    )

    id: Mapped[str] = mapped_column(Words(32), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"))
    installation_id: Mapped[int] = mapped_column(ForeignKey("installations.id"), index=True)
    trigger: Mapped[str] = mapped_column(Words(16), index=True)  # automatic, command, fork
    head_sha: Mapped[str | None] = mapped_column(Words(64))
    head_branch: Mapped[str | None]
    automatic_sha: Mapped[str | None] = mapped_column(Words(64))
    running_sha: Mapped[str | None] = mapped_column(Words(64))
    number: Mapped[int | None]  # of the head's attempts, from 1; known when the head is

    status: Mapped[str] = mapped_column(Words(16))  # queued, running, waiting, ended
    outcome: Mapped[str | None] = mapped_column(Words(32))
    reason: Mapped[str | None]
    next_step: Mapped[str | None]
    cancel_outcome: Mapped[str | None] = mapped_column(Words(32))  # requested while it runs
    cancel_reason: Mapped[str | None]
    told: Mapped[bool] = mapped_column(default=False)  # GitHub shows the outcome, or never showed the start

    question: Mapped[str | None]  # an encoded `agent.contract.question.Question`; kept from the question until the attempt ends
    asking: Mapped[str | None] = mapped_column(Words(64))  # identifies the question that the reply answers
    reply: Mapped[str | None]  # an encoded `agent.contract.question.Reply`; kept, as only the graph knows when it is used
    answered_at: Mapped[datetime | None]

    forked_from: Mapped[str | None] = mapped_column(ForeignKey("attempts.id"), index=True)
    from_iteration: Mapped[int | None]  # the first iteration that the fork runs itself
    model: Mapped[str | None]  # chosen by a person for this attempt
    forgotten: Mapped[bool] = mapped_column(default=False, server_default=false())  # its checkpoints were dropped

    tries: Mapped[int] = mapped_column(default=0)
    last_error: Mapped[str | None]
    lease_owner: Mapped[str | None]
    lease_token: Mapped[int] = mapped_column(default=0)  # incremented by every claim; fences the writes of a lost lease
    lease_expires_at: Mapped[datetime | None]
    due_at: Mapped[datetime | None]  # when a postponed attempt may be claimed again
    heartbeat_at: Mapped[datetime | None]

    pull_request_id: Mapped[int | None] = mapped_column(ForeignKey("pull_requests.id"))
    confidence: Mapped[float | None]  # of the repair, 0..1, to compare with whether the pull request is merged
    event_count: Mapped[int] = mapped_column(default=0)
    tokens_in: Mapped[int] = mapped_column(default=0)
    tokens_out: Mapped[int] = mapped_column(default=0)
    calls: Mapped[int] = mapped_column(default=0)
    cost: Mapped[float | None] = mapped_column(default=0.0)
    person: Mapped[str | None]  # login of who commanded it, in lower case
    admitted_at: Mapped[datetime | None] = mapped_column(index=True)  # quotas count it on this day (UTC)
    tokens_reserved: Mapped[int | None]  # what it may spend at most; None until its quotas are checked, 0 once it ended
    cost_reserved: Mapped[float | None] = mapped_column(Double)
    created_at: Mapped[datetime] = mapped_column(index=True)
    started_at: Mapped[datetime | None]
    gathered_at: Mapped[datetime | None]  # when it knew all failing runs; it does not see later ones
    ended_at: Mapped[datetime | None]
    outdated_at: Mapped[datetime | None]  # when GitHub showed that nothing is left to do

    repository: Mapped[RepositoryRow] = relationship(lazy="raise")
    requests: Mapped[list[RequestRow]] = relationship(lazy="raise", order_by="RequestRow.id")
    pull_request: Mapped[PullRequestRow | None] = relationship(lazy="raise")


class RequestRow(Base):
    """A trigger of an attempt; an automatic one may have many (failing runs of its head)."""

    __tablename__ = "requests"
    __table_args__ = (
        # A comment is one command, even if delivered under several GUIDs. A fork's requests have no comment.
        Index(
            "uq_requests_comment_id",
            "comment_id",
            unique=True,
            sqlite_where=text("comment_id IS NOT NULL"),
            postgresql_where=text("comment_id IS NOT NULL"),
        ),
    )

    id: Mapped[int] = mapped_column(_Serial, primary_key=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"), index=True)
    source: Mapped[str] = mapped_column(Words(16))
    head_branch: Mapped[str | None]  # that it names; of a command, the attempt has it
    run_id: Mapped[int | None]
    run_attempt: Mapped[int | None]
    workflow_id: Mapped[int | None]  # of a run that a pull request started
    check_run_id: Mapped[int | None]
    check_suite_id: Mapped[int | None]
    pull_number: Mapped[int | None]
    comment_id: Mapped[int | None]
    sender: Mapped[str | None]
    title: Mapped[str]
    flaky: Mapped[bool] = mapped_column(default=False, server_default=false())  # repair flaky failures too
    created_at: Mapped[datetime]


class CommandRow(Base):
    """A `/heal` comment. It becomes an attempt, or part of one, once its author's permission is known."""

    __tablename__ = "commands"
    __table_args__ = (
        Index(
            "ix_commands_undecided",
            "repository_id",
            "pull_number",
            sqlite_where=text("decided_at IS NULL"),
            postgresql_where=text("decided_at IS NULL"),
        ),
    )

    comment_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"))
    installation_id: Mapped[int]
    pull_number: Mapped[int]
    guid: Mapped[str] = mapped_column(Words(64))  # of its delivery
    sender: Mapped[str]
    title: Mapped[str]
    flaky: Mapped[bool]
    created_at: Mapped[datetime]
    due_at: Mapped[datetime | None]  # when a postponed lookup may be tried again
    decided_at: Mapped[datetime | None]


class RerunRow(Base):
    """A workflow run whose failed jobs are rerun; written before the request to GitHub, so that it is sent only once."""

    __tablename__ = "reruns"

    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"), primary_key=True)
    run_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"))
    created_at: Mapped[datetime]


class LookRow(Base):
    """A regular look at GitHub, which one worker takes for all (`app/store/looks.py`)."""

    __tablename__ = "looks"

    name: Mapped[str] = mapped_column(Words(32), primary_key=True)
    worker: Mapped[str]  # that took the last one; "" once it failed
    began_at: Mapped[datetime]  # the last one
    known_until: Mapped[datetime | None]  # all that it reads is known until then


class EventRow(Base):
    """An event of an attempt's timeline; append-only."""

    __tablename__ = "events"

    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"), primary_key=True)
    sequence: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    at: Mapped[datetime]
    body: Mapped[str]


class BlobRow(Base):
    """File contents by SHA-256."""

    __tablename__ = "blobs"

    sha256: Mapped[str] = mapped_column(Words(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)
    created_at: Mapped[datetime] = mapped_column(
        index=True
    )  # or when stored again; blobs older than every kept attempt are dropped


class MeterRow(Base):
    """A counter with up to two labels (`app/store/figures.py`)."""

    __tablename__ = "meters"

    name: Mapped[str] = mapped_column(String(32), primary_key=True)
    label: Mapped[str] = mapped_column(String(100), primary_key=True)
    detail: Mapped[str] = mapped_column(String(32), primary_key=True)
    value: Mapped[float] = mapped_column(Double)


class MemoryRow(Base):
    """The lessons of one attempt for later attempts of its repository."""

    __tablename__ = "memories"

    id: Mapped[int] = mapped_column(_Serial, primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"), index=True)
    attempt_id: Mapped[str] = mapped_column(ForeignKey("attempts.id"), unique=True)
    signature: Mapped[str]  # words that identify the failure
    outcome: Mapped[str] = mapped_column(Words(32))
    lessons: Mapped[list[str]] = mapped_column(JSON)
    title: Mapped[str]
    diff: Mapped[str]
    embedding: Mapped[bytes | None] = mapped_column(LargeBinary)  # of the signature: float32, little-endian
    embedded_by: Mapped[str | None]  # the model's name: vectors of different models are not compared
    created_at: Mapped[datetime]


class PullRequestRow(Base):
    """One of our pull requests. Each head has at most one, whichever attempt opened it."""

    __tablename__ = "pull_requests"
    __table_args__ = (UniqueConstraint("repository_id", "number"), UniqueConstraint("repository_id", "head_sha"))

    id: Mapped[int] = mapped_column(_Serial, primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("repositories.id"))
    head_sha: Mapped[str] = mapped_column(Words(64))  # the failing commit
    number: Mapped[int]
    branch: Mapped[str]
    url: Mapped[str]
    state: Mapped[str] = mapped_column(Words(16), default="open")  # open, closed, merged
    created_at: Mapped[datetime]
