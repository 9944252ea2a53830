"""The database: its schema, how it is reached, whether we may write; and the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from importlib import import_module

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from actions.read_actions import fetch_task_queues
from migrations.schema_revisions import check_schema
from models.database.engine import is_pooled, make_engine, writing
from models.database.journal import rolled_back
from models.database.sqlite_place import find_sqlite_file
from models.database.tables import leases, metadata, small_apps
from models.errors import (
    BrokerUnreachableError,
    RefusedError,
    UnreachableError,
    UsageError,
)
from models.units import format_bytes
from operations.fleet.processes import measure_free
from operations.fleet.strangers import fetch_strangers
from overview.doctor.checks.scheduler import is_tick_late
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import LOCKED_AFTER, NO_SPACE
from settings import Settings

_UNWRITTEN = (
    "Nothing is recorded, sent or finished until it takes writes again; what is due"
    " stays due."
)


def look_at_database(view: View) -> Iterator[Finding]:
    """Look whether the database takes writes; a replica answers, and takes none."""
    reason = _find_read_only(view.connection)
    if reason is not None:
        title = "the database is read-only"
        yield Finding("database", Health.BAD, f"{title}: {reason} {_UNWRITTEN}", title)
        return
    path = find_sqlite_file(view.settings.database_url)
    free = None if path is None else measure_free(path.parent)
    if free is not None and free < NO_SPACE:
        title = "the disk of the database is full"
        detail = f"{title}: {format_bytes(free)} free at {path}. Free some space."
        yield Finding("database", Health.BAD, f"{detail} {_UNWRITTEN}", title)
    elif (refused := _try_to_write(view)) is not None:
        title = refused.partition(":")[0]
        said = refused if view.app is None else title
        yield Finding("database", Health.BAD, f"{said}. {_UNWRITTEN}", title)
    else:
        yield Finding("database", Health.GOOD, "it takes writes")


#: 200 kB in a table of this session alone: a file that has to grow. A row that fits in
#: a page that is there, such as a heartbeat, is written on a full disk, too.
_PROBE = """
create temporary table minutehand_probe on commit drop as
select string_agg(md5(random()::text), '') as filling
from generate_series(1, 6000) n group by n / 50
"""


#: A lock of SQLite's that is held for longer is waited for in vain: what holds one does
#: so for milliseconds, and no tick came.
_LOCKED_FOR = timedelta(seconds=1)


def _try_to_write(view: View) -> str | None:
    """
    Return why something that is taken back cannot be written; None: it can.

    Asked only when no tick comes, since it costs a hundred times what a look costs.
    """
    engine = view.connection.engine
    if not is_tick_late(view.holder, view.ticked_at, view.now):
        return None
    try:
        with ExitStack() as opened:
            if engine.dialect.name == "sqlite":  # its lock is what it lacks
                engine = make_engine(str(engine.url), timeout=_LOCKED_FOR)
                opened.callback(engine.dispose)
            connection = opened.enter_context(writing(engine))
            opened.enter_context(rolled_back(connection))
            if engine.dialect.name == "postgresql":
                connection.exec_driver_sql(_PROBE)
    except RefusedError:  # temporary tables are not for everybody
        return None
    except UnreachableError as error:
        return str(error)
    return None


def _find_read_only(connection: sa.Connection) -> str | None:
    """Return why nothing can be written; None: PostgreSQL takes writes, or SQLite."""
    if connection.dialect.name != "postgresql":
        return None
    is_replica, is_read_only = connection.execute(
        sa.text(
            "select pg_is_in_recovery(), current_setting('transaction_read_only')::bool"
        )
    ).one()
    if is_replica:
        return (
            "it is a replica. Promote it, or let MINUTEHAND_DATABASE_URL name the"
            " primary."
        )
    if is_read_only:
        connection.detach()  # its session stays so when the switch is off again
        return (
            "default_transaction_read_only is on, for the server, the database or the"
            " role. Switch it off."
        )
    return None


#: Who has locked rows, or all, of which tables of ours: sessions of others, since ours
#: end by themselves, and prepared transactions. Not every role may know since when.
_HOLDERS = sa.text(
    """
    SELECT a.pid, quote_literal(p.gid) AS gid,
        coalesce(a.xact_start, p.prepared) AS since,
        concat_ws(', ', a.usename, p.owner, a.application_name) AS who,
        string_agg(DISTINCT l.relation::regclass::text, ', ') AS tables
    FROM pg_locks l LEFT JOIN pg_stat_activity a USING (pid)
        LEFT JOIN (
            pg_locks x JOIN pg_prepared_xacts p ON x.transactionid = p.transaction
        ) ON l.pid IS NULL AND x.virtualtransaction = l.virtualtransaction
    WHERE l.database = (
            SELECT oid FROM pg_database WHERE datname = current_database()
        ) -- or a copy's table has the same number
        AND l.relation::regclass::text = ANY(:ours)
        AND l.granted
        AND l.mode NOT IN ('AccessShareLock', 'ShareUpdateExclusiveLock')
        AND a.application_name IS DISTINCT FROM 'minutehand'
        AND (coalesce(a.xact_start, p.prepared) > :until) IS NOT TRUE
    GROUP BY 1, 2, 3, 4
    ORDER BY 3, 1
    """
)


def look_at_locks(view: View) -> Iterator[Finding]:
    """Look who keeps rows locked that we may have to write."""
    if view.connection.dialect.name != "postgresql":
        return
    given = {"ours": sorted(metadata.tables), "until": view.now - LOCKED_AFTER}
    for row in view.connection.execute(_HOLDERS, given):
        name, end = f"session {row.pid}", f"select pg_terminate_backend({row.pid})"
        if row.pid is None:
            name, end = (
                f"prepared transaction {row.gid}",
                f"rollback prepared {row.gid}",
            )
        since = "" if row.since is None else f" since {view.show(row.since)}"
        what = "What it holds waits, and all else goes on"
        if leases.name in row.tables.split(", "):
            what = "The scheduler stands still until then"
        detail = (
            f"{name} ({row.who}) keeps rows of {row.tables} locked{since}. {what}. Let"
            f" it end its transaction, or end it: {end}"
        )
        yield Finding("locks", Health.BAD, detail, "rows are locked", row.since)


def look_at_grants(view: View) -> Iterator[Finding]:
    """Look for rights that the database user needs and lacks."""
    missing = find_missing_grants(view.connection)
    for each in missing:
        yield Finding("grants", Health.BAD, each, "a right in the database is missing")
    if not missing:
        found = "the database user has all that schedulers and workers need"
        yield Finding("grants", Health.GOOD, found)


def look_at_pooler(view: View) -> Iterator[Finding]:
    """Say that a pooler stands between, if one does."""
    if is_pooled(view.connection):
        found = (
            "one stands between us and PostgreSQL: each transaction says its deadlines"
            " itself, and nothing is left in a session"
        )
        yield Finding("pooler", Health.GOOD, found)


#: What whoever balances load is told, too.
OTHER_SCHEMA = "the schema is of another version"


def look_at_schema(view: View) -> Iterator[Finding]:
    """Compare the schema of the database with that of this version."""
    try:
        schema = check_schema(view.connection.engine)
    except UsageError as error:
        yield Finding("schema", Health.BAD, str(error), OTHER_SCHEMA)
        return
    if schema.is_newer:
        found = (
            f"the database is at {schema.found}, newer than this program's own "
            f"({schema.wanted}) but compatible. Upgrade the program (docs/upgrades.md)."
        )
        title = "the database is newer than this program"
        yield Finding("schema", Health.DOUBTFUL, found, title)
    else:
        yield Finding("schema", Health.GOOD, "it is that of this version")


#: Small apps that share what nobody has given to one of them.
_SEVERAL = 2


def look_at_broker(view: View) -> Iterator[Finding]:
    """Ask the broker that this process's settings name; declare missing queues."""
    settings = view.settings
    if settings.is_embedded:
        yield Finding("broker", Health.GOOD, "in the memory of minutehand up")
        return
    # Celery takes half a second to import.
    app = import_module("celery_app.app").make_app(settings)
    sender = import_module("celery_app.operation_sender").CelerySender(
        app, timeout=settings.broker_timeout
    )
    try:
        sender.find_empty_queues()
    except BrokerUnreachableError as error:
        found = str(error).removesuffix(".")
        detail = f"{found}. Start it, correct its URL, or mend what it says."
        yield Finding("broker", Health.BAD, detail, "the broker does not answer")
    else:
        yield Finding("broker", Health.GOOD, "it answers and has all queues")
        if (policy := sender.find_evicting_policy()) is not None:
            detail = (
                f"its maxmemory-policy is {policy}: when it lacks memory it deletes"
                " queues, and what waits there is late. Set it to noeviction."
            )
            title = "the broker may delete what waits"
            yield Finding("broker", Health.DOUBTFUL, detail, title)
        yield from _look_aside(settings)
    finally:
        sender.close()


