"""stored counters, and an index from an attempt to the deliveries that caused it"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.create_table(
        "meters",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("label", sa.String(length=100), nullable=False),
        sa.Column("detail", sa.String(length=32), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.PrimaryKeyConstraint("name", "label", "detail", name=op.f("pk_meters")),
    )
    op.create_index(op.f("ix_deliveries_attempt_id"), "deliveries", ["attempt_id"])
