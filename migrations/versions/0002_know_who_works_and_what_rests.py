"""Know which installation this is, who works in it, and what rests, since when and why."""

from __future__ import annotations

from datetime import UTC, datetime
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from migrations.live_indexes import LiveColumn, LiveIndex
from models.database.engine import Identifier, Json, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this migration: it only adds
#: columns, and they may be null or have a default.
compatible_from = "0001"

#: Columns of tables that everybody uses; the indexes below need them.
LIVE_COLUMNS = (
    LiveColumn("operations", "lane", sa.SmallInteger(), default="0"),
    LiveColumn("operations", "kills", sa.Integer(), default="0"),
    LiveColumn("operations", "noticed_at", UtcDateTime),
    LiveColumn("deliveries", "resolved_by", sa.Text()),
    LiveColumn("deliveries", "resolved_at", UtcDateTime),
)

#: Indexes of large tables: see migrations/live_indexes.py.
LIVE_INDEXES = (
    LiveIndex(
        "ix_operations_troubled",
        "operations",
        "finished_at",
        "state IN ('failed', 'missed')",
    ),
    LiveIndex(
        "ix_operations_pending_manual",
        "operations",
        "send_at",
        "state = 'pending' AND trigger = 'manual'",
    ),
    LiveIndex(
        "ix_operations_first_lane",
        "operations",
        "app",
        "queue = 'quick' AND lane = 0 AND (state = 'queued' OR claim_token IS NOT NULL)",
    ),
    LiveIndex(
        "ix_deliveries_uncertain", "deliveries", "updated_at", "state = 'uncertain'"
    ),
)


def upgrade() -> None:
    _make_tables()
    _add_columns()
    for column in LIVE_COLUMNS:
        column.create()
    for index in LIVE_INDEXES:
        index.create()
    _add_indexes()
    _forget_passwords()


def _make_tables() -> None:
    installation = op.create_table(
        "installation",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("compatible_from", sa.Text(), nullable=True),
        sa.Column("paused_at", UtcDateTime, nullable=True),
        sa.Column("paused_until", UtcDateTime, nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=True),
        sa.Column("pause_note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.bulk_insert(installation, [{"id": uuid4(), "created_at": datetime.now(UTC)}])
    op.create_table(
        "strangers",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("worker", sa.Text(), nullable=False),
        sa.Column("seen_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("queue", "reason", "name", name=op.f("pk_strangers")),
    )
    op.create_table(
        "processes",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("revision", sa.Text(), nullable=False),
        sa.Column("queues", Json, nullable=False),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("settings", Json, nullable=False),
        sa.Column("clock_skew_s", sa.Float(), nullable=True),
        sa.Column("free_bytes", sa.BigInteger(), nullable=True),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("heartbeat_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "leaderships",
        sa.Column("fence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("acquired_at", UtcDateTime, nullable=False),
        sa.Column("released_at", UtcDateTime, nullable=True),
        sa.PrimaryKeyConstraint("fence", name=op.f("pk_leaderships")),
    )
    op.create_table(
        "breakers",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("since", UtcDateTime, nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("retry_at", UtcDateTime, nullable=False),
        sa.Column("error", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_breakers")),
    )
    _make_notices()


def _make_notices() -> None:
    op.create_table(
        "notices",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("cause_key", sa.Text(), nullable=False),
        sa.Column("cause", sa.Text(), nullable=False),
        sa.Column("opened_at", UtcDateTime, nullable=False),
        sa.Column("last_at", UtcDateTime, nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("untold", sa.Integer(), nullable=False),
        sa.Column("told_at", UtcDateTime, nullable=True),
        sa.Column("tellings", sa.Integer(), server_default="0", nullable=False),
        sa.Column("actions", Json, nullable=False),
        sa.Column("examples", Json, nullable=False),
        sa.Column("closed_at", UtcDateTime, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    is_open = sa.text("closed_at IS NULL")
    op.create_index(
        "uq_notices_open",
        "notices",
        ["scope", "kind", "cause_key"],
        unique=True,
        postgresql_where=is_open,
        sqlite_where=is_open,
    )
    op.add_column("leases", sa.Column("noticed_until", UtcDateTime))


def _add_columns() -> None:
    op.add_column("small_apps", sa.Column("source_folder", sa.Text()))
    op.add_column("small_apps", sa.Column("notices", Json))
    for table in ("small_apps", "scheduled_actions"):
        op.add_column(table, sa.Column("paused_until", UtcDateTime))
        op.add_column(table, sa.Column("paused_by", sa.Text()))
        op.add_column(table, sa.Column("pause_note", sa.Text()))
    op.add_column("small_apps", sa.Column("paused_at", UtcDateTime))
    op.add_column("scheduled_actions", sa.Column("pause_scope", sa.Text()))
    op.add_column("scheduled_action_revisions", sa.Column("changed_by", sa.Text()))
    op.add_column("scheduled_action_revisions", sa.Column("note", sa.Text()))


def _add_indexes() -> None:
    """Make the indexes of small tables, which are locked anyway."""
    for table in ("small_apps", "scheduled_actions"):
        where = "paused_until IS NOT NULL"
        op.create_index(
            f"ix_{table}_paused_until",
            table,
            ["paused_until"],
            unique=False,
            postgresql_where=sa.text(where),
            sqlite_where=sa.text(where),
        )


def _forget_passwords() -> None:
    # Sources now name connections of the operator. The addresses that they had may
    # contain passwords, and nothing uses them any more.
    if op.get_bind().dialect.name == "postgresql":
        op.execute(
            "UPDATE domains SET source = source - 'database'"
            " WHERE jsonb_exists(source, 'database')"
        )
    else:
        op.execute(
            "UPDATE domains SET source = json_remove(source, '$.database')"
            " WHERE json_extract(source, '$.database') IS NOT NULL"
        )
