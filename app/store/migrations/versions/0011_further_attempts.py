"""further attempts of a commit for failures that its earlier attempts did not see"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("requests", sa.Column("run_attempt", sa.BigInteger(), nullable=True))
    op.add_column("attempts", sa.Column("gathered_at", sa.DateTime(timezone=True), nullable=True))
