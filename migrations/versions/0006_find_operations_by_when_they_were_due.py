"""Find operations by when they were due, also those recorded at another time."""

from __future__ import annotations

from migrations.live_indexes import LiveIndex

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: it adds an index.
compatible_from = "0001"

#: Indexes of large tables: see migrations/live_indexes.py.
LIVE_INDEXES = (
    LiveIndex(
        "ix_operations_recorded_apart",
        "operations",
        "occurrence",
        "(recorded_at < occurrence OR recorded_at - occurrence > '01:00:00'::interval)",
        "(recorded_at < occurrence OR recorded_at > datetime(occurrence, '+1 hour'))",
    ),
)


def upgrade() -> None:
    """Make the index, unless it was made ahead."""
    for index in LIVE_INDEXES:
        index.create()
