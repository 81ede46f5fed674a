"""memories without an index of their words"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.execute("DROP TABLE memory_words")
