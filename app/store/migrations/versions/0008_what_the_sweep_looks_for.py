"""indexes for the rows that the sweep and the deletion of old checkpoints look for"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for flag in ("told", "forgotten"):
        op.create_index(
            f"ix_attempts_un{flag}",
            "attempts",
            ["created_at"],
            sqlite_where=sa.text(f"{flag} IS 0"),
            postgresql_where=sa.text(f"{flag} IS false"),
        )
    op.create_index(op.f("ix_blobs_created_at"), "blobs", ["created_at"])
