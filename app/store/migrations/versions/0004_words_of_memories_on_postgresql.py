"""words of memories on PostgreSQL"""

from __future__ import annotations

from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    if op.get_bind().dialect.name != "postgresql":
        return
    op.execute(
        "CREATE TABLE memory_words (id bigint PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE, words tsvector NOT NULL)"
    )
    op.execute("CREATE INDEX memory_words_words ON memory_words USING gin (words)")
