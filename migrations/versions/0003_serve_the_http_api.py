"""Serve the HTTP API: keys, the record of changes, bulk changes, backfills, logs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from migrations.live_indexes import LiveColumn, LiveIndex
from models.database.engine import Identifier, Json, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this: it adds tables, and columns
#: that may be null or have a default; the unique index is of a new column alone.
compatible_from = "0001"

#: Of tables that all use: see migrations/live_indexes.py.
LIVE_COLUMNS = (
    LiveColumn("deliveries", "app", sa.Text()),
    LiveColumn("deliveries", "content", sa.Text()),
)

_UNSUCCESSFUL = "state IN ('failed', 'canceled', 'skipped', 'missed')"

#: Indexes of large tables: see migrations/live_indexes.py.
LIVE_INDEXES = (
    LiveIndex("ix_operations_unsuccessful", "operations", "recorded_at", _UNSUCCESSFUL),
    LiveIndex(
        "ix_operations_app_unsuccessful",
        "operations",
        "app, recorded_at",
        _UNSUCCESSFUL,
    ),
    LiveIndex(
        "ix_operations_action_unsuccessful",
        "operations",
        "action_uid, occurrence, state",
        _UNSUCCESSFUL,
    ),
    LiveIndex("ix_operations_app_recorded_at", "operations", "app, recorded_at"),
    LiveIndex(
        "ix_users_may_be_left_out",
        "users",
        "app, id",
        "(disabled OR expires_at IS NOT NULL OR activated_at IS NULL)",
    ),
    LiveIndex("ix_events_app_recorded_at", "events", "app, recorded_at, id"),
    LiveIndex("ix_events_recorded_at", "events", "recorded_at, id"),
    LiveIndex("ix_deliveries_updated_at", "deliveries", "updated_at"),
    LiveIndex("ix_deliveries_app_updated_at", "deliveries", "app, updated_at"),
    LiveIndex(
        "ix_deliveries_failed", "deliveries", "app, updated_at", "state = 'failed'"
    ),
    LiveIndex("ix_deliveries_content", "deliveries", "content", "content IS NOT NULL"),
    LiveIndex(
        "ix_operations_app_troubled",
        "operations",
        "app, finished_at",
        "state IN ('failed', 'missed')",
    ),
    LiveIndex(
        "ix_scheduled_actions_idle",
        "scheduled_actions",
        "app, name, paused_at, quarantined_at",
        "deleted_at IS NULL AND"
        " (paused_at IS NOT NULL OR quarantined_at IS NOT NULL OR NOT active)",
    ),
    LiveIndex(
        "ix_scheduled_actions_deleted",
        "scheduled_actions",
        "app, name",
        "deleted_at IS NOT NULL",
    ),
)


def upgrade() -> None:
    _make_tables()
    _add_columns()
    for column in LIVE_COLUMNS:
        column.create()
    for index in LIVE_INDEXES:
        index.create()


def _make_tables() -> None:
    op.create_table(
        "backfills",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("action_uid", sa.Text(), nullable=False),
        sa.Column("from_at", UtcDateTime, nullable=False),
        sa.Column("until_at", UtcDateTime, nullable=False),
        sa.Column("which", sa.Text(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("at_once", sa.Integer(), nullable=False),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("canceled_at", UtcDateTime, nullable=True),
        sa.Column("canceled_by", sa.Text(), nullable=True),
        sa.Column("finished_at", UtcDateTime, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfills")),
    )
    op.create_index(
        "ix_backfills_action_uid_created_at",
        "backfills",
        ["action_uid", "created_at"],
        unique=False,
    )
    op.create_index(
        "ix_backfills_open",
        "backfills",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
        sqlite_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "bulk_changes",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("app", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("filter", Json, nullable=False),
        sa.Column("arguments", Json, nullable=True),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("refused", Json, nullable=True),
        sa.Column("position", Json, nullable=True),
        sa.Column("claim_token", Identifier, nullable=True),
        sa.Column("lease_expires_at", UtcDateTime, nullable=True),
        sa.Column("canceled_at", UtcDateTime, nullable=True),
        sa.Column("finished_at", UtcDateTime, nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bulk_changes")),
    )
    op.create_index(
        "ix_bulk_changes_created_at", "bulk_changes", ["created_at"], unique=False
    )
    op.create_index(
        "ix_bulk_changes_open",
        "bulk_changes",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("finished_at IS NULL"),
        sqlite_where=sa.text("finished_at IS NULL"),
    )
    op.create_table(
        "change_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_head")),
    )
    op.create_table(
        "changes",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("request_id", sa.Text(), nullable=True),
        sa.Column("app", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("before", Json, nullable=True),
        sa.Column("after", Json, nullable=True),
        sa.Column("note", sa.Text(), nullable=True),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_changes")),
    )
    for columns in (
        ["at", "number"],
        ["app", "at", "number"],
        ["by", "at", "number"],
        ["kind", "subject", "at", "number"],
    ):
        name = f"ix_changes_{'_'.join(columns)}"
        op.create_index(name, "changes", columns, unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("status", sa.Integer(), nullable=True),
        sa.Column("headers", Json, nullable=True),
        sa.Column("body", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_index(
        "ix_idempotency_keys_created_at",
        "idempotency_keys",
        ["created_at"],
        unique=False,
    )
    op.create_table(
        "mail_contents",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=True),
        sa.Column("html", sa.Text(), nullable=True),
        sa.Column("used_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_mail_contents")),
    )
    op.create_index(
        "ix_mail_contents_used_at", "mail_contents", ["used_at"], unique=False
    )
    op.create_table(
        "queue_pauses",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("paused_at", UtcDateTime, nullable=False),
        sa.Column("paused_until", UtcDateTime, nullable=True),
        sa.Column("paused_by", sa.Text(), nullable=True),
        sa.Column("pause_note", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("queue", name=op.f("pk_queue_pauses")),
    )
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("app", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.Column("used_at", UtcDateTime, nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_ins")),
    )
    op.create_index("ix_sign_ins_expires_at", "sign_ins", ["expires_at"], unique=False)
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=True),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=True),
        sa.Column("last_used_at", UtcDateTime, nullable=True),
        sa.Column("revoked_at", UtcDateTime, nullable=True),
        sa.Column("revoked_by", sa.Text(), nullable=True),
        sa.Column("replaces", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_api_keys_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    op.create_index("ix_api_keys_app", "api_keys", ["app"], unique=False)
    op.create_table(
        "backfill_occurrences",
        sa.Column("backfill_id", Identifier, nullable=False),
        sa.Column("occurrence", UtcDateTime, nullable=False),
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["backfill_id"],
            ["backfills.id"],
            name=op.f("fk_backfill_occurrences_backfill_id_backfills"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "backfill_id", "occurrence", name=op.f("pk_backfill_occurrences")
        ),
    )
    op.create_index(
        "ix_backfill_occurrences_waiting",
        "backfill_occurrences",
        ["backfill_id", "occurrence"],
        unique=False,
        postgresql_where=sa.text("outcome IS NULL"),
        sqlite_where=sa.text("outcome IS NULL"),
    )
    op.create_table(
        "operation_log",
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text(), nullable=True),
        sa.Column("level", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name=op.f("fk_operation_log_operation_id_operations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "operation_id", "number", name=op.f("pk_operation_log")
        ),
    )
    head = sa.table(
        "change_head",
        sa.column("id", sa.Integer),
        sa.column("number", sa.BigInteger),
        sa.column("hash", sa.Text),
    )
    op.execute(sa.insert(head).values(id=1, number=0, hash="0" * 64))


def _add_columns() -> None:
    op.add_column("events", sa.Column("source", sa.Text(), nullable=True))
    op.add_column("events", sa.Column("source_id", sa.Text(), nullable=True))
    op.create_index(
        "uq_events_source",
        "events",
        ["app", "source", "source_id"],
        unique=True,
        postgresql_where=sa.text("source IS NOT NULL"),
        sqlite_where=sa.text("source IS NOT NULL"),
    )
    op.add_column(
        "small_apps",
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
    )
    op.add_column("small_apps", sa.Column("deleted_at", UtcDateTime, nullable=True))
    op.add_column("processes", sa.Column("drain_asked_at", UtcDateTime, nullable=True))
    op.add_column("processes", sa.Column("drain_asked_by", sa.Text(), nullable=True))