def _look_aside(settings: Settings) -> Iterator[Finding]:
    try:
        with import_module("celery_app.aside").open_aside(settings) as aside:
            count = aside.count()
    except BrokerUnreachableError as error:
        yield Finding("aside", Health.DOUBTFUL, str(error))
        return
    if count:
        yield Finding(
            "aside",
            Health.DOUBTFUL,
            f"{count:,} from our queues could not be read, and lie aside. To see what"
            " they are, and find out who sends them: minutehand queues aside. To delete"
            " them: minutehand queues aside --empty",
        )


def look_at_strangers(view: View) -> Iterator[Finding]:
    """Report who else uses our queues, and what to do."""
    for each in fetch_strangers(view.connection):
        title = "strangers use our queues"
        yield Finding(f"queue {each.queue}", Health.BAD, each.hint, title)


def look_at_tasks(view: View) -> Iterator[Finding]:
    """Ask the brokers of the queues that ``run_task`` names."""
    queues = fetch_task_queues(view.connection)
    yield from _look_at_sharing(view, any(each.connection is None for each in queues))
    if not queues:
        return
    # Celery takes half a second to import.
    look = import_module("celery_app.foreign_queues").look_at_task_queues
    for found in look(queues, view.settings):
        bad = Health.DOUBTFUL if found.is_reachable else Health.BAD
        health = Health.GOOD if found.is_well else bad
        title = "" if found.is_well else "tasks of users' own cannot run"
        yield Finding(found.subject, health, found.detail, title)


