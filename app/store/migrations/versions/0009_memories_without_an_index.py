"""memories without an index of their words"""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.execute("DROP TABLE memory_words")


def downgrade() -> None:
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE memory_words USING fts5(signature, tokenize = \"unicode61 tokenchars '_'\")")
        op.execute("INSERT INTO memory_words (rowid, signature) SELECT id, signature FROM memories")
        return
    op.execute(
        "CREATE TABLE memory_words (id bigint PRIMARY KEY REFERENCES memories (id) ON DELETE CASCADE, words tsvector NOT NULL)"
    )
    op.execute("CREATE INDEX memory_words_words ON memory_words USING gin (words)")
    op.execute("INSERT INTO memory_words (id, words) SELECT id, to_tsvector('simple', signature) FROM memories")
