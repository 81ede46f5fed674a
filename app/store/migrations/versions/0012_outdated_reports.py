"""reports of attempts that need nobody any more"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("attempts", sa.Column("outdated_at", sa.DateTime(timezone=True), nullable=True))
