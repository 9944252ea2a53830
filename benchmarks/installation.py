"""
An installation after a quarter of a year: small apps, users, actions, what they ran.

Twenty small apps of very different size; actions from every five minutes to once a
month, as people write them; operations at the very instants of their rules, in all
states, with steps, log lines, mails; events, data, and a record of changes. Filled with
COPY and generate_series, so that a million operations take a minute and not an hour.
"""

from __future__ import annotations

import json
import random
import time
from bisect import bisect
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import accumulate
from typing import Any, Self

import psycopg

from actions.occurrences import parse_timing
from actions.posting.effective_from import start_from
from actions.posting.post import derive
from actions.zones_in_use import remember_zones
from benchmarks import installation_sql as sql
from benchmarks.command import describe_load
from benchmarks.servers import Servers
from migrations.schema import migrate
from models.database.engine import make_engine, writing
from models.database.journal import GENESIS, compute_hash
from models.door.documents import action_document, read_action_object
from models.occurrence import LOOKBACK, str_to_uuid
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing, timing_text

APPS = 20

#: From the first to the last operation.
DAYS = 90

ZONES = ("Europe/Paris", "UTC", "America/New_York")

WORDS = (
    *("invoice", "stock", "weekly", "payroll", "sales", "audit", "export", "backup"),
    *("reminder", "digest", "sync", "cleanup", "forecast", "import", "archive"),
)

#: A word in the names of a few actions, for those who search.
RARE_WORD = "quokka"

#: Every so many actions have it.
_RARE_EVERY = 25_000

#: What operations come from: share of them, occurrences of an action in the time, step.
_KINDS = {
    "minutes": (0.25, DAYS * 288, "5 minutes"),
    "hourly": (0.25, DAYS * 24, "1 hour"),
    "daily": (0.25, DAYS, "1 day"),
    "weekly": (0.05, DAYS / 7, "7 days"),
    "monthly": (0.20, DAYS / 30, "1 month"),
}

#: Of the actions that no operations come from: one in so many follows an event.
_FOLLOWS_EVENT = 3

_EVENTS = ("instance.user.last_seen", "instance.user.created", "app.invoice_sent")

_ACTION_COLUMNS = (
    *("uid", "app", "name", "revision", "document", "active", "queue", "overlap"),
    *("timing", "event", "delay", "zone", "catch_up", "effective_from"),
    *("next_due_at", "paused_at", "paused_by", "pause_note", "quarantined_at"),
    *("quarantine_reason", "created_at", "updated_at", "deleted_at"),
)

_CHANGE_COLUMNS = (
    *("number", "at", "by", "app", "kind", "subject", "change", "before", "after"),
    *("previous_hash", "hash"),
)


@dataclass(frozen=True, slots=True)
class Size:
    """How much of each there is; of operations and deliveries, about so many."""

    operations: int = 1_000_000
    actions: int = 100_000
    users: int = 100_000
    events: int = 300_000
    changes: int = 100_000

    @classmethod
    def of(cls, operations: int) -> Self:
        """Return the size with so many *operations*, and of all else in proportion."""
        part = operations / cls().operations
        return cls(
            **{name: round(count * part) for name, count in asdict(cls()).items()}
        )