def _look_at_sharing(view: View, is_ours_used: bool) -> Iterator[Finding]:  # noqa: FBT001 - one fact
    """Look for connections that nobody has given to some of the small apps."""
    settings = view.settings
    named = (
        ["", *settings.task_connections] if is_ours_used else settings.task_connections
    )
    rules = settings.task_rules
    shared = [name for name in named if name not in rules or rules[name].apps is None]
    kept = small_apps.c
    count = sa.select(sa.func.count()).where(
        kept.uid != SYSTEM_APP, kept.deleted_at.is_(None)
    )
    if not shared or view.connection.execute(count).scalar_one() < _SEVERAL:
        return
    over = ", ".join(name or "Minutehand's own broker" for name in shared)
    detail = (
        f"each small app may send any task over {over}. List those that may, as"
        ' "apps", in MINUTEHAND_TASK_RULES; "*" is all'
    )
    yield Finding("connections", Health.DOUBTFUL, detail)


#: What schedulers and workers do to each table.
_NEEDED = ("SELECT", "INSERT", "UPDATE", "DELETE")

#: To these they do less, so that a role without more cannot do it either.
_LESS = {"changes": ("SELECT", "INSERT")}

#: Alembic's table, which says which schema the database has.
_VERSION = "alembic_version"

#: A table that does not exist is left out: its migration has not been applied. Before
#: the first one, the schema has to take tables.
_MISSING = sa.text(
    """
    (SELECT current_user AS role, pair->>0 AS named, pair->>1 AS needed
    FROM jsonb_array_elements(CAST(:pairs AS jsonb)) WITH ORDINALITY
        AS pairs (pair, place)
    WHERE NOT has_table_privilege(to_regclass(pair->>0), pair->>1)
    ORDER BY place)
    UNION ALL
    SELECT current_user, 'SCHEMA ' || named, needed
    FROM coalesce(current_schema(), 'public') AS named,
        unnest(ARRAY['USAGE', 'CREATE']) AS needed
    WHERE to_regclass(:version) IS NULL AND NOT has_schema_privilege(named, needed)
    """
)


def find_missing_grants(connection: sa.Connection) -> list[str]:
    """
    Return which rights the role of *connection* lacks, and how to grant them.

    Args:
        connection: To a database, migrated or not. SQLite has no rights.

    Returns:
        A sentence for each table, or for the schema; empty if every right is granted.
    """
    if connection.dialect.name != "postgresql":
        return []
    pairs = [
        *(
            (table, right)
            for table in sorted(metadata.tables)
            for right in _LESS.get(table, _NEEDED)
        ),
        (_VERSION, "SELECT"),
    ]
    values = {"pairs": json.dumps(pairs), "version": _VERSION}
    rows = connection.execute(_MISSING, values)
    missing: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        missing.setdefault((row.role, row.named), []).append(row.needed)
    return [
        f"the role {role} lacks {', '.join(rights)} on {table}."
        f" Run: GRANT {', '.join(rights)} ON {table} TO {role}"
        for (role, table), rights in missing.items()
    ]
