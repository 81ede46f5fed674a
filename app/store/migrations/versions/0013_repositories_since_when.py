"""since when a repository is known, and since when GitHub makes no check suites of ours for it by itself"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.add_column("repositories", sa.Column("known_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("repositories", sa.Column("suites_stopped_at", sa.DateTime(timezone=True), nullable=True))
    op.execute("UPDATE repositories SET known_at = updated_at")
