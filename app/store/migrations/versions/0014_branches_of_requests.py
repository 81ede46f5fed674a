"""the branch that each trigger names: one commit can have several, and the name of a tag looks the same"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("requests", sa.Column("head_branch", sa.Text(), nullable=True))
