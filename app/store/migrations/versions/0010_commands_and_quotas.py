"""commands that wait for their author's permission, and what quotas count"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"

_STARTED = "UPDATE attempts SET admitted_at = created_at WHERE started_at IS NOT NULL"


def upgrade() -> None:
    op.create_table(
        "commands",
        sa.Column("comment_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("installation_id", sa.BigInteger(), nullable=False),
        sa.Column("pull_number", sa.BigInteger(), nullable=False),
        sa.Column("guid", sa.String(length=64), nullable=False),
        sa.Column("sender", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("flaky", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("due_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("decided_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name=op.f("fk_commands_repository_id_repositories")),
        sa.PrimaryKeyConstraint("comment_id", name=op.f("pk_commands")),
    )
    undecided = sa.text("decided_at IS NULL")
    op.create_index(
        "ix_commands_undecided",
        "commands",
        ["repository_id", "pull_number"],
        sqlite_where=undecided,
        postgresql_where=undecided,
    )
    op.add_column("attempts", sa.Column("person", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("admitted_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("attempts", sa.Column("tokens_reserved", sa.BigInteger(), nullable=True))
    op.add_column("attempts", sa.Column("cost_reserved", sa.Double(), nullable=True))
    op.create_index(op.f("ix_attempts_admitted_at"), "attempts", ["admitted_at"])
    op.execute(_STARTED)
