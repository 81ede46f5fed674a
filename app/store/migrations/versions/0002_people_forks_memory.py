"""questions to people, forks, confidence, memory"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Column by column: SQLite would recreate the whole table for a constraint, and other tables refer to its rows.
    op.add_column("attempts", sa.Column("question", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("asking", sa.String(length=64), nullable=True))
    op.add_column("attempts", sa.Column("reply", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("answered_at", sa.DateTime(timezone=True), nullable=True))
    fork = sa.ForeignKey("attempts.id", name=op.f("fk_attempts_forked_from_attempts"))
    op.add_column("attempts", sa.Column("forked_from", sa.String(length=32), fork, nullable=True), inline_references=True)
    op.add_column("attempts", sa.Column("from_iteration", sa.BigInteger(), nullable=True))
    op.add_column("attempts", sa.Column("model", sa.Text(), nullable=True))
    op.add_column("attempts", sa.Column("confidence", sa.Float(), nullable=True))
    op.add_column("attempts", sa.Column("forgotten", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_index("ix_attempts_forked_from", "attempts", ["forked_from"], unique=False)
    op.create_table(
        "memories",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("repository_id", sa.BigInteger(), nullable=False),
        sa.Column("attempt_id", sa.String(length=32), nullable=False),
        sa.Column("signature", sa.Text(), nullable=False),
        sa.Column("outcome", sa.String(length=32), nullable=False),
        sa.Column("lessons", sa.JSON(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("diff", sa.Text(), nullable=False),
        sa.Column("embedding", sa.LargeBinary(), nullable=True),
        sa.Column("embedded_by", sa.Text(), nullable=True),
        sa.Column("created_at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["attempt_id"], ["attempts.id"], name=op.f("fk_memories_attempt_id_attempts")),
        sa.ForeignKeyConstraint(["repository_id"], ["repositories.id"], name=op.f("fk_memories_repository_id_repositories")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_memories")),
        sa.UniqueConstraint("attempt_id", name=op.f("uq_memories_attempt_id")),
    )
    op.create_index("ix_memories_repository_id", "memories", ["repository_id"], unique=False)
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE memory_words USING fts5(signature, tokenize = \"unicode61 tokenchars '_'\")")
    # An attempt's lessons are now stored with its memory.
    op.drop_index("ix_lessons_repository_id", "lessons")
    op.drop_index("ix_lessons_attempt_id", "lessons")
    op.drop_table("lessons")
