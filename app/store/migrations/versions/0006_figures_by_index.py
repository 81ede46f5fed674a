"""indexes for counting the figures, because the tables only grow"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_index(op.f("ix_deliveries_decision"), "deliveries", ["decision"])
    op.create_index(op.f("ix_attempts_trigger"), "attempts", ["trigger"])
    op.create_index("ix_attempts_status_outcome", "attempts", ["status", "outcome"])
