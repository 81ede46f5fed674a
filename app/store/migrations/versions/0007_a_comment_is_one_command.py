"""a comment is one command, even if it is delivered under two GUIDs at once"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"

# If one comment has several requests, only the first keeps the comment's id; the attempts of the others stay as history.
_NAMED_ONCE = """
UPDATE requests SET comment_id = NULL WHERE comment_id IS NOT NULL AND EXISTS (
    SELECT 1 FROM requests AS earlier WHERE earlier.comment_id = requests.comment_id AND earlier.id < requests.id
)
"""


def upgrade() -> None:
    op.execute(_NAMED_ONCE)
    named = sa.text("comment_id IS NOT NULL")
    op.create_index(
        "uq_requests_comment_id", "requests", ["comment_id"], unique=True, sqlite_where=named, postgresql_where=named
    )
