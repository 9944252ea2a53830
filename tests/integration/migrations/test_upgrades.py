"""Old programs on new schemas, new programs on old ones, and what migrations leave."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory

from migrations.live_indexes import make_ahead
from migrations.schema import migrate
from migrations.schema_revisions import (
    check_schema,
    get_known_revisions,
    get_schema_revision,
)
from models.database.engine import Identifier, Json, UtcDateTime, make_engine
from models.errors import UnreachableError, UsageError
from scheduler_server import make_scheduler
from settings import Settings, read_settings
from tests.servers import ROOT, run_process, wait_until

#: The first schema that programs in use were made for.
FIRST = "0001"

LONG_AGO = datetime(2026, 1, 5, 7, tzinfo=UTC)
OPERATION = UUID("1d3ad22c-ec7c-5a35-9d6c-4a7a8ef2d0a1")

SCRIPTS = ScriptDirectory(str(ROOT / "migrations"))


@pytest.fixture
def first(unmigrated_url: str) -> Iterator[sa.Engine]:
    """Give an engine on a database as the first version left it, once a dialect."""
    engine = make_engine(unmigrated_url)
    migrate(engine, FIRST)
    yield engine
    engine.dispose()


def reflect(engine: sa.Engine) -> sa.MetaData:
    """Return the tables of *engine* as they are, with our types: a frozen copy."""
    found = sa.MetaData()
    with engine.connect() as connection:
        found.reflect(connection)
    for table in found.tables.values():
        for column in table.columns:
            column.type = _our_type(column)
    return found


def _our_type(column: sa.Column[Any]) -> sa.types.TypeEngine[Any]:
    name = column.name
    if name.endswith(("_at", "_for")) or name in {"at", "effective_from", "occurrence"}:
        return UtcDateTime
    if name in {"holder", "claim_token", "operation_id"}:
        return Identifier
    if name == "id" and column.table.name in {"events", "operations"}:
        return Identifier
    if isinstance(column.type, sa.JSON):
        return Json
    return column.type


def add_rows(engine: sa.Engine, tables: sa.MetaData) -> None:
    """Do what an old program does, by its own tables: a row in each, one finished."""
    at = {"created_at": LONG_AGO, "updated_at": LONG_AGO}
    rows: dict[str, dict[str, object]] = {
        "leases": {"name": "scheduler", "fence": 7, "expires_at": LONG_AGO},
        "zones": {"name": "X", "data": b"x", "version": "1", "recorded_at": LONG_AGO},
        "small_apps": {"uid": "shop", "name": "Shop", **at},
        "users": {"app": "shop", "id": "ada", "email": "a@b.c", "disabled": False},
        "memberships": {"app": "shop", "group_name": "all", "user_id": "ada"},
        "templates": {"app": "shop", "name": "hello", "subject": "Hello"},
        "holidays": {
            "app": "shop",
            "name": "h",
            "version": 1,
            "days": [],
            "created_at": LONG_AGO,
        },
        "scheduled_actions": {
            "uid": "daily",
            "app": "shop",
            "name": "daily",
            "revision": 1,
            "document": {"a": [1]},
            "active": True,
            "queue": "quick",
            "overlap": "allow",
            "zone": "UTC",
            "catch_up": "none",
            "effective_from": LONG_AGO,
            "next_due_at": LONG_AGO,
            **at,
        },
        "scheduled_action_revisions": {
            "uid": "daily",
            "revision": 1,
            "document": {"a": [1]},
            "active": True,
            "effective_from": LONG_AGO,
            "change": "posted",
            "recorded_at": LONG_AGO,
        },
        "events": {
            "id": uuid4(),
            "app": "shop",
            "name": "app.x",
            "user_id": "ada",
            "at": LONG_AGO,
            "recorded_at": LONG_AGO,
        },
        "operations": {
            "id": OPERATION,
            "action_uid": "daily",
            "action_revision": 1,
            "app": "shop",
            "trigger": "schedule",
            "triggered_by": "x",
            "occurrence": LONG_AGO,
            "queue": "quick",
            "overlap": "allow",
            "state": "pending",
            "recorded_at": LONG_AGO,
            "send_at": LONG_AGO,
        },
        "operation_steps": {
            "operation_id": OPERATION,
            "position": 0,
            "name": "send_email",
            "state": "pending",
        },
        "deliveries": {
            "operation_id": OPERATION,
            "step": "send_email",
            "recipient": "ada",
            "state": "uncertain",
            "updated_at": LONG_AGO,
        },
        "domains": {"app": "shop", "name": "a", "source": {"file": "a.csv"}},
        "domain_versions": {
            "app": "shop",
            "domain": "a",
            "version": 1,
            "path": "a/1.parquet",
            "rows": 1,
            "bytes": 2,
            "sha256": "0",
            "created_at": LONG_AGO,
        },
        "app_documents": {"app": "shop", "part": "design", "staged": {"b": None}},
    }
    operations = tables.tables["operations"]
    with engine.begin() as connection:
        for name, row in rows.items():
            connection.execute(sa.insert(tables.tables[name]).values(row))
        for values in (
            {"state": "queued", "sent_at": LONG_AGO, "sends": 1},
            {"state": "running", "attempt": 1, "claim_token": uuid4(), "worker": "w"},
            {"state": "failed", "claim_token": None, "finished_at": LONG_AGO},
        ):
            done = connection.execute(
                sa.update(operations)
                .where(operations.c.id == OPERATION)
                .values(**values)
            )
            assert done.rowcount == 1


def read_rows(engine: sa.Engine, tables: sa.MetaData) -> dict[str, list[Any]]:
    """Return all rows, in the columns of *tables*."""
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table))]
            for table in tables.sorted_tables
            if table.name != "alembic_version"
        }


def test_revisions_are_read_from_file_names_as_alembic_reads_them():
    """
    What a program knows without Alembic is what Alembic knows.
    """
    walked = [script.revision for script in SCRIPTS.walk_revisions()]

    assert tuple(reversed(walked)) == get_known_revisions()


def test_each_migration_says_whose_programs_go_on_working():
    """
    With a revision that is its own or older, and never older than the one before said.
    """
    said = [
        (script.revision, script.module.compatible_from)
        for script in reversed(list(SCRIPTS.walk_revisions()))
        if script.revision != FIRST  # its programs never ask
    ]
    oldest = [each for _revision, each in said]

    assert all(each <= revision for revision, each in said)
    assert sorted(oldest) == oldest
    assert set(oldest) <= set(get_known_revisions())


def test_data_of_the_first_schema_survives(first: sa.Engine):
    """
    Every row is there after the migration, with every value it had.
    """
    tables = reflect(first)
    add_rows(first, tables)
    before = read_rows(first, tables)

    migrate(first)

    assert before == read_rows(first, tables)
    assert {1} == {len(rows) for rows in before.values()}


def test_programs_of_the_first_schema_go_on_after_the_migration(first: sa.Engine):
    """
    All that they insert and change is taken, by tables that know nothing newer.
    """
    tables = reflect(first)
    migrate(first)

    add_rows(first, tables)

    assert {1} == {len(rows) for rows in read_rows(first, tables).values()}


def test_this_program_refuses_the_first_schema(
    first: sa.Engine, unmigrated_url: str, tmp_path: Path
):
    """
    A scheduler does not start on it, and says what to do.
    """
    with pytest.raises(UsageError, match=r"at schema 0001.*Run: minutehand migrate"):
        make_scheduler(make_settings(unmigrated_url, tmp_path))
    assert FIRST == get_schema_revision(first)


def make_settings(url: str, home: Path) -> Settings:
    """Return the settings of a scheduler on the database at *url*."""
    environ = {"MINUTEHAND_DATABASE_URL": url, "MINUTEHAND_HOME": str(home)}
    return read_settings(environ, env_file=None)


@pytest.mark.parametrize("lost", ["installation", "leases"])
def test_schema_that_became_newer_is_told_as_that(
    first: sa.Engine, unmigrated_url: str, tmp_path: Path, lost: str
):
    """
    By a scheduler that runs, by migrate and by those who start; none of them crashes
    over a table that is no more.
    """
    migrate(first)
    scheduler = make_scheduler(make_settings(unmigrated_url, tmp_path))
    scheduler.wake()
    with first.begin() as connection:
        connection.execute(sa.text("update installation set compatible_from = '9998'"))
        connection.execute(sa.text("update alembic_version set version_num = '9999'"))
        connection.execute(sa.text(f"alter table {lost} rename to newer_{lost}"))
        connection.execute(sa.text("alter table operations rename to newer_operations"))

    refusing: list[Callable[[], object]] = [
        scheduler.wake,
        partial(migrate, first),
        partial(check_schema, first),
    ]
    for refuse in refusing:
        with pytest.raises(UsageError, match="this program is older than its"):
            refuse()
    scheduler.engine.dispose()


_ADD_INSTALLATION = (
    "insert into installation (id, secret, created_at, compatible_from)"
    " values (:id, 'secret', :at, :oldest)"
)


@pytest.fixture
def newer(engine: sa.Engine) -> Iterator[Callable[[str | None], None]]:
    """Give a function that migrates as a program of the future would."""

    def migrate_on(compatible_from: str | None) -> None:
        with engine.begin() as connection:
            connection.execute(sa.text("update alembic_version set version_num='9999'"))
            connection.execute(sa.text("delete from installation"))
            connection.execute(
                sa.text(_ADD_INSTALLATION),
                {"id": str(uuid4()), "at": LONG_AGO, "oldest": compatible_from},
            )

    yield migrate_on
    with engine.begin() as connection:  # which other tests use in turn
        connection.execute(
            sa.text("update alembic_version set version_num = :head"),
            {"head": get_known_revisions()[-1]},
        )


def test_newer_schema_that_lets_this_program_work_is_accepted(
    engine: sa.Engine, newer: Callable[[str | None], None]
):
    """
    By those who start, and by migrate, which leaves it as it is.
    """
    newer(get_known_revisions()[-1])

    migrate(engine)

    assert check_schema(engine).is_newer
    assert "9999" == get_schema_revision(engine)


@pytest.mark.parametrize("compatible_from", ["9998", None])
def test_newer_schema_that_does_not_is_refused(
    engine: sa.Engine,
    newer: Callable[[str | None], None],
    compatible_from: str | None,
):
    """
    The program is to blame, not the database: to migrate would not help.
    """
    newer(compatible_from)

    for refusing in (check_schema, migrate):
        with pytest.raises(UsageError, match="this program is older than its") as told:
            refusing(engine)
        assert "minutehand migrate" not in str(told.value)


#: SQLite has one writer at a time, whatever it does.
ON_POSTGRESQL = pytest.mark.parametrize("unmigrated_url", ["postgresql"], indirect=True)


@contextmanager
def migrating(engine: sa.Engine) -> Iterator[list[BaseException]]:
    """Migrate in a thread for the length of the block; gives what it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            migrate(engine)
        except BaseException as error:  # noqa: BLE001 - told by the thread that asks
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield errors
    thread.join()


