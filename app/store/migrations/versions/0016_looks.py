"""who looks regularly at GitHub for all workers, and how far what is looked at is known"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.create_table(
        "looks",
        sa.Column("name", sa.String(32), primary_key=True),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("began_at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("known_until", sa.DateTime(timezone=True), nullable=True),
    )
