"""requests to repair flakiness, reruns of failed jobs"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("requests", sa.Column("flaky", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "reruns",
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("run_id", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("attempt_id", sa.String(length=32), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_reruns_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name=op.f("fk_reruns_repository_id_repositories")),
        sa.PrimaryKeyConstraint("repository_id", "run_id", name=op.f("pk_reruns")),
    )