@ON_POSTGRESQL
def test_writers_go_on_while_indexes_are_made(first: sa.Engine):
    """
    An index that waits for an older transaction keeps no newer one waiting.
    """
    tables = reflect(first)
    add_rows(first, tables)
    operations = tables.tables["operations"]
    with first.begin() as connection:
        # its table is asked for briefly and again, as the test below says
        columns = [
            column
            for script in SCRIPTS.walk_revisions()
            for column in getattr(script.module, "LIVE_COLUMNS", ())
        ]
        for column in columns:
            connection.execute(sa.text(column.compile(first.dialect)))
    waits = sa.text(
        "select count(*) from pg_stat_progress_create_index where phase like 'waiting%'"
    )

    def is_waiting() -> bool:
        with first.connect() as connection:
            return bool(connection.execute(waits).scalar_one())

    with first.connect() as older:
        older.execute(sa.update(operations).values(attempt=2))
        with migrating(first) as errors:
            wait_until(is_waiting, what="the index to wait")
            with first.begin() as newer:
                newer.execute(sa.text("set local lock_timeout = '1 s'"))
                row = newer.execute(sa.select(operations)).mappings().one()
                newer.execute(sa.insert(operations).values({**row, "id": uuid4()}))
            older.commit()

    assert [] == errors
    check_schema(first)


