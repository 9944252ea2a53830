"""
The tables, once for PostgreSQL and SQLite.

Every index says which query it serves. Times are aware UTC. Migrations make
these tables; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from secrets import token_hex
from typing import Any

import sqlalchemy as sa
from sqlalchemy import Column, Index

from models.database.engine import Identifier, Json, UtcDateTime, db_now
from models.database.sql_time import by_database
from models.operation_state import (
    LIVE_STATES,
    TROUBLED_STATES,
    UNSUCCESSFUL_STATES,
    OperationState,
    Reason,
)

metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)


@dataclass(frozen=True, slots=True)
class Rows:
    """
    Which rows a partial index has, said once for the index and for its queries.

    SQLite uses such an index only for a query with the same condition, word for word,
    and cannot match a value that is bound later.

    Args:
        condition: Each column is written ``{0}name``. Of both databases, or of
            PostgreSQL alone.
        on_sqlite: The same, if SQLite has other words for it.
    """

    condition: str
    on_sqlite: str | None = None

    def of(self, table: str = "operations") -> sa.TextClause | by_database:
        """Return the condition for a query, on *table* or the alias of that name."""
        text = self.condition.format(f"{table}.")
        if self.on_sqlite is None:
            return sa.text(text)
        return by_database(text, self.on_sqlite.format(f"{table}."))

    def __str__(self) -> str:
        return self.condition.format("")

    @property
    def of_sqlite(self) -> str:
        """The condition of the index on SQLite."""
        return (self.on_sqlite or self.condition).format("")


def _table(
    name: str, *parts: Column[Any] | sa.Constraint | Index, **more: Any
) -> sa.Table:
    return sa.Table(name, metadata, *parts, **more)


def _partial(
    name: str, columns: str | Iterable[sa.TextClause | str], where: Rows | str
) -> Index:
    """Make a partial index of columns, or expressions; a unique one if so named."""
    rows = where if isinstance(where, Rows) else Rows(where)
    return Index(
        name,
        *(columns.split() if isinstance(columns, str) else columns),
        unique=name.startswith("uq_"),
        postgresql_where=sa.text(str(rows)),
        sqlite_where=sa.text(rows.of_sqlite),
    )


def _pause(*, nullable: bool = True) -> Iterator[Column[Any]]:
    """Make the columns of what is paused: since and until when, by whom, and why."""
    yield Column("paused_at", UtcDateTime, nullable=nullable)
    yield Column("paused_until", UtcDateTime)
    yield Column("paused_by", sa.Text)
    yield Column("pause_note", sa.Text)


def _owner(table: str) -> Column[Any]:
    """Make the part of a key that names the row of *table* with which this one goes."""
    owner = sa.ForeignKey(f"{table}.id", ondelete="CASCADE")
    return Column(f"{table.removesuffix('s')}_id", owner, primary_key=True)


def _of_row(expression: str) -> sa.TextClause:
    return sa.text(expression.format(""))


#: For tables that may have millions of rows, many of which change or go each day: so
#: autovacuum passes when a fiftieth of them has, not a fifth. Alembic does not compare
#: this.
TURNS_OVER = {
    "autovacuum_vacuum_scale_factor": 0.02,
    "autovacuum_analyze_scale_factor": 0.02,
}

#: One row, made by the migration: the identity of this installation, in each message.
installation = _table(
    "installation",
    Column("id", Identifier, primary_key=True),
    # what tasks of users' own are sent with is signed with it; never shown
    Column("secret", sa.Text, nullable=False, default=lambda: token_hex(32)),
    Column("created_at", UtcDateTime, nullable=False),
    Column("compatible_from", sa.Text),  # the oldest schema whose programs may go on
    # while all of its small apps are paused
    *_pause(),
    # how far that, or its end, is written into their actions; null: into all of them
    Column("spread", Json),
)

#: Messages in our queues that are not ours: read by doctor, pruned by workers.
strangers = _table(
    "strangers",
    # by its name on the broker
    Column("queue", sa.Text, primary_key=True),
    # operations/fleet/strangers.py
    Column("reason", sa.Text, primary_key=True),
    # an installation's id, a task's name, or what cannot be read
    Column("name", sa.Text, primary_key=True),
    # the last worker that met it, and when
    Column("worker", sa.Text, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
)

#: A process without a sign for longer counts as gone. Three signs may be lost; somebody
#: who looks after two minutes sees that it is gone.
ALIVE_FOR = timedelta(seconds=90)

#: Every scheduler and worker that runs; each renews its row, and maintenance prunes
#: the rows of those that ended without deleting theirs.
processes = _table(
    "processes",
    # random per process start
    Column("id", Identifier, primary_key=True),
    # scheduler, worker
    Column("role", sa.Text, nullable=False),
    # as an operator knows it: quick@host
    Column("name", sa.Text, nullable=False),
    Column("hostname", sa.Text, nullable=False),
    Column("pid", sa.Integer, nullable=False),
    # version of the program, and the newest schema that it knows
    Column("version", sa.Text, nullable=False),
    Column("revision", sa.Text, nullable=False),
    # the queues that a worker consumes, and how many operations it runs at a time
    Column("queues", Json, nullable=False),
    Column("concurrency", sa.Integer),
    # settings that all processes must agree on: name to value, or to its digest
    Column("settings", Json, nullable=False),
    # host clock minus database clock, and bytes free in the workspace
    Column("clock_skew_s", sa.Float),
    Column("free_bytes", sa.BigInteger),
    Column("started_at", UtcDateTime, nullable=False),
    Column("heartbeat_at", UtcDateTime, nullable=False),
    # since when, and by whom, a worker is asked to take nothing new; null: it is not.
    # The worker reads them as it renews its row.
    Column("drain_asked_at", UtcDateTime),
    Column("drain_asked_by", sa.Text),
)

#: Matches the processes that are there, as far as anybody knows.
IS_ALIVE = processes.c.heartbeat_at > db_now(-ALIVE_FOR)

#: Queues of which nothing is sent or claimed for a while: at most a row for each. One
#: whose end has passed means nothing, and nobody has to remove it.
queue_pauses = _table(
    "queue_pauses",
    # as people name it: quick, heavy, celery
    Column("queue", sa.Text, primary_key=True),
    *_pause(nullable=False),
)

#: Who led when: a row for each fence.
leaderships = _table(
    "leaderships",
    Column("fence", sa.BigInteger, primary_key=True, autoincrement=False),
    Column("hostname", sa.Text, nullable=False),
    Column("pid", sa.Integer, nullable=False),
    Column("acquired_at", UtcDateTime, nullable=False),
    # null: it still leads, or ended without recording it
    Column("released_at", UtcDateTime),
)

small_apps = _table(
    "small_apps",
    Column("uid", sa.Text, primary_key=True),
    Column("name", sa.Text, nullable=False),
    Column("timezone", sa.Text),
    # the folder of the app's source files; only an operator's apps apply sets it
    Column("source_folder", sa.Text),
    *_pause(),
    # how far that, or its end, is written into its actions; null: into all of them
    Column("spread", Json),
    # who gets notices of failures, and how; null: nobody
    Column("notices", Json),
    # what the app writes on its mails: sender, reply address; null: nothing of its own
    Column("mail", Json),
    # raised by each change of its document; a pause is not part of that
    Column("revision", sa.Integer, nullable=False, server_default="1"),
    Column("created_at", UtcDateTime, nullable=False, default=db_now()),
    Column("updated_at", UtcDateTime, nullable=False, default=db_now()),
    # its uid stays taken; applying its document again brings it back
    Column("deleted_at", UtcDateTime),
    # the tick: pauses that are over
    _partial("ix_small_apps_paused_until", "paused_until", "paused_until IS NOT NULL"),
    # the tick: pauses that are not in all of their actions yet
    _partial("ix_small_apps_spread", "uid", "spread IS NOT NULL"),
)

#: Users whom a filter of recipients may leave out: few of many.
MAY_BE_LEFT_OUT = Rows(
    "({0}disabled OR {0}expires_at IS NOT NULL OR {0}activated_at IS NULL)"
)

users = _table(
    "users",
    Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
    Column("id", sa.Text, primary_key=True),
    Column("email", sa.Text, nullable=False),
    Column("name", sa.Text),
    Column("locale", sa.Text),
    Column("disabled", sa.Boolean, nullable=False, default=False),
    Column("expires_at", UtcDateTime),
    Column("created_at", UtcDateTime),
    Column("activated_at", UtcDateTime),
    Column("last_seen_at", UtcDateTime),
    # recipients: how many are left out, and why
    _partial("ix_users_may_be_left_out", "app id", MAY_BE_LEFT_OUT),
)

memberships = _table(
    "memberships",
    Column("app", sa.Text, primary_key=True),
    # the key also serves: members of a group of an app
    Column("group_name", sa.Text, primary_key=True),
    Column("user_id", sa.Text, primary_key=True),
    sa.ForeignKeyConstraint(
        ["app", "user_id"], ["users.app", "users.id"], ondelete="CASCADE"
    ),
)

templates = _table(
    "templates",
    Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
    Column("name", sa.Text, primary_key=True),
    Column("subject", sa.Text, nullable=False),
    Column("text", sa.Text),
    Column("html", sa.Text),
)

#: Named holiday calendars of a small app; each change is a new version.
holidays = _table(
    "holidays",
    Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
    Column("name", sa.Text, primary_key=True),
    Column("version", sa.Integer, primary_key=True),
    # [["2026-12-24", "2026-12-26"], ...]: first and last day of each range
    Column("days", Json, nullable=False),
    Column("created_at", UtcDateTime, nullable=False, default=db_now()),
)

#: Actions that do not run, most of which will again; and those that never will.
IDLE_ACTIONS = Rows(
    "({0}paused_at IS NOT NULL OR {0}quarantined_at IS NOT NULL OR NOT {0}active)"
)
DELETED_ACTIONS = Rows("{0}deleted_at IS NOT NULL")

#: Actions that will be due.
DUE_ACTIONS = Rows(
    "{0}next_due_at IS NOT NULL AND {0}active AND {0}paused_at IS NULL "
    "AND {0}quarantined_at IS NULL AND {0}deleted_at IS NULL"
)

#: Actions that are paused when they have failed so often in a row.
RESTING_ACTIONS = Rows(
    "{0}rest_after IS NOT NULL AND {0}active AND {0}paused_at IS NULL "
    "AND {0}deleted_at IS NULL"
)

#: Actions whose runs an outside monitor hears of.
PINGING_ACTIONS = Rows("{0}pings")

scheduled_actions = _table(
    "scheduled_actions",
    Column("uid", sa.Text, primary_key=True),
    Column("app", sa.ForeignKey("small_apps.uid"), nullable=False),
    Column("name", sa.Text, nullable=False),
    Column("revision", sa.Integer, nullable=False),
    Column("document", Json, nullable=False),
    Column("active", sa.Boolean, nullable=False),
    # The columns below are derived from the document when it is stored, so that the
    # tick reads no document: see actions/due_rows.py.
    Column("queue", sa.Text, nullable=False),
    Column("overlap", sa.Text, nullable=False),
    # of each of its operations
    Column("attempts_allowed", sa.Integer, nullable=False, server_default="3"),
    # failures in a row after which it is paused; null: never
    Column("rest_after", sa.Integer),
    # whether an outside monitor hears of its runs
    Column("pings", sa.Boolean, nullable=False, server_default=sa.false()),
    # seconds from an occurrence to the first look whether its run is as expected
    Column("expected_after_s", sa.Float),
    # canonical JSON of TimingModel; null for what follows an event or action
    Column("timing", sa.Text),
    Column("event", sa.Text),
    # uid of the action whose ends it follows, and how these must end; others: null
    Column("follows", sa.Text),
    Column("follows_on", sa.Text),
    # duration and time of day: models/fields/delay.py
    Column("delay", sa.Text),
    # zone whose calendar and clocks the delay follows
    Column("zone", sa.Text, nullable=False),
    Column("catch_up", sa.Text, nullable=False),
    Column("catch_up_within", sa.Text),
    # bounds of the occurrences of an event-driven action; those of time are in timing
    Column("starts_at", UtcDateTime),
    Column("ends_at", UtcDateTime),
    # occurrences before this instant are never run
    Column("effective_from", UtcDateTime, nullable=False),
    # the first instant not yet decided; null: never due again. For event-driven
    # actions it is a lower bound, lowered when an event is recorded.
    Column("next_due_at", UtcDateTime),
    # how many times events were recorded for it, and the least next_due_at that they
    # asked for since the last tick. A tick that missed some, because they were recorded
    # while it decided, notices by the count and does not pass over them.
    Column("wakes", sa.Integer, nullable=False, server_default="0"),
    Column("woken_for", UtcDateTime),
    *_pause(),
    # what was paused: app, installation; null: the action itself
    Column("pause_scope", sa.Text),
    Column("quarantined_at", UtcDateTime),
    Column("quarantine_reason", sa.Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Column("deleted_at", UtcDateTime),
    # the tick: what is due, oldest first, at a cost that ignores what is not due;
    # actions list: the next due first; doctor, timeline: of which queues, and how many,
    # read from the index alone
    _partial("ix_scheduled_actions_due", "next_due_at app queue", DUE_ACTIONS),
    # the tick: pauses that are over
    _partial(
        "ix_scheduled_actions_paused_until", "paused_until", "paused_until IS NOT NULL"
    ),
    # posting: a name is unique among the actions of an app that are not deleted
    _partial("uq_scheduled_actions_app_name", "app name", "deleted_at IS NULL"),
    # actions list: those that do not run; now: how many are paused, or in quarantine
    _partial(
        "ix_scheduled_actions_idle",
        "app name paused_at quarantined_at",
        f"deleted_at IS NULL AND {IDLE_ACTIONS}",
    ),
    # actions list: those that were deleted
    _partial("ix_scheduled_actions_deleted", "app name", DELETED_ACTIONS),
    # resting: those that are paused if they fail again and again
    _partial("ix_scheduled_actions_resting", "uid", RESTING_ACTIONS),
    # recording: the actions whose runs an outside monitor hears of
    _partial("ix_scheduled_actions_pings", "uid", PINGING_ACTIONS),
    # recording an event: the actions of the app that wait for it
    _partial(
        "ix_scheduled_actions_event",
        "app event",
        "event IS NOT NULL AND deleted_at IS NULL",
    ),
    # ending an operation: the actions that follow it
    _partial(
        "ix_scheduled_actions_follows",
        "follows",
        "follows IS NOT NULL AND deleted_at IS NULL",
    ),
    postgresql_with=TURNS_OVER,
)

#: Immutable: the document that each operation ran, by (uid, revision).
scheduled_action_revisions = _table(
    "scheduled_action_revisions",
    Column("uid", sa.Text, primary_key=True),
    Column("revision", sa.Integer, primary_key=True),
    Column("document", Json, nullable=False),
    Column("timing", sa.Text),
    Column("active", sa.Boolean, nullable=False),
    Column("effective_from", UtcDateTime, nullable=False),
    # what made this revision: posted, replaced, paused, resumed, deleted, ...
    Column("change", sa.Text, nullable=False),
    # who made it, such as root@host; null: made before that was recorded
    Column("changed_by", sa.Text),
    # their note, such as why it is paused
    Column("note", sa.Text),
    Column("recorded_at", UtcDateTime, nullable=False),
    # next_due_at of the action when this revision took over: occurrences from then on
    # were not decided, and are superseded unless this revision decides them
    Column("undecided_from", UtcDateTime),
    postgresql_with=TURNS_OVER,
)

events = _table(
    "events",
    Column("id", Identifier, primary_key=True),
    Column("app", sa.ForeignKey("small_apps.uid"), nullable=False),
    Column("name", sa.Text, nullable=False),
    Column("user_id", sa.Text, nullable=False),
    Column("at", UtcDateTime, nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False),
    # what a program that sends events calls each (CloudEvents); null: it has no name
    Column("source", sa.Text),
    Column("source_id", sa.Text),
    # recording: an event that is sent again is not a new one
    _partial("uq_events_source", "app source source_id", "source IS NOT NULL"),
    # the tick: events whose delay has passed since the last tick
    Index("ix_events_app_name_at", "app", "name", "at"),
    # the tick: events that were recorded after their instant
    Index("ix_events_app_name_recorded_at", "app", "name", "recorded_at"),
    # last_seen: the newer replaces the older
    Index("ix_events_app_user_name", "app", "user_id", "name"),
    # events list: the latest of an app
    Index("ix_events_app_recorded_at", "app", "recorded_at", "id"),
    # events list: the latest of all
    Index("ix_events_recorded_at", "recorded_at", "id"),
    postgresql_with=TURNS_OVER,
)


def _list(states: Iterable[OperationState]) -> str:
    return ", ".join(f"'{state}'" for state in OperationState if state in states)


#: Waits to be sent.
PENDING = Rows("{0}state = 'pending'")
PENDING_MANUAL = Rows(
    f"{PENDING.condition} AND {{0}}trigger = 'manual' AND {{0}}overlap <> 'queue'"
)
PENDING_IN_LINE = Rows(f"{PENDING.condition} AND {{0}}overlap = 'queue'")

#: Has sent a task of the user's own, and goes on when that ends.
OF_TASK = Rows(
    f"COALESCE(substr({{0}}reason, 1, {len(Reason.TASK)}), '') = '{Reason.TASK}'"
)

#: Of what is pending, what waits for the end of such a task.
AWAITING = Rows(f"{PENDING.condition} AND {OF_TASK.condition}")
NOT_AWAITING = Rows(f"NOT {OF_TASK.condition}")

#: Of what is pending, the few that were tried before, or that the platform holds up.
TRIED_BEFORE = Rows(
    f"{PENDING.condition} AND {{0}}reason IS NOT NULL AND {NOT_AWAITING.condition}"
)

#: Still to be done; an overlap is counted against these.
LIVE = Rows(f"{{0}}state IN ({_list(LIVE_STATES)})")

#: Live, or canceled while its worker has not stopped yet.
LIVE_OR_CLAIMED = Rows(f"({LIVE.condition} OR {{0}}claim_token IS NOT NULL)")

#: Expressions of indexes, said once as the conditions are: whether an operation stands
#: in a line (``overlap: queue``), in whose, and where in it; see operations/turns.py.
STANDS_IN_LINE = "CAST({0}overlap = 'queue' AS INTEGER)"
LINE = "(({0}action_uid || '/') || COALESCE({0}user_id, ''))"
USER_OR_NOBODY = "COALESCE({0}user_id, '')"
PLACE = (
    "CAST({0}claim_token IS NULL AS INTEGER)",
    # One that waits for its task goes on, even if one from before it is tried again.
    f"CAST({OF_TASK.condition.replace(' = ', ' <> ')} AS INTEGER)",
    "{0}recorded_at",
    # Those that make up for an outage were recorded together.
    "COALESCE({0}occurrence, {0}recorded_at)",
    "{0}id",
)

#: At the broker; with a worker; either.
QUEUED = Rows("{0}state = 'queued'")
CLAIMED = Rows("{0}claim_token IS NOT NULL")
UNDER_WAY = Rows("({0}state = 'queued' OR {0}claim_token IS NOT NULL)")
UNDER_WAY_FIRST = Rows(
    f"{{0}}queue = 'quick' AND {{0}}lane = 0 AND {UNDER_WAY.condition}"
)
UNDER_WAY_HEAVY = Rows(f"{{0}}queue = 'heavy' AND {UNDER_WAY.condition}")
CLAIMED_HEAVY = Rows("{0}queue = 'heavy' AND {0}claim_token IS NOT NULL")
CLAIMED_IN_LINE = Rows("{0}overlap = 'queue' AND {0}claim_token IS NOT NULL")
CLAIMED_OF_NOBODY = Rows(f"{CLAIMED_IN_LINE.condition} AND {{0}}user_id IS NULL")

#: Looked at by the leader, for its action says by when it should have ended.
EXPECTED = Rows("{0}expected_at IS NOT NULL")

#: Failed or missed.
TROUBLED = Rows(f"{{0}}state IN ({_list(TROUBLED_STATES)})")

#: Ended in another state than succeeded: one in thirty, so that each of these states is
#: found among them in a moment, however rare it is.
UNSUCCESSFUL = Rows(f"{{0}}state IN ({_list(UNSUCCESSFUL_STATES)})")

#: Operations are recorded when they are due, or soon after.
RECORDED_WITHIN = timedelta(hours=1)

#: The few that are not: made up for, backfilled, or decided ahead (``tick --at``).
RECORDED_APART = Rows(
    "({0}recorded_at < {0}occurrence"
    " OR {0}recorded_at - {0}occurrence > '01:00:00'::interval)",
    on_sqlite="({0}recorded_at < {0}occurrence"
    " OR {0}recorded_at > datetime({0}occurrence, '+1 hour'))",
)

#: Runs of which an outside monitor has not heard yet that they began, or that they
#: ended: ``pinged`` is 0 until it has heard of the one, and 1 until of the other.
UNPINGED = Rows(
    "{0}pinged < 2 AND ({0}finished_at IS NOT NULL"
    " OR ({0}pinged = 0 AND {0}started_at IS NOT NULL))"
)

#: What is written into an operation whose claim ends, however it does.
NO_CLAIM: Mapping[str, None] = {"claim_token": None, "lease_expires_at": None}

operations = _table(
    "operations",
    Column("id", Identifier, primary_key=True),
    # No foreign keys: rows outlive what made them, and a check for each operation
    # would cost a tenth of the tick.
    Column("action_uid", sa.Text, nullable=False),
    Column("action_revision", sa.Integer, nullable=False),
    Column("app", sa.Text, nullable=False),
    Column("trigger", sa.Text, nullable=False),
    Column("triggered_by", sa.Text, nullable=False),
    Column("occurrence", UtcDateTime),
    Column("user_id", sa.Text),
    # the instant of the event that caused the occurrence, checked again at run time
    Column("event_at", UtcDateTime),
    Column("queue", sa.Text, nullable=False),
    Column("overlap", sa.Text, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("reason", sa.Text),
    Column("attempt", sa.Integer, nullable=False, server_default="0"),
    Column("attempts_allowed", sa.Integer, nullable=False, server_default="3"),
    # how often a process died while running it; a retry begins anew at 0
    Column("kills", sa.Integer, nullable=False, server_default="0"),
    Column("recorded_at", UtcDateTime, nullable=False),
    Column("send_at", UtcDateTime, nullable=False),
    Column("sent_at", UtcDateTime),
    Column("sends", sa.Integer, nullable=False, server_default="0"),
    # the lane of its queue in which it was last sent; see operation_state.LANES
    Column("lane", sa.SmallInteger, nullable=False, server_default="0"),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("worker", sa.Text),
    # set while a worker may be running it; if it was canceled, until that worker has
    # stopped or its lease has run out
    Column("claim_token", Identifier),
    Column("lease_expires_at", UtcDateTime),
    Column("progress", Json),
    Column("error", sa.Text),
    # missed: first, last, count; manual: force; recipients frozen by a step; ...
    Column("details", Json),
    # its finished_at when a notice was recorded about how it ended (failed, missed,
    # mails uncertain); after a retry it may end so again
    Column("noticed_at", UtcDateTime),
    # what an outside monitor has heard of it: 0 nothing, 1 that it began, 2 how it
    # ended, or that is given up; null: none is to hear of it
    Column("pinged", sa.SmallInteger),
    # why the last ping was not taken
    Column("ping_error", sa.Text),
    # when the leader looks next whether it is late, if its action expects anything;
    # and what it did not keep to, in words
    Column("expected_at", UtcDateTime),
    Column("late", sa.Text),
    # the leadership under which the row was recorded; null: recorded by hand
    Column("fence", sa.BigInteger),
    # sending: what is pending and stands in no line, oldest first
    _partial(
        "ix_operations_pending",
        [_of_row(STANDS_IN_LINE), "send_at", "recorded_at"],
        PENDING,
    ),
    # sending: the lines in which something is pending
    _partial("ix_operations_in_line", [_of_row(LINE)], PENDING_IN_LINE),
    # sending: runs that people asked for, which go before scheduled ones
    _partial("ix_operations_pending_manual", "send_at", PENDING_MANUAL),
    # lateness: what is to be looked at
    _partial("ix_operations_expected", "expected_at", EXPECTED),
    # answers: tasks whose end is waited for, by their deadline
    _partial("ix_operations_awaiting", "send_at", AWAITING),
    # Now, doctor: what is to be tried again
    _partial("ix_operations_tried_before", "started_at", TRIED_BEFORE),
    # sending: how much of its share each app is using, read from the index alone
    _partial("ix_operations_first_lane", "app trigger", UNDER_WAY_FIRST),
    # overlap, sending, claiming: the live operations of an action (and user), by place
    _partial(
        "ix_operations_live",
        ["action_uid", *map(_of_row, (USER_OR_NOBODY, *PLACE))],
        LIVE_OR_CLAIMED,
    ),
    # sending: at most one heavy operation of an app is queued or claimed
    _partial("ix_operations_heavy", "app", UNDER_WAY_HEAVY),
    # claiming: what guarantees the rule above
    _partial("uq_operations_heavy_claimed", "app", CLAIMED_HEAVY),
    # claiming: what guarantees that one of a line (overlap: queue) runs
    _partial("uq_operations_line_claimed", "action_uid", CLAIMED_OF_NOBODY),
    # claiming: the same of a user's line; in an index no null equals another
    _partial("uq_operations_user_line_claimed", "action_uid user_id", CLAIMED_IN_LINE),
    # rescue, Now, workers: leases that ran out, and what runs
    _partial("ix_operations_claimed", "state", CLAIMED),
    # rescue: messages that were lost, lane by lane
    _partial("ix_operations_queued", "queue lane sent_at", QUEUED),
    # operations list, why, audit: the operations of an action, by occurrence
    Index("ix_operations_action_uid_occurrence", "action_uid", "occurrence"),
    # doctor, metrics, notices: what failed or was missed lately
    _partial("ix_operations_troubled", "finished_at", TROUBLED),
    # actions list: what failed or was missed lately in an app
    _partial("ix_operations_app_troubled", "app finished_at", TROUBLED),
    # operations list: the latest that did not succeed
    _partial("ix_operations_unsuccessful", "recorded_at", UNSUCCESSFUL),
    # operations list: the same of an app
    _partial("ix_operations_app_unsuccessful", "app recorded_at", UNSUCCESSFUL),
    # days of an action: what did not succeed, read from the index alone
    _partial(
        "ix_operations_action_unsuccessful", "action_uid occurrence state", UNSUCCESSFUL
    ),
    # operations list: the latest; maintenance: the oldest
    Index("ix_operations_recorded_at", "recorded_at"),
    # operations list: the latest of an app, however much the others do
    Index("ix_operations_app_recorded_at", "app", "recorded_at"),
    # pinging: what an outside monitor is still to hear
    _partial("ix_operations_unpinged", "action_uid started_at", UNPINGED),
    # operations list, calendar: those of a period that were recorded at another time
    _partial("ix_operations_recorded_apart", "occurrence", RECORDED_APART),
    postgresql_with=TURNS_OVER,
)

#: Joins an operation with the revision of its action that it runs.
IS_REVISION = sa.and_(
    scheduled_action_revisions.c.uid == operations.c.action_uid,
    scheduled_action_revisions.c.revision == operations.c.action_revision,
)

operation_steps = _table(
    "operation_steps",
    _owner("operations"),
    Column("position", sa.Integer, primary_key=True),
    Column("name", sa.Text, nullable=False),
    Column("state", sa.Text, nullable=False),
    Column("attempt", sa.Integer, nullable=False, server_default="0"),
    Column("started_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("progress", Json),
    # what the step remembers for its next attempt, such as its frozen recipients
    Column("memo", Json),
    Column("result", Json),
    Column("error", sa.Text),
    postgresql_with=TURNS_OVER,
)

#: Mails that may or may not have been sent.
UNCERTAIN = Rows("{0}state = 'uncertain'")

#: Mails that certainly did not leave.
FAILED_MAILS = Rows("{0}state = 'failed'")

#: Mails that are being handed over: of millions, those of a moment.
SENDING_MAILS = Rows("{0}state = 'sending'")

deliveries = _table(
    "deliveries",
    _owner("operations"),
    Column("step", sa.Text, primary_key=True),
    Column("recipient", sa.Text, primary_key=True),
    # sending, sent, uncertain, failed
    Column("state", sa.Text, nullable=False),
    Column("error", sa.Text),
    Column("updated_at", UtcDateTime, nullable=False),
    # who decided about an uncertain mail, and when
    Column("resolved_by", sa.Text),
    Column("resolved_at", UtcDateTime),
    # that of the operation
    Column("app", sa.Text, nullable=False),
    # what was handed over: a digest of mail_contents, or too large; null: not kept
    Column("content", sa.Text),
    # doctor, mails list: mails that an operator has to decide about
    _partial("ix_deliveries_uncertain", "updated_at", UNCERTAIN),
    # mails list: the latest of all
    Index("ix_deliveries_updated_at", "updated_at"),
    # mails list: the latest of an app
    Index("ix_deliveries_app_updated_at", "app", "updated_at"),
    # mails list: the latest of a recipient
    Index("ix_deliveries_recipient_updated_at", "recipient", "updated_at"),
    # mails list: those that failed
    _partial("ix_deliveries_failed", "app updated_at", FAILED_MAILS),
    # mails list: those that are being sent
    _partial("ix_deliveries_sending", "updated_at", SENDING_MAILS),
    # maintenance: contents of which no mail is left
    _partial("ix_deliveries_content", "content", "content IS NOT NULL"),
    postgresql_with=TURNS_OVER,
)

#: What mails said, as it was handed over: equal mails share a row.
mail_contents = _table(
    "mail_contents",
    # SHA-256 of the other columns but the last
    Column("digest", sa.Text, primary_key=True),
    Column("subject", sa.Text, nullable=False),
    Column("text", sa.Text),
    Column("html", sa.Text),
    # when a mail of this content was last begun
    Column("used_at", UtcDateTime, nullable=False),
    # maintenance: the oldest
    Index("ix_mail_contents_used_at", "used_at"),
    postgresql_with=TURNS_OVER,
)

#: What the steps of an operation said while they ran; of a talkative one, the first
#: and the last lines.
operation_log = _table(
    "operation_log",
    _owner("operations"),
    Column("number", sa.Integer, primary_key=True),
    Column("at", UtcDateTime, nullable=False),
    Column("attempt", sa.Integer, nullable=False),
    Column("step", sa.Text),
    # info, warning, error
    Column("level", sa.Text, nullable=False),
    Column("text", sa.Text, nullable=False),
    postgresql_with=TURNS_OVER,
)

#: Causes that are not over.
OPEN_NOTICES = Rows("{0}closed_at IS NULL")

#: What notices are about: a row for each cause, for as long as it lasts.
notices = _table(
    "notices",
    Column("id", Identifier, primary_key=True),
    # uid of the small app whose addresses get the notices; empty: the installation's
    Column("scope", sa.Text, nullable=False),
    # failed, missed, uncertain
    Column("kind", sa.Text, nullable=False),
    # what all errors of this cause have in common, and the first of them in full
    Column("cause_key", sa.Text, nullable=False),
    Column("cause", sa.Text, nullable=False),
    Column("opened_at", UtcDateTime, nullable=False),
    # the latest failure
    Column("last_at", UtcDateTime, nullable=False),
    Column("count", sa.Integer, nullable=False),
    # failures that no notice has reported yet, and when the last notice was sent
    Column("untold", sa.Integer, nullable=False),
    Column("told_at", UtcDateTime),
    Column("tellings", sa.Integer, nullable=False, server_default="0"),
    # uid to app, name, count, last failure: actions that must succeed to close it
    Column("actions", Json, nullable=False),
    # ids of the latest failures, as examples
    Column("examples", Json, nullable=False),
    Column("closed_at", UtcDateTime),
    # reporting: the open causes; each is open once, whoever finds it
    _partial("uq_notices_open", "scope kind cause_key", OPEN_NOTICES),
)

leases = _table(
    "leases",
    Column("name", sa.Text, primary_key=True),
    # random per process start; never the pid: in containers everyone is pid 1
    Column("holder", Identifier),
    Column("hostname", sa.Text),
    Column("pid", sa.Integer),
    Column("acquired_at", UtcDateTime),
    Column("heartbeat_at", UtcDateTime),
    Column("expires_at", UtcDateTime, nullable=False),
    # raised by each leader; what an older leader writes changes nothing
    Column("fence", sa.BigInteger, nullable=False),
    Column("last_tick_at", UtcDateTime),
    # the last tick, even if it was cut; and from when on ticks followed each other, so
    # that whatever was due since then is of no outage
    Column("ticking_at", UtcDateTime),
    Column("ticking_since", UtcDateTime),
    # since when the broker refuses messages, and its last error; null: it works
    Column("send_failing_since", UtcDateTime),
    Column("send_error", sa.Text),
    # up to when failures were looked for, for notices; null: notices are off
    Column("noticed_until", UtcDateTime),
    # what the database's clock had shown when it was set back, and to what; null: never
    Column("set_back_from", UtcDateTime),
    Column("set_back_to", UtcDateTime),
    # the action up to which due instants were computed again since; null: all of them
    Column("recomputed_until", sa.Text),
    # the tz database that is being adopted (null: none), the last tick before, and the
    # action up to which it is
    Column("adopting", sa.Text),
    Column("adopting_after", UtcDateTime),
    Column("adopted_until", sa.Text),
)

#: Servers that many operations need and that fail: a row for each, for as long as that
#: lasts. Operations that need one wait until *retry_at*; then one of them tries.
breakers = _table(
    "breakers",
    # such as mail server mail.example.org:587
    Column("name", sa.Text, primary_key=True),
    Column("since", UtcDateTime, nullable=False),
    # consecutive failures of those that tried
    Column("failures", sa.Integer, nullable=False),
    Column("retry_at", UtcDateTime, nullable=False),
    Column("error", sa.Text, nullable=False),
)

#: The rules of every time zone in use, as they were when instants were computed.
zones = _table(
    "zones",
    Column("name", sa.Text, primary_key=True),
    # a TZif file (RFC 9636)
    Column("data", sa.LargeBinary, nullable=False),
    # of the tz database
    Column("version", sa.Text, nullable=False),
    Column("recorded_at", UtcDateTime, nullable=False),
)

domains = _table(
    "domains",
    Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
    Column("name", sa.Text, primary_key=True),
    Column("source", Json, nullable=False),
    # title, description, and columns with title, unit and sum; null: none
    Column("labels", Json),
    # figures of the last executive summary of each action, by its uid
    Column("summarized", Json),
    Column("staged_version", sa.Integer),
    Column("live_version", sa.Integer),
    Column("previous_version", sa.Integer),
    Column("published_at", UtcDateTime),
)

domain_versions = _table(
    "domain_versions",
    Column("app", sa.Text, primary_key=True),
    Column("domain", sa.Text, primary_key=True),
    Column("version", sa.Integer, primary_key=True),
    Column("path", sa.Text, nullable=False),
    Column("rows", sa.BigInteger, nullable=False),
    Column("bytes", sa.BigInteger, nullable=False),
    Column("sha256", sa.Text, nullable=False),
    # digest of the source it was read from: an ETag means nothing for another URL
    Column("source_digest", sa.Text),
    # what the source said about itself; refresh compares them to see what is new
    Column("etag", sa.Text),
    Column("last_modified", sa.Text),
    Column("operation_id", Identifier),
    Column("created_at", UtcDateTime, nullable=False),
    sa.ForeignKeyConstraint(["app", "domain"], ["domains.app", "domains.name"]),
)

app_documents = _table(
    "app_documents",
    Column("app", sa.ForeignKey("small_apps.uid"), primary_key=True),
    # design, permissions
    Column("part", sa.Text, primary_key=True),
    Column("staged", Json),
    Column("live", Json),
    Column("previous", Json),
    Column("staged_at", UtcDateTime),
    Column("published_at", UtcDateTime),
)

#: Who may ask over HTTP. A secret is shown once, and only its digest is kept.
api_keys = _table(
    "api_keys",
    # the part of the key that may be shown: mh_<id>_...
    Column("id", sa.Text, primary_key=True),
    # null: all small apps, and the installation itself
    Column("app", sa.ForeignKey("small_apps.uid")),
    # see models/role.py
    Column("role", sa.Text, nullable=False),
    # what it is for, in the words of who made it
    Column("name", sa.Text),
    # SHA-256 of the secret, which has too many random bits to be guessed from it
    Column("digest", sa.Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("created_by", sa.Text, nullable=False),
    Column("expires_at", UtcDateTime),
    # to the minute
    Column("last_used_at", UtcDateTime),
    Column("revoked_at", UtcDateTime),
    Column("revoked_by", sa.Text),
    # the key that it was rotated from
    Column("replaces", sa.Text),
    # keys list: those of an app
    Index("ix_api_keys_app", "app"),
)

#: People at the pages: links that sign in once, and the sessions that follow.
sign_ins = _table(
    "sign_ins",
    # SHA-256 of what the link or the cookie holds
    Column("digest", sa.Text, primary_key=True),
    # link, invitation, choice (of what one may sign in to), session; used: a sign-in at
    # the company's provider that is over
    Column("kind", sa.Text, nullable=False),
    # the key that it was made with, whose end ends it; null: a link of the command line
    Column("key_id", sa.Text),
    Column("app", sa.Text),
    Column("role", sa.Text, nullable=False),
    Column("name", sa.Text),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    # when the link was followed
    Column("used_at", UtcDateTime),
    # maintenance: what has expired
    Index("ix_sign_ins_expires_at", "expires_at"),
)

#: The answers to requests that carried an Idempotency-Key, for a day.
idempotency_keys = _table(
    "idempotency_keys",
    # whose: of an API key or a session
    Column("caller", sa.Text, primary_key=True),
    Column("key", sa.Text, primary_key=True),
    # SHA-256 of method, address and body
    Column("request", sa.Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    # null: the request is still running
    Column("status", sa.Integer),
    Column("headers", Json),
    Column("body", sa.Text),
    # maintenance: what is older than a day
    Index("ix_idempotency_keys_created_at", "created_at"),
    postgresql_with=TURNS_OVER,
)

#: Who changed what: append-only, each row chained to the one before by its hash.
changes = _table(
    "changes",
    Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    Column("at", UtcDateTime, nullable=False),
    # such as root@host, or the name of an API key
    Column("by", sa.Text, nullable=False),
    Column("key_id", sa.Text),
    Column("request_id", sa.Text),
    # null: the installation
    Column("app", sa.Text),
    # action, app, user, operation, key, ...
    Column("kind", sa.Text, nullable=False),
    # its uid or id
    Column("subject", sa.Text, nullable=False),
    # posted, paused, canceled, ...
    Column("change", sa.Text, nullable=False),
    Column("before", Json),
    Column("after", Json),
    Column("note", sa.Text),
    # SHA-256, in hexadecimal, of the row before and of this one
    Column("previous_hash", sa.Text, nullable=False),
    Column("hash", sa.Text, nullable=False),
    # changes list: the latest
    Index("ix_changes_at_number", "at", "number"),
    # changes list: those of an app
    Index("ix_changes_app_at_number", "app", "at", "number"),
    # changes list: those that somebody made
    Index("ix_changes_by_at_number", "by", "at", "number"),
    # changes list: those of one thing
    Index("ix_changes_kind_subject_at_number", "kind", "subject", "at", "number"),
)

#: The end of the chain of changes, locked by whoever appends to it. One row.
change_head = _table(
    "change_head",
    Column("id", sa.Integer, primary_key=True, autoincrement=False),
    Column("number", sa.BigInteger, nullable=False),
    Column("hash", sa.Text, nullable=False),
)

#: Bulk changes and backfills that are not over.
OPEN_BULK_CHANGES = Rows("{0}finished_at IS NULL")
OPEN_BACKFILLS = Rows("{0}finished_at IS NULL")

#: One change of many actions or operations, done in batches, and its progress.
bulk_changes = _table(
    "bulk_changes",
    Column("id", Identifier, primary_key=True),
    # whose actions or operations; null: of all apps
    Column("app", sa.Text),
    # cancel, retry, pause, resume, run
    Column("kind", sa.Text, nullable=False),
    Column("filter", Json, nullable=False),
    # what the change itself needs: note, until, ...
    Column("arguments", Json),
    Column("requested_by", sa.Text, nullable=False),
    Column("key_id", sa.Text),
    Column("request_id", sa.Text),
    Column("created_at", UtcDateTime, nullable=False),
    # how many match, by the count that was expected; and what became of them
    Column("total", sa.Integer, nullable=False),
    Column("done", sa.Integer, nullable=False, server_default="0"),
    # reason to count
    Column("refused", Json),
    # the last one that was looked at, so that another process can go on
    Column("position", Json),
    Column("claim_token", Identifier),
    Column("lease_expires_at", UtcDateTime),
    # asked to stop
    Column("canceled_at", UtcDateTime),
    Column("finished_at", UtcDateTime),
    Column("error", sa.Text),
    # bulk page: the latest
    Index("ix_bulk_changes_created_at", "created_at"),
    # looking for work
    _partial("ix_bulk_changes_open", "created_at", OPEN_BULK_CHANGES),
)

#: Past occurrences that are run after all.
backfills = _table(
    "backfills",
    Column("id", Identifier, primary_key=True),
    Column("app", sa.Text, nullable=False),
    Column("action_uid", sa.Text, nullable=False),
    # inclusive, exclusive
    Column("from_at", UtcDateTime, nullable=False),
    Column("until_at", UtcDateTime, nullable=False),
    # missing, failed, all
    Column("which", sa.Text, nullable=False),
    # how many of its occurrences are to run, and the most that are live at a time
    Column("total", sa.Integer, nullable=False),
    Column("at_once", sa.Integer, nullable=False),
    Column("note", sa.Text),
    Column("requested_by", sa.Text, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("canceled_at", UtcDateTime),
    Column("canceled_by", sa.Text),
    Column("finished_at", UtcDateTime),
    # backfills list: of an action
    Index("ix_backfills_action_uid_created_at", "action_uid", "created_at"),
    # the scheduler: what is not over
    _partial("ix_backfills_open", "created_at", OPEN_BACKFILLS),
)

#: Occurrences of a backfill whose operation is not recorded yet.
BACKFILL_WAITING = Rows("{0}outcome IS NULL")

backfill_occurrences = _table(
    "backfill_occurrences",
    _owner("backfills"),
    Column("occurrence", UtcDateTime, primary_key=True),
    # the id that the occurrence has anyway
    Column("operation_id", Identifier, nullable=False),
    # recorded, retried, or why it was left as it was; null: it waits its turn
    Column("outcome", sa.Text),
    # the scheduler: the next of a backfill
    _partial(
        "ix_backfill_occurrences_waiting", "backfill_id occurrence", BACKFILL_WAITING
    ),
    postgresql_with=TURNS_OVER,
)
