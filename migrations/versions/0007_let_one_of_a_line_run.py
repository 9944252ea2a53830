"""Let one of a line run: operations of an action and user with overlap: queue."""

from __future__ import annotations

from migrations.live_indexes import LiveIndex

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: it adds indexes.
compatible_from = "0001"

#: Indexes of large tables: see migrations/live_indexes.py.
LIVE_INDEXES = (
    LiveIndex(
        "uq_operations_line_claimed",
        "operations",
        "action_uid",
        "overlap = 'queue' AND claim_token IS NOT NULL AND user_id IS NULL",
        unique=True,
    ),
    LiveIndex(
        "uq_operations_user_line_claimed",
        "operations",
        "action_uid, user_id",
        "overlap = 'queue' AND claim_token IS NOT NULL",
        unique=True,
    ),
)


def upgrade() -> None:
    """Make the indexes, unless they were made ahead."""
    for index in LIVE_INDEXES:
        index.create()