@ON_POSTGRESQL
def test_index_that_was_left_half_made_is_made_anew(first: sa.Engine):
    """
    A migration that was killed can be run again.
    """
    with first.begin() as connection:
        connection.execute(
            sa.text("create index ix_operations_troubled on operations (finished_at)")
        )
        connection.execute(
            sa.text(
                "update pg_index set indisvalid = false"
                " where indexrelid = 'ix_operations_troubled'::regclass"
            )
        )

    migrate(first)

    (index,) = (
        each
        for each in sa.inspect(first).get_indexes("operations")
        if each["name"] == "ix_operations_troubled"
    )
    assert "failed" in index["dialect_options"]["postgresql_where"]


@ON_POSTGRESQL
def test_index_that_is_there_keeps_no_writer_out(first: sa.Engine):
    """
    Nor does the migration wait for one: two that wait for each other are a deadlock.
    """
    tables = reflect(first)
    add_rows(first, tables)
    newest = SCRIPTS.get_revision("0002")
    make_ahead(first, [newest.module])
    pauses: list[float] = []
    with first.connect() as writer:
        writer.execute(sa.update(tables.tables["operations"]).values(attempt=2))
        migrate(first, "0002", sleep=pauses.append)

    assert [] == pauses


@ON_POSTGRESQL
def test_table_in_use_is_asked_for_briefly_and_again(first: sa.Engine):
    """
    A dump that holds every table delays the migration, and the tick not at all.
    """
    pauses = []
    with first.connect() as dump:
        dump.execute(sa.text("lock table small_apps in access share mode"))

        def end_dump(pause_s: float) -> None:
            pauses.append(pause_s)
            dump.rollback()

        migrate(first, sleep=end_dump)

    assert 1 == len(pauses)
    check_schema(first)