@dataclass
class Installation:
    """
    What to fill a database with; the same each time but for the instants.

    Args:
        servers: Of its database.
        size: How much.
        now: Aware UTC; everything has happened until then.
    """

    servers: Servers
    size: Size
    now: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        """Divide actions and users among the apps: the next has always a bit less."""
        weights = [1 / number**2 for number in range(1, APPS + 1)]
        total = sum(weights)
        self._bounds = [each / total for each in accumulate(weights)]
        self._random = random.Random(1)

    @staticmethod
    def app(number: int) -> str:
        """Return the uid of the app, of which 1 is the largest and 20 the smallest."""
        return f"app-{number:02}"

    def _draw_app(self) -> str:
        return self.app(1 + min(bisect(self._bounds, self._random.random()), APPS - 1))

    def apps(self) -> Iterator[tuple[Any, ...]]:
        """Return the small apps; their users are numbered without gaps."""
        first = 0
        for number, bound in enumerate(self._bounds, 1):
            until = self.size.users if number == APPS else int(self.size.users * bound)
            yield self.app(number), f"Small app {number}", self.now, first, until
            first = until

    def actions(self) -> Iterator[tuple[dict[str, Any], tuple[Any, ...]]]:
        """Return the actions as columns, and what the SQL needs to know of each."""
        kinds = [
            (kind, step)
            for kind, (share, occurrences, step) in _KINDS.items()
            for _ in range(max(1, round(self.size.operations * share / occurrences)))
        ]
        for number in range(self.size.actions):
            kind, step = kinds[number] if number < len(kinds) else ("other", None)
            # The first five are the largest app's, so that it is what it seems.
            app = self.app(1) if number < APPS // 4 else self._draw_app()
            rule, local, zone = self._make_rule(kind, number)
            columns = self._make_columns(number, app, rule)
            plan = (columns["uid"], app, columns["name"], columns["queue"])
            plan += (columns["revision"], zone, local, step)
            yield columns, plan

    def _make_rule(
        self, kind: str, number: int
    ) -> tuple[dict[str, str], timedelta, str]:
        """Return ``when``, its first instant after the first midnight, and its zone."""
        draw = self._random
        zone = "UTC" if kind in {"minutes", "hourly"} else ZONES[number % len(ZONES)]
        minute, hour = draw.randrange(0, 60, 5), draw.randrange(24)
        first = self.now - timedelta(days=DAYS)
        # Days after the first one, for those that are not due on each.
        days = draw.randrange(
            {"weekly": 7, "monthly": max(1, 29 - first.day)}.get(kind, 1)
        )
        weekday = (first.isoweekday() + days) % 7
        rules = {
            "minutes": "*/5 * * * *",
            "hourly": f"{minute} * * * *",
            "daily": f"{minute} {hour} * * *",
            "weekly": f"{minute} {hour} * * {weekday}",
            "monthly": f"{minute} {hour} {first.day + days} * *",
        }
        at = timedelta(
            days=days,
            hours=0 if kind in {"minutes", "hourly"} else hour,
            minutes=0 if kind == "minutes" else minute,
        )
        if kind in rules:
            return {"cron_rule": rules[kind], "timezone": zone}, at, zone
        if number % _FOLLOWS_EVENT == 0:
            delay = f"P{draw.randrange(1, 31)}D"
            return {"after": _EVENTS[0], "delay": delay, "timezone": zone}, at, zone
        due = self.now.date() + timedelta(days=draw.randrange(1, 300))
        return {"due_date": f"{due}T09:00:00", "timezone": zone}, at, zone

    def _make_columns(
        self, number: int, app: str, rule: dict[str, str]
    ) -> dict[str, Any]:
        draw = self._random
        word = RARE_WORD if number % _RARE_EVERY == 7 else draw.choice(WORDS)
        name = f"{draw.choice(WORDS)} {word} {number}"
        heavy, mails = number % 10 == 9, number % 10 in {4, 6}
        steps: dict[str, Any] = {"run_task": {"name": f"reports.{word}", "queue": "x"}}
        if heavy:
            steps = {"refresh": True, "publish": {"data": True}}
        elif mails:
            steps = {"send_email": {"template": "reminder"}}
        derived = dict(_derive(json.dumps(steps), json.dumps(rule), self.now))
        state = draw.random()
        created_at = self.now - timedelta(days=DAYS * (1 + draw.random()))
        return {
            **derived,
            "uid": f"report-{number}",
            "app": app,
            "name": name,
            "document": json.dumps({**derived["document"], "name": name}),
            "active": not 0.03 < state < 0.05,
            "paused_at": self.now - timedelta(days=9) if state < 0.03 else None,
            "paused_by": "root@host" if state < 0.03 else None,
            "pause_note": "until the new supplier is there" if state < 0.03 else None,
            "quarantined_at": self.now if 0.05 < state < 0.051 else None,
            "quarantine_reason": "no such zone" if 0.05 < state < 0.051 else None,
            "deleted_at": self.now if 0.06 < state < 0.08 else None,
            "revision": 2 if number % 5 == 0 else 1,
            "effective_from": created_at,
            "created_at": created_at,
            "updated_at": created_at,
        }

    def changes(self) -> Iterator[tuple[Any, ...]]:
        """Return a record of changes whose chain holds."""
        draw, previous = self._random, GENESIS
        for number in range(1, self.size.changes + 1):
            ago = timedelta(days=DAYS) * (1 - number / self.size.changes)
            kind = draw.choices(("action", "operation", "user"), (6, 3, 1))[0]
            row = dict.fromkeys(("key_id", "request_id", "note"))
            row |= {
                "number": number,
                "at": self.now - ago,
                "by": f"person-{draw.randrange(40)}@host",
                "app": self._draw_app(),
                "kind": kind,
                "subject": f"{kind}-{draw.randrange(self.size.actions)}",
                "change": {"action": "replaced", "operation": "canceled"}.get(
                    kind, "patched"
                ),
                "before": {"active": True},
                "after": {"active": False},
                "previous_hash": previous,
            }
            previous = row["hash"] = compute_hash(row)
            row |= {key: json.dumps(row[key]) for key in ("before", "after")}
            yield tuple(row[name] for name in _CHANGE_COLUMNS)


