"""Make the first schema."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from secrets import token_hex
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

from models.database.engine import Identifier, Json, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

#: The oldest schema whose programs go on working after this.
compatible_from = "0001"

#: On PostgreSQL, of tables that turn over.
_VACUUM_SOONER = {
    "autovacuum_vacuum_scale_factor": 0.02,
    "autovacuum_analyze_scale_factor": 0.02,
}


def upgrade() -> None:
    _make_apps()
    _make_actions()
    _make_operations()
    _make_fleet()
    _make_access()
    _add_rows()


def _index(
    name: str,
    table: str,
    columns: Sequence[str | sa.TextClause],
    *,
    where: str | None = None,
    on_sqlite: str | None = None,
    unique: bool = False,
) -> None:
    """Make an index; *on_sqlite* is its condition where SQLite has other words."""
    on_sqlite = on_sqlite or where
    op.create_index(
        name,
        table,
        columns,
        unique=unique,
        postgresql_where=None if where is None else sa.text(where),
        sqlite_where=None if on_sqlite is None else sa.text(on_sqlite),
    )


def _add_rows() -> None:
    """Say which installation this is, and begin the record of changes."""
    installation = sa.table(
        "installation",
        sa.column("id", Identifier),
        sa.column("created_at", UtcDateTime),
        sa.column("secret", sa.Text),
    )
    new = {"id": uuid4(), "created_at": datetime.now(UTC), "secret": token_hex(32)}
    op.execute(sa.insert(installation).values(new))
    head = sa.table(
        "change_head",
        sa.column("id", sa.Integer),
        sa.column("number", sa.BigInteger),
        sa.column("hash", sa.Text),
    )
    op.execute(sa.insert(head).values(id=1, number=0, hash="0" * 64))


def _make_apps() -> None:
    """Small apps, and what each has."""
    op.create_table(
        "small_apps",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("timezone", sa.Text()),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("source_folder", sa.Text()),
        sa.Column("notices", Json),
        sa.Column("paused_until", UtcDateTime),
        sa.Column("paused_by", sa.Text()),
        sa.Column("pause_note", sa.Text()),
        sa.Column("paused_at", UtcDateTime),
        sa.Column("spread", Json),
        sa.Column("revision", sa.Integer(), server_default="1", nullable=False),
        sa.Column("deleted_at", UtcDateTime),
        sa.Column("mail", Json),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_small_apps")),
    )
    _index(
        "ix_small_apps_paused_until",
        "small_apps",
        ["paused_until"],
        where="paused_until IS NOT NULL",
    )
    _index("ix_small_apps_spread", "small_apps", ["uid"], where="spread IS NOT NULL")
    op.create_table(
        "users",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("email", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("locale", sa.Text()),
        sa.Column("disabled", sa.Boolean(), nullable=False),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("created_at", UtcDateTime),
        sa.Column("activated_at", UtcDateTime),
        sa.Column("last_seen_at", UtcDateTime),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_users_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("app", "id", name=op.f("pk_users")),
    )
    _index(
        "ix_users_may_be_left_out",
        "users",
        ["app", "id"],
        where="(disabled OR expires_at IS NOT NULL OR activated_at IS NULL)",
    )
    op.create_table(
        "memberships",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("group_name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["app", "user_id"],
            ["users.app", "users.id"],
            name=op.f("fk_memberships_app_users"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "app", "group_name", "user_id", name=op.f("pk_memberships")
        ),
    )
    op.create_table(
        "templates",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("html", sa.Text()),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_templates_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("app", "name", name=op.f("pk_templates")),
    )
    op.create_table(
        "holidays",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("days", Json, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_holidays_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("app", "name", "version", name=op.f("pk_holidays")),
    )
    op.create_table(
        "app_documents",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),
        sa.Column("staged", Json),
        sa.Column("live", Json),
        sa.Column("previous", Json),
        sa.Column("staged_at", UtcDateTime),
        sa.Column("published_at", UtcDateTime),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_app_documents_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("app", "part", name=op.f("pk_app_documents")),
    )
    op.create_table(
        "domains",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("source", Json, nullable=False),
        sa.Column("staged_version", sa.Integer()),
        sa.Column("live_version", sa.Integer()),
        sa.Column("previous_version", sa.Integer()),
        sa.Column("published_at", UtcDateTime),
        sa.Column("labels", Json),
        sa.Column("summarized", Json),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_domains_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("app", "name", name=op.f("pk_domains")),
    )
    op.create_table(
        "domain_versions",
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("domain", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("rows", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.Text(), nullable=False),
        sa.Column("source_digest", sa.Text()),
        sa.Column("etag", sa.Text()),
        sa.Column("last_modified", sa.Text()),
        sa.Column("operation_id", Identifier),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.ForeignKeyConstraint(
            ["app", "domain"],
            ["domains.app", "domains.name"],
            name=op.f("fk_domain_versions_app_domains"),
        ),
        sa.PrimaryKeyConstraint(
            "app", "domain", "version", name=op.f("pk_domain_versions")
        ),
    )
    op.create_table(
        "events",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("user_id", sa.Text(), nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("recorded_at", UtcDateTime, nullable=False),
        sa.Column("source", sa.Text()),
        sa.Column("source_id", sa.Text()),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_events_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_events")),
        postgresql_with=_VACUUM_SOONER,
    )
    _index("ix_events_app_name_at", "events", ["app", "name", "at"])
    _index("ix_events_app_name_recorded_at", "events", ["app", "name", "recorded_at"])
    _index("ix_events_app_recorded_at", "events", ["app", "recorded_at", "id"])
    _index("ix_events_app_user_name", "events", ["app", "user_id", "name"])
    _index("ix_events_recorded_at", "events", ["recorded_at", "id"])
    _index(
        "uq_events_source",
        "events",
        ["app", "source", "source_id"],
        where="source IS NOT NULL",
        unique=True,
    )


def _make_actions() -> None:
    """Scheduled actions, and what asks for runs of them."""
    op.create_table(
        "scheduled_actions",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("attempts_allowed", sa.Integer(), server_default="3", nullable=False),
        sa.Column("rest_after", sa.Integer()),
        sa.Column("pings", sa.Boolean(), server_default=sa.false(), nullable=False),
        sa.Column("expected_after_s", sa.Float()),
        sa.Column("timing", sa.Text()),
        sa.Column("event", sa.Text()),
        sa.Column("follows", sa.Text()),
        sa.Column("follows_on", sa.Text()),
        sa.Column("delay", sa.Text()),
        sa.Column("zone", sa.Text(), nullable=False),
        sa.Column("catch_up", sa.Text(), nullable=False),
        sa.Column("catch_up_within", sa.Text()),
        sa.Column("starts_at", UtcDateTime),
        sa.Column("ends_at", UtcDateTime),
        sa.Column("effective_from", UtcDateTime, nullable=False),
        sa.Column("next_due_at", UtcDateTime),
        sa.Column("wakes", sa.Integer(), server_default="0", nullable=False),
        sa.Column("woken_for", UtcDateTime),
        sa.Column("paused_at", UtcDateTime),
        sa.Column("quarantined_at", UtcDateTime),
        sa.Column("quarantine_reason", sa.Text()),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("deleted_at", UtcDateTime),
        sa.Column("paused_until", UtcDateTime),
        sa.Column("paused_by", sa.Text()),
        sa.Column("pause_note", sa.Text()),
        sa.Column("pause_scope", sa.Text()),
        sa.ForeignKeyConstraint(
            ["app"],
            ["small_apps.uid"],
            name=op.f("fk_scheduled_actions_app_small_apps"),
        ),
        sa.PrimaryKeyConstraint("uid", name=op.f("pk_scheduled_actions")),
        postgresql_with=_VACUUM_SOONER,
    )
    _index(
        "ix_scheduled_actions_deleted",
        "scheduled_actions",
        ["app", "name"],
        where="deleted_at IS NOT NULL",
    )
    _index(
        "ix_scheduled_actions_due",
        "scheduled_actions",
        ["next_due_at", "app", "queue"],
        where="next_due_at IS NOT NULL AND active AND paused_at IS NULL AND quarantined_at IS NULL AND deleted_at IS NULL",
    )
    _index(
        "ix_scheduled_actions_resting",
        "scheduled_actions",
        ["uid"],
        where="rest_after IS NOT NULL AND active AND paused_at IS NULL AND deleted_at IS NULL",
    )
    _index("ix_scheduled_actions_pings", "scheduled_actions", ["uid"], where="pings")
    _index(
        "ix_scheduled_actions_event",
        "scheduled_actions",
        ["app", "event"],
        where="event IS NOT NULL AND deleted_at IS NULL",
    )
    _index(
        "ix_scheduled_actions_follows",
        "scheduled_actions",
        ["follows"],
        where="follows IS NOT NULL AND deleted_at IS NULL",
    )
    _index(
        "ix_scheduled_actions_idle",
        "scheduled_actions",
        ["app", "name", "paused_at", "quarantined_at"],
        where="deleted_at IS NULL AND (paused_at IS NOT NULL OR quarantined_at IS NOT NULL OR NOT active)",
    )
    _index(
        "ix_scheduled_actions_paused_until",
        "scheduled_actions",
        ["paused_until"],
        where="paused_until IS NOT NULL",
    )
    _index(
        "uq_scheduled_actions_app_name",
        "scheduled_actions",
        ["app", "name"],
        where="deleted_at IS NULL",
        unique=True,
    )
    op.create_table(
        "scheduled_action_revisions",
        sa.Column("uid", sa.Text(), nullable=False),
        sa.Column("revision", sa.Integer(), nullable=False),
        sa.Column("document", Json, nullable=False),
        sa.Column("timing", sa.Text()),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("effective_from", UtcDateTime, nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("recorded_at", UtcDateTime, nullable=False),
        sa.Column("undecided_from", UtcDateTime),
        sa.Column("changed_by", sa.Text()),
        sa.Column("note", sa.Text()),
        sa.PrimaryKeyConstraint(
            "uid", "revision", name=op.f("pk_scheduled_action_revisions")
        ),
        postgresql_with=_VACUUM_SOONER,
    )
    op.create_table(
        "zones",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("version", sa.Text(), nullable=False),
        sa.Column("recorded_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_zones")),
    )
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
        sa.Column("note", sa.Text()),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("canceled_at", UtcDateTime),
        sa.Column("canceled_by", sa.Text()),
        sa.Column("finished_at", UtcDateTime),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_backfills")),
    )
    _index(
        "ix_backfills_action_uid_created_at", "backfills", ["action_uid", "created_at"]
    )
    _index(
        "ix_backfills_open", "backfills", ["created_at"], where="finished_at IS NULL"
    )
    op.create_table(
        "bulk_changes",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("app", sa.Text()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("filter", Json, nullable=False),
        sa.Column("arguments", Json),
        sa.Column("requested_by", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("request_id", sa.Text()),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("done", sa.Integer(), server_default="0", nullable=False),
        sa.Column("refused", Json),
        sa.Column("position", Json),
        sa.Column("claim_token", Identifier),
        sa.Column("lease_expires_at", UtcDateTime),
        sa.Column("canceled_at", UtcDateTime),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("error", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_bulk_changes")),
    )
    _index("ix_bulk_changes_created_at", "bulk_changes", ["created_at"])
    _index(
        "ix_bulk_changes_open",
        "bulk_changes",
        ["created_at"],
        where="finished_at IS NULL",
    )


def _make_operations() -> None:
    """Operations, and what came of them."""
    op.create_table(
        "operations",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("action_uid", sa.Text(), nullable=False),
        sa.Column("action_revision", sa.Integer(), nullable=False),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("trigger", sa.Text(), nullable=False),
        sa.Column("triggered_by", sa.Text(), nullable=False),
        sa.Column("occurrence", UtcDateTime),
        sa.Column("user_id", sa.Text()),
        sa.Column("event_at", UtcDateTime),
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("overlap", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text()),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("attempts_allowed", sa.Integer(), server_default="3", nullable=False),
        sa.Column("recorded_at", UtcDateTime, nullable=False),
        sa.Column("send_at", UtcDateTime, nullable=False),
        sa.Column("sent_at", UtcDateTime),
        sa.Column("sends", sa.Integer(), server_default="0", nullable=False),
        sa.Column("started_at", UtcDateTime),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("worker", sa.Text()),
        sa.Column("claim_token", Identifier),
        sa.Column("lease_expires_at", UtcDateTime),
        sa.Column("progress", Json),
        sa.Column("error", sa.Text()),
        sa.Column("details", Json),
        sa.Column("fence", sa.BigInteger()),
        sa.Column(
            "lane", sa.SmallInteger(), server_default=sa.text("0"), nullable=False
        ),
        sa.Column("kills", sa.Integer(), server_default=sa.text("0"), nullable=False),
        sa.Column("noticed_at", UtcDateTime),
        sa.Column("pinged", sa.SmallInteger()),
        sa.Column("ping_error", sa.Text()),
        sa.Column("expected_at", UtcDateTime),
        sa.Column("late", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_operations")),
        postgresql_with=_VACUUM_SOONER,
    )
    _index(
        "ix_operations_action_uid_occurrence",
        "operations",
        ["action_uid", "occurrence"],
    )
    _index(
        "ix_operations_action_unsuccessful",
        "operations",
        ["action_uid", "occurrence", "state"],
        where="state IN ('failed', 'canceled', 'skipped', 'missed')",
    )
    _index("ix_operations_app_recorded_at", "operations", ["app", "recorded_at"])
    _index(
        "ix_operations_app_troubled",
        "operations",
        ["app", "finished_at"],
        where="state IN ('failed', 'missed')",
    )
    _index(
        "ix_operations_app_unsuccessful",
        "operations",
        ["app", "recorded_at"],
        where="state IN ('failed', 'canceled', 'skipped', 'missed')",
    )
    _index(
        "ix_operations_awaiting",
        "operations",
        ["send_at"],
        where="state = 'pending' AND"
        " COALESCE(substr(reason, 1, 16), '') = 'waits for a task'",
    )
    _index(
        "ix_operations_tried_before",
        "operations",
        ["started_at"],
        where="state = 'pending' AND reason IS NOT NULL AND NOT"
        " COALESCE(substr(reason, 1, 16), '') = 'waits for a task'",
    )
    _index(
        "ix_operations_expected",
        "operations",
        ["expected_at"],
        where="expected_at IS NOT NULL",
    )
    _index(
        "ix_operations_first_lane",
        "operations",
        ["app", "trigger"],
        where="queue = 'quick' AND lane = 0 AND (state = 'queued' OR claim_token IS NOT NULL)",
    )
    _index(
        "ix_operations_heavy",
        "operations",
        ["app"],
        where="queue = 'heavy' AND (state = 'queued' OR claim_token IS NOT NULL)",
    )
    _index(
        "ix_operations_live",
        "operations",
        [
            "action_uid",
            sa.text("COALESCE(user_id, '')"),
            sa.text("CAST(claim_token IS NULL AS INTEGER)"),
            sa.text(
                "CAST(COALESCE(substr(reason, 1, 16), '') <> 'waits for a task'"
                " AS INTEGER)"
            ),
            "recorded_at",
            sa.text("COALESCE(occurrence, recorded_at)"),
            "id",
        ],
        where="(state IN ('pending', 'queued', 'running') OR claim_token IS NOT NULL)",
    )
    _index(
        "ix_operations_pending",
        "operations",
        [sa.text("CAST(overlap = 'queue' AS INTEGER)"), "send_at", "recorded_at"],
        where="state = 'pending'",
    )
    _index(
        "ix_operations_in_line",
        "operations",
        [sa.text("((action_uid || '/') || COALESCE(user_id, ''))")],
        where="state = 'pending' AND overlap = 'queue'",
    )
    _index(
        "ix_operations_pending_manual",
        "operations",
        ["send_at"],
        where="state = 'pending' AND trigger = 'manual' AND overlap <> 'queue'",
    )
    _index(
        "ix_operations_unpinged",
        "operations",
        ["action_uid", "started_at"],
        where="pinged < 2 AND (finished_at IS NOT NULL"
        " OR (pinged = 0 AND started_at IS NOT NULL))",
    )
    _index(
        "ix_operations_recorded_apart",
        "operations",
        ["occurrence"],
        where="(recorded_at < occurrence OR recorded_at - occurrence > '01:00:00'::interval)",
        on_sqlite="(recorded_at < occurrence OR recorded_at > datetime(occurrence, '+1 hour'))",
    )
    _index("ix_operations_recorded_at", "operations", ["recorded_at"])
    _index(
        "ix_operations_troubled",
        "operations",
        ["finished_at"],
        where="state IN ('failed', 'missed')",
    )
    _index(
        "ix_operations_unsuccessful",
        "operations",
        ["recorded_at"],
        where="state IN ('failed', 'canceled', 'skipped', 'missed')",
    )
    _index(
        "ix_operations_claimed",
        "operations",
        ["state"],
        where="claim_token IS NOT NULL",
    )
    _index(
        "ix_operations_queued",
        "operations",
        ["queue", "lane", "sent_at"],
        where="state = 'queued'",
    )
    _index(
        "uq_operations_heavy_claimed",
        "operations",
        ["app"],
        where="queue = 'heavy' AND claim_token IS NOT NULL",
        unique=True,
    )
    _index(
        "uq_operations_line_claimed",
        "operations",
        ["action_uid"],
        where="overlap = 'queue' AND claim_token IS NOT NULL AND user_id IS NULL",
        unique=True,
    )
    _index(
        "uq_operations_user_line_claimed",
        "operations",
        ["action_uid", "user_id"],
        where="overlap = 'queue' AND claim_token IS NOT NULL",
        unique=True,
    )
    op.create_table(
        "operation_steps",
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("attempt", sa.Integer(), server_default="0", nullable=False),
        sa.Column("started_at", UtcDateTime),
        sa.Column("finished_at", UtcDateTime),
        sa.Column("progress", Json),
        sa.Column("memo", Json),
        sa.Column("result", Json),
        sa.Column("error", sa.Text()),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name=op.f("fk_operation_steps_operation_id_operations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "operation_id", "position", name=op.f("pk_operation_steps")
        ),
        postgresql_with=_VACUUM_SOONER,
    )
    op.create_table(
        "operation_log",
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.Text()),
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
        postgresql_with=_VACUUM_SOONER,
    )
    op.create_table(
        "deliveries",
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("step", sa.Text(), nullable=False),
        sa.Column("recipient", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("updated_at", UtcDateTime, nullable=False),
        sa.Column("resolved_by", sa.Text()),
        sa.Column("resolved_at", UtcDateTime),
        sa.Column("app", sa.Text(), nullable=False),
        sa.Column("content", sa.Text()),
        sa.ForeignKeyConstraint(
            ["operation_id"],
            ["operations.id"],
            name=op.f("fk_deliveries_operation_id_operations"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "operation_id", "step", "recipient", name=op.f("pk_deliveries")
        ),
        postgresql_with=_VACUUM_SOONER,
    )
    _index("ix_deliveries_app_updated_at", "deliveries", ["app", "updated_at"])
    _index(
        "ix_deliveries_content", "deliveries", ["content"], where="content IS NOT NULL"
    )
    _index(
        "ix_deliveries_failed",
        "deliveries",
        ["app", "updated_at"],
        where="state = 'failed'",
    )
    _index(
        "ix_deliveries_recipient_updated_at", "deliveries", ["recipient", "updated_at"]
    )
    _index(
        "ix_deliveries_sending", "deliveries", ["updated_at"], where="state = 'sending'"
    )
    _index(
        "ix_deliveries_uncertain",
        "deliveries",
        ["updated_at"],
        where="state = 'uncertain'",
    )
    _index("ix_deliveries_updated_at", "deliveries", ["updated_at"])
    op.create_table(
        "mail_contents",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("text", sa.Text()),
        sa.Column("html", sa.Text()),
        sa.Column("used_at", UtcDateTime, nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_mail_contents")),
        postgresql_with=_VACUUM_SOONER,
    )
    _index("ix_mail_contents_used_at", "mail_contents", ["used_at"])
    op.create_table(
        "backfill_occurrences",
        sa.Column("backfill_id", Identifier, nullable=False),
        sa.Column("occurrence", UtcDateTime, nullable=False),
        sa.Column("operation_id", Identifier, nullable=False),
        sa.Column("outcome", sa.Text()),
        sa.ForeignKeyConstraint(
            ["backfill_id"],
            ["backfills.id"],
            name=op.f("fk_backfill_occurrences_backfill_id_backfills"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "backfill_id", "occurrence", name=op.f("pk_backfill_occurrences")
        ),
        postgresql_with=_VACUUM_SOONER,
    )
    _index(
        "ix_backfill_occurrences_waiting",
        "backfill_occurrences",
        ["backfill_id", "occurrence"],
        where="outcome IS NULL",
    )


def _make_fleet() -> None:
    """Who works here, who leads, and what rests."""
    op.create_table(
        "installation",
        sa.Column("id", Identifier, nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("compatible_from", sa.Text()),
        sa.Column("paused_at", UtcDateTime),
        sa.Column("paused_until", UtcDateTime),
        sa.Column("paused_by", sa.Text()),
        sa.Column("pause_note", sa.Text()),
        sa.Column("spread", Json),
        sa.Column("secret", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_installation")),
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("holder", Identifier),
        sa.Column("hostname", sa.Text()),
        sa.Column("pid", sa.Integer()),
        sa.Column("acquired_at", UtcDateTime),
        sa.Column("heartbeat_at", UtcDateTime),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.Column("fence", sa.BigInteger(), nullable=False),
        sa.Column("last_tick_at", UtcDateTime),
        sa.Column("ticking_at", UtcDateTime),
        sa.Column("ticking_since", UtcDateTime),
        sa.Column("send_failing_since", UtcDateTime),
        sa.Column("send_error", sa.Text()),
        sa.Column("noticed_until", UtcDateTime),
        sa.Column("set_back_from", UtcDateTime),
        sa.Column("set_back_to", UtcDateTime),
        sa.Column("recomputed_until", sa.Text()),
        sa.Column("adopting", sa.Text()),
        sa.Column("adopting_after", UtcDateTime),
        sa.Column("adopted_until", sa.Text()),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_leases")),
    )
    op.create_table(
        "leaderships",
        sa.Column("fence", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("hostname", sa.Text(), nullable=False),
        sa.Column("pid", sa.Integer(), nullable=False),
        sa.Column("acquired_at", UtcDateTime, nullable=False),
        sa.Column("released_at", UtcDateTime),
        sa.PrimaryKeyConstraint("fence", name=op.f("pk_leaderships")),
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
        sa.Column("concurrency", sa.Integer()),
        sa.Column("settings", Json, nullable=False),
        sa.Column("clock_skew_s", sa.Float()),
        sa.Column("free_bytes", sa.BigInteger()),
        sa.Column("started_at", UtcDateTime, nullable=False),
        sa.Column("heartbeat_at", UtcDateTime, nullable=False),
        sa.Column("drain_asked_at", UtcDateTime),
        sa.Column("drain_asked_by", sa.Text()),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_processes")),
    )
    op.create_table(
        "queue_pauses",
        sa.Column("queue", sa.Text(), nullable=False),
        sa.Column("paused_at", UtcDateTime, nullable=False),
        sa.Column("paused_until", UtcDateTime),
        sa.Column("paused_by", sa.Text()),
        sa.Column("pause_note", sa.Text()),
        sa.PrimaryKeyConstraint("queue", name=op.f("pk_queue_pauses")),
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
        sa.Column("told_at", UtcDateTime),
        sa.Column("tellings", sa.Integer(), server_default="0", nullable=False),
        sa.Column("actions", Json, nullable=False),
        sa.Column("examples", Json, nullable=False),
        sa.Column("closed_at", UtcDateTime),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notices")),
    )
    _index(
        "uq_notices_open",
        "notices",
        ["scope", "kind", "cause_key"],
        where="closed_at IS NULL",
        unique=True,
    )


def _make_access() -> None:
    """Who may do what, and who did."""
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text(), nullable=False),
        sa.Column("app", sa.Text()),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("expires_at", UtcDateTime),
        sa.Column("last_used_at", UtcDateTime),
        sa.Column("revoked_at", UtcDateTime),
        sa.Column("revoked_by", sa.Text()),
        sa.Column("replaces", sa.Text()),
        sa.ForeignKeyConstraint(
            ["app"], ["small_apps.uid"], name=op.f("fk_api_keys_app_small_apps")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_keys")),
    )
    _index("ix_api_keys_app", "api_keys", ["app"])
    op.create_table(
        "sign_ins",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("app", sa.Text()),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("name", sa.Text()),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("expires_at", UtcDateTime, nullable=False),
        sa.Column("used_at", UtcDateTime),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_sign_ins")),
    )
    _index("ix_sign_ins_expires_at", "sign_ins", ["expires_at"])
    op.create_table(
        "idempotency_keys",
        sa.Column("caller", sa.Text(), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("request", sa.Text(), nullable=False),
        sa.Column("created_at", UtcDateTime, nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("headers", Json),
        sa.Column("body", sa.Text()),
        sa.PrimaryKeyConstraint("caller", "key", name=op.f("pk_idempotency_keys")),
        postgresql_with=_VACUUM_SOONER,
    )
    _index("ix_idempotency_keys_created_at", "idempotency_keys", ["created_at"])
    op.create_table(
        "changes",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", UtcDateTime, nullable=False),
        sa.Column("by", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text()),
        sa.Column("request_id", sa.Text()),
        sa.Column("app", sa.Text()),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.Column("change", sa.Text(), nullable=False),
        sa.Column("before", Json),
        sa.Column("after", Json),
        sa.Column("note", sa.Text()),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_changes")),
    )
    _index("ix_changes_app_at_number", "changes", ["app", "at", "number"])
    _index("ix_changes_at_number", "changes", ["at", "number"])
    _index("ix_changes_by_at_number", "changes", ["by", "at", "number"])
    _index(
        "ix_changes_kind_subject_at_number",
        "changes",
        ["kind", "subject", "at", "number"],
    )
    op.create_table(
        "change_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_change_head")),
    )
