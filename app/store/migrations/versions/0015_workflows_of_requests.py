"""the workflow of each failing run: at one commit, its first failure is news, and its further runs are not"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("requests", sa.Column("workflow_id", sa.BigInteger(), nullable=True))