@cache
def _derive(steps: str, rule: str, now: datetime) -> dict[str, Any]:
    """Return the columns of an action of this form; cached, for few forms differ."""
    action: ScheduledActionModel = read_action_object(
        {
            "name": "name",
            "operations": json.loads(steps),
            "when": json.loads(rule),
            "recipients": {"groups": ["everybody"]},
        }
    )
    timing = make_timing(action, holidays={}, created_at=now)
    text = None if timing is None else timing_text(timing)
    schedule = None if text is None else parse_timing(text)
    return {
        "document": action_document(action),
        **derive("app", action, text),
        **start_from("uid", schedule, now, LOOKBACK),
    }


def fill_shown(servers: Servers, operations: int) -> Installation:
    """Fill an empty database so that it has *operations*, and print what was done."""
    begin = time.monotonic()
    size = Size.of(operations)
    made = fill(servers, size)
    print(
        f"{size.operations:,} operations and {size.actions:,} actions, "
        f"filled in {time.monotonic() - begin:.0f} s; {describe_load()}"
    )
    return made


def fill(servers: Servers, size: Size) -> Installation:
    """Make the tables in an empty database, fill and analyze them."""
    engine = make_engine(servers.postgres, timeout=timedelta(minutes=10))
    migrate(engine)
    with writing(engine) as connection:
        remember_zones(connection, ZONES)
    engine.dispose()
    made = Installation(servers, size)
    with psycopg.connect(servers.dsn) as connection:
        cursor = connection.cursor()
        cursor.execute("select setseed(0.5)")
        cursor.execute(sql.TEMPORARY)
        indexes = cursor.execute(sql.INDEXES, [sql.LARGE]).fetchall()
        for name, _definition in indexes:
            cursor.execute(f"drop index {name}")
        _fill_apps(cursor, made)
        _fill_actions(cursor, made)
        _fill_operations(cursor, made)
        numbers = {"events": size.events, "apps": APPS, "now": made.now}
        for statement in sql.REST:
            cursor.execute(statement, numbers)
        _copy(cursor, "changes", _CHANGE_COLUMNS, made.changes())
        cursor.execute(sql.CHANGE_HEAD)
        cursor.execute("set local maintenance_work_mem = '256MB'")
        for _name, definition in indexes:
            cursor.execute(definition)
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        connection.execute("vacuum analyze")
        connection.execute("checkpoint")
    return made


def _copy(
    cursor: psycopg.Cursor[Any], table: str, columns: tuple[str, ...], rows: Any
) -> None:
    quoted = ", ".join(f'"{column}"' for column in columns)
    with cursor.copy(f"copy {table} ({quoted}) from stdin") as copy:
        for row in rows:
            copy.write_row(row)


def _fill_apps(cursor: psycopg.Cursor[Any], made: Installation) -> None:
    columns = ("uid", "name", "now", "first_user", "until_user")
    _copy(cursor, "filled_apps", columns, made.apps())
    for statement in sql.APPS_AND_USERS:
        cursor.execute(statement)


def _fill_actions(cursor: psycopg.Cursor[Any], made: Installation) -> None:
    plans = []
    with cursor.copy(
        f"copy scheduled_actions ({', '.join(_ACTION_COLUMNS)}) from stdin"
    ) as copy:
        for columns, plan in made.actions():
            copy.write_row([columns[name] for name in _ACTION_COLUMNS])
            plans.append(plan)
    columns = ("uid", "app", "name", "queue", "revision", "zone", "local", "step")
    _copy(cursor, "plans", columns, plans)
    for statement in sql.REVISIONS:
        cursor.execute(statement)


def _fill_operations(cursor: psycopg.Cursor[Any], made: Installation) -> None:
    begin = (made.now - timedelta(days=DAYS)).replace(
        hour=0, minute=0, second=0, microsecond=0, tzinfo=None
    )
    cursor.execute(sql.OCCURRENCES, {"begin": begin, "now": made.now})
    # The ids are those that the occurrences have anyway: faces look for them.
    with cursor.copy(sql.OCCURRENCES_OUT) as copy:
        lines = b"".join(bytes(part) for part in copy).decode().splitlines()
    with cursor.copy("copy ids (number, id) from stdin") as copy:
        for line in lines:
            number, text = line.split("\t")
            copy.write(f"{number}\t{str_to_uuid(text)}\n")
    for statement in sql.OPERATIONS:
        cursor.execute(statement, {"now": made.now})
