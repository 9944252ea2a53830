"""Vacuum sooner what turns over, on PostgreSQL."""

from __future__ import annotations

from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: none reads it.
compatible_from = "0001"

_TABLES = (
    *("scheduled_actions", "scheduled_action_revisions", "events", "operations"),
    *("operation_steps", "task_waits", "deliveries", "mail_contents", "operation_log"),
)


def upgrade() -> None:
    """Set it; nobody who reads or writes waits for that."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for table in _TABLES:
        op.execute(
            f"ALTER TABLE {table} SET (autovacuum_vacuum_scale_factor = 0.02,"
            " autovacuum_analyze_scale_factor = 0.02)"
        )