@ON_POSTGRESQL
def test_table_that_stays_in_use_is_told_of(first: sa.Engine):
    """
    The migration ends in the end, and nothing of it is left.
    """
    with first.connect() as dump:
        dump.execute(sa.text("set idle_in_transaction_session_timeout = 0"))
        dump.execute(sa.text("lock table small_apps in access share mode"))
        live_limit = "migrations.schema.LOCK_TIMEOUT"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(live_limit, timedelta(milliseconds=10))
            with pytest.raises(UnreachableError, match="lock timeout"):
                migrate(first, sleep=lambda _pause_s: None)

    assert FIRST == get_schema_revision(first)


@pytest.fixture
def environ(unmigrated_url: str, redis_url: str, tmp_path: Path) -> dict[str, str]:
    """Give what a worker is told, on a database without any table."""
    return {
        **os.environ,
        "MINUTEHAND_HOME": str(tmp_path / "home"),
        "MINUTEHAND_DATABASE_URL": unmigrated_url,
        "MINUTEHAND_BROKER_URL": redis_url,
    }


WORKER = (sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-P", "solo")


def test_worker_of_celery_refuses_a_schema_that_is_not_its_own(
    environ: dict[str, str],
):
    """
    At once, with exit code 2 and one line.
    """
    done = subprocess.run(
        WORKER, cwd=ROOT, env=environ, capture_output=True, check=False, timeout=60
    )

    assert (2, b"") == (done.returncode, done.stdout)
    assert b"Run: minutehand migrate" in done.stderr
    assert 1 == len(done.stderr.splitlines())


@ON_POSTGRESQL
def test_worker_outlives_a_database_that_is_away_but_no_wrong_schema(
    first: sa.Engine, environ: dict[str, str], tmp_path: Path, postgres_server_url: str
):
    """
    It starts without the database, and stops when that turns out to be a stranger.
    """
    server = sa.create_engine(postgres_server_url, isolation_level="AUTOCOMMIT")
    name, log = first.url.database, tmp_path / "worker.log"
    first.dispose()

    def allow(word: str) -> None:
        with server.connect() as connection:
            connection.execute(
                sa.text(f"alter database {name} with allow_connections {word}")
            )

    allow("false")
    with run_process(WORKER, log=log, environ=environ) as worker:
        wait_until(
            lambda: log.read_text().count("database_unreachable") > 1,
            what="a start",
        )
        was_running = worker.poll() is None
        allow("true")
        wait_until(lambda: worker.poll() is not None, what="its end")
    server.dispose()

    assert was_running
    assert "database_unreachable" in log.read_text()
    assert "schema_refused" in log.read_text()
