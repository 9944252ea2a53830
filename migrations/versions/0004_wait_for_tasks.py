"""Wait for the end of tasks of users' own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from models.database.engine import Identifier, Json, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: it adds a table.
compatible_from = "0001"


def upgrade() -> None:
    """Make the table of what is waited for."""
    op.create_table(
        "task_waits",
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("token", Identifier, nullable=False),
        sa.Column("connection", sa.Text(), nullable=True),
        sa.Column("queue", sa.Text(), nullable=True),
        sa.Column("task", sa.Text(), nullable=False),
        sa.Column("deadline", UtcDateTime, nullable=False),
        sa.Column("sent_at", UtcDateTime, nullable=True),
        sa.Column("answered_at", UtcDateTime, nullable=True),
        sa.Column("answer", Json, nullable=True),
        sa.Column("remark", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name=op.f("fk_task_waits_operation_id_operations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("operation_id", name=op.f("pk_task_waits")),
    )
    op.create_index("uq_task_waits_token", "task_waits", ["token"], unique=True)
    op.create_index(
        "ix_task_waits_open",
        "task_waits",
        ["deadline"],
        unique=False,
        postgresql_where=sa.text("answered_at IS NULL"),
        sqlite_where=sa.text("answered_at IS NULL"),
    )
