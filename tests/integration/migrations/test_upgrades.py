"""Old programs on new schemas, new programs on old ones, and what migrations leave."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import Script, ScriptDirectory

from migrations.live_indexes import make_ahead
from migrations.schema import make_config, migrate
from migrations.schema_revisions import (
    VERSIONS,
    check_schema,
    get_known_revisions,
    get_newest_revision,
    get_schema_revision,
)
from models.database.engine import Identifier, Json, UtcDateTime, make_engine, writing
from models.database.tables import installation, metadata
from models.errors import UnreachableError, UsageError
from scheduler_server import Scheduler
from tests.database import execute
from tests.scheduling import make_settings
from tests.servers import ROOT, run_process, wait_until

#: The first schema that programs in use were made for.
FIRST = "0001"

#: A schema of the future: what a migration may do while everybody works.
NEXT = f"{int(get_newest_revision()) + 1:04}"
_NEXT_FILE = """
import sqlalchemy as sa
from alembic import op

from migrations.live_indexes import LiveColumn, LiveIndex

revision, down_revision = "{next}", "{newest}"
branch_labels = depends_on = None
compatible_from = "{first}"
LIVE_COLUMNS = (LiveColumn("operations", "shade", sa.Text(), default="'pale'"),)
LIVE_INDEXES = (
    LiveIndex(
        "ix_operations_shade", "operations", "finished_at", "state = 'failed'"
    ),
)


def upgrade() -> None:
    op.add_column("small_apps", sa.Column("colour", sa.Text()))
    for each in (*LIVE_COLUMNS, *LIVE_INDEXES):
        each.create()
"""

LONG_AGO = datetime(2026, 1, 5, 7, tzinfo=UTC)
OPERATION = UUID("1d3ad22c-ec7c-5a35-9d6c-4a7a8ef2d0a1")


@pytest.fixture
def first(unmigrated_url: str) -> Iterator[sa.Engine]:
    """Give an engine on a database as the first version left it, once a dialect."""
    engine = make_engine(unmigrated_url)
    with writing(engine) as connection:
        command.upgrade(make_config(connection), FIRST)
        values = {"compatible_from": FIRST}
        connection.execute(sa.update(installation).values(values))
    yield engine
    engine.dispose()


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """Give the migrations of a version to come: all of ours, and one more."""
    folder = tmp_path / "versions"
    shutil.copytree(VERSIONS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    text = _NEXT_FILE.format(next=NEXT, newest=get_newest_revision(), first=FIRST)
    (folder / f"{NEXT}_look_ahead.py").write_text(text)
    return folder


def read_scripts(versions: Path) -> list[Script]:
    """Return the migrations in *versions*, in their order, as Alembic reads them."""
    directory = ScriptDirectory.from_config(make_config(versions=versions))
    return [*directory.walk_revisions()][::-1]


def reflect(engine: sa.Engine) -> sa.MetaData:
    """Return the tables of *engine* as they are, with our types: a frozen copy."""
    found = sa.MetaData()
    found.reflect(engine)
    for table in found.tables.values():
        for column in table.columns:
            with suppress(KeyError):  # what the code has no longer
                column.type = metadata.tables[table.name].columns[column.name].type
    return found


def add_rows(engine: sa.Engine, tables: sa.MetaData) -> None:
    """Do what an old program does, by its own tables: a row in each, one finished."""
    operations = tables.tables["operations"]
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            if table.name not in _HAVE_ROWS:
                columns = [each for each in table.columns if _must_be_given(each)]
                row = {each.name: make_value(each.type) for each in columns}
                connection.execute(sa.insert(table).values(row))
        for values in (
            {"state": "queued", "sent_at": LONG_AGO, "sends": 1},
            {"state": "running", "attempt": 1, "claim_token": uuid4(), "worker": "w"},
            {"state": "failed", "claim_token": None, "finished_at": LONG_AGO},
        ):
            done = connection.execute(sa.update(operations).values(**values))
            assert done.rowcount == 1


#: By the migration itself.
_HAVE_ROWS = {"alembic_version", "change_head", "installation"}


def _must_be_given(column: sa.Column[Any]) -> bool:
    return not column.nullable and column.server_default is None


def make_value(kind: sa.types.TypeEngine[Any]) -> object:
    """Return a value of *kind*, always the same, so that keys lead to their rows."""
    values = {
        id(UtcDateTime): LONG_AGO,
        id(Identifier): OPERATION,
        id(Json): {"a": [1, None]},
    }
    by_class = {sa.Boolean: True, sa.LargeBinary: b"x", sa.Numeric: 1, sa.Integer: 1}
    for known, value in by_class.items():
        if isinstance(kind, known):
            return value
    return values.get(id(kind), "x")


def read_rows(engine: sa.Engine, tables: sa.MetaData) -> dict[str, list[Any]]:
    """Return all rows but those of `_HAVE_ROWS`, in the columns of *tables*."""
    with engine.connect() as connection:
        return {
            table.name: [tuple(row) for row in connection.execute(sa.select(table))]
            for table in tables.sorted_tables
            if table.name not in _HAVE_ROWS
        }


def test_revisions_are_read_from_file_names_as_alembic_reads_them(later: Path):
    """What a program knows without Alembic is what Alembic knows."""
    walked = [script.revision for script in read_scripts(later)]

    assert tuple(walked) == get_known_revisions(later)


def test_each_migration_says_whose_programs_go_on_working(later: Path):
    """None older than the one before said."""
    said = [
        (script.revision, script.module.compatible_from)
        for script in read_scripts(later)
    ]
    oldest = [each for _revision, each in said]

    assert all(each <= revision for revision, each in said)
    assert sorted(oldest) == oldest
    assert set(oldest) <= set(get_known_revisions())


def test_data_of_the_first_schema_survives(first: sa.Engine, later: Path):
    tables = reflect(first)
    add_rows(first, tables)
    before = read_rows(first, tables)

    migrate(first, versions=later)

    assert before == read_rows(first, tables)
    assert {1} == {len(rows) for rows in before.values()}


def test_programs_of_the_first_schema_go_on_after_the_migration(
    first: sa.Engine, later: Path
):
    """All that they insert and change is taken, by tables that know nothing newer."""
    tables = reflect(first)
    migrate(first, versions=later)

    add_rows(first, tables)

    assert {1} == {len(rows) for rows in read_rows(first, tables).values()}
    assert check_schema(first).is_newer


def test_program_refuses_a_schema_before_its_own(first: sa.Engine, later: Path):
    with pytest.raises(
        UsageError, match=rf"at schema {FIRST}.* needs {NEXT}. Run: minutehand migrate"
    ):
        check_schema(first, later)


def test_scheduler_does_not_start_without_a_schema(unmigrated_url: str, tmp_path: Path):
    """Nor does it make one, which only ``migrate`` and ``up`` do."""
    settings = make_settings(DATABASE_URL=unmigrated_url, HOME=str(tmp_path))
    with pytest.raises(UsageError, match=r"at schema none.*Run: minutehand migrate"):
        Scheduler.make(settings)

    assert get_schema_revision(make_engine(unmigrated_url)) is None


@pytest.mark.parametrize("lost", ["installation", "leases"])
def test_schema_that_became_newer_is_told_as_that(
    first: sa.Engine, unmigrated_url: str, tmp_path: Path, lost: str
):
    """
    By a scheduler that runs, by migrate and by those who start; none of them crashes
    over a table that is no more.
    """
    migrate(first)
    scheduler = Scheduler.make(
        make_settings(DATABASE_URL=unmigrated_url, HOME=str(tmp_path))
    )
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
    execute(
        engine,
        sa.text("update alembic_version set version_num = :head"),
        {"head": get_known_revisions()[-1]},
    )


def test_newer_schema_that_lets_this_program_work_is_accepted(
    engine: sa.Engine, newer: Callable[[str | None], None]
):
    newer(get_known_revisions()[-1])

    migrate(engine)

    assert check_schema(engine).is_newer
    assert "9999" == get_schema_revision(engine)


@pytest.mark.parametrize("compatible_from", ["9998", None])
def test_newer_schema_that_does_not_is_refused(
    engine: sa.Engine, newer: Callable[[str | None], None], compatible_from: str | None
):
    """The program is to blame, not the database: to migrate would not help."""
    newer(compatible_from)

    for refusing in (check_schema, migrate):
        with pytest.raises(UsageError, match="this program is older than its") as told:
            refusing(engine)
        assert "minutehand migrate" not in str(told.value)


#: SQLite has one writer at a time, whatever it does.
ON_POSTGRESQL = pytest.mark.parametrize("unmigrated_url", ["postgresql"], indirect=True)


@contextmanager
def migrating(engine: sa.Engine, versions: Path) -> Iterator[list[BaseException]]:
    """Migrate in a thread for the length of the block; gives what it raised."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            migrate(engine, versions=versions)
        except BaseException as error:  # noqa: BLE001 - told by the thread that asks
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    yield errors
    thread.join()


@ON_POSTGRESQL
def test_writers_go_on_while_indexes_are_made(first: sa.Engine, later: Path):
    """An index that waits for an older transaction keeps no newer one waiting."""
    tables = reflect(first)
    add_rows(first, tables)
    operations = tables.tables["operations"]
    with first.begin() as connection:
        # its table is asked for briefly and again, as the test below says
        columns = [
            column
            for script in read_scripts(later)
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
        with migrating(first, later) as errors:
            wait_until(is_waiting, what="the index to wait")
            with first.begin() as newer:
                newer.execute(sa.text("set local lock_timeout = '1 s'"))
                row = newer.execute(sa.select(operations)).mappings().one()
                newer.execute(sa.insert(operations).values({**row, "id": uuid4()}))
            older.commit()

    assert [] == errors
    check_schema(first, later)


@ON_POSTGRESQL
def test_index_that_was_left_half_made_is_made_anew(first: sa.Engine, later: Path):
    """A migration that was killed can be run again."""
    with first.begin() as connection:
        connection.execute(
            sa.text("create index ix_operations_shade on operations (finished_at)")
        )
        connection.execute(
            sa.text(
                "update pg_index set indisvalid = false"
                " where indexrelid = 'ix_operations_shade'::regclass"
            )
        )

    migrate(first, versions=later)

    (index,) = (
        each
        for each in sa.inspect(first).get_indexes("operations")
        if each["name"] == "ix_operations_shade"
    )
    assert "failed" in index["dialect_options"]["postgresql_where"]


@ON_POSTGRESQL
def test_index_that_is_there_keeps_no_writer_out(first: sa.Engine, later: Path):
    """Nor is one waited for: two that wait for each other are a deadlock."""
    tables = reflect(first)
    add_rows(first, tables)
    make_ahead(first, [read_scripts(later)[-1].module])
    pauses: list[float] = []
    with first.connect() as writer:
        writer.execute(sa.update(tables.tables["operations"]).values(attempt=2))
        migrate(first, versions=later, sleep=pauses.append)

    assert [] == pauses


@ON_POSTGRESQL
def test_table_in_use_is_asked_for_briefly_and_again(first: sa.Engine, later: Path):
    """A dump that holds every table delays the migration, and the tick not at all."""
    pauses = []
    with first.connect() as dump:
        dump.execute(sa.text("lock table small_apps in access share mode"))

        def end_dump(pause_s: float) -> None:
            pauses.append(pause_s)
            dump.rollback()

        migrate(first, versions=later, sleep=end_dump)

    assert 1 == len(pauses)
    check_schema(first, later)


@ON_POSTGRESQL
def test_table_that_stays_in_use_is_told_of(first: sa.Engine, later: Path):
    """The migration ends in the end, and nothing of it is left."""
    with first.connect() as dump:
        dump.execute(sa.text("set idle_in_transaction_session_timeout = 0"))
        dump.execute(sa.text("lock table small_apps in access share mode"))
        with pytest.raises(UnreachableError, match="lock timeout"):
            migrate(
                first,
                versions=later,
                lock_timeout=timedelta(milliseconds=10),
                sleep=lambda _pause_s: None,
            )

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


@ON_POSTGRESQL
def test_worker_of_celery_refuses_a_schema_that_is_not_its_own(environ: dict[str, str]):
    """At once, with exit code 2 and one line."""
    done = subprocess.run(
        WORKER, cwd=ROOT, env=environ, capture_output=True, check=False, timeout=60
    )

    assert (2, b"") == (done.returncode, done.stdout)
    assert b"Run: minutehand migrate" in done.stderr
    assert 1 == len(done.stderr.splitlines())


@ON_POSTGRESQL
def test_worker_outlives_a_database_that_is_away_but_no_wrong_schema(
    unmigrated_url: str,
    environ: dict[str, str],
    tmp_path: Path,
    postgres_server_url: str,
):
    """It starts without it, and stops when that is a stranger."""
    server = sa.create_engine(postgres_server_url, isolation_level="AUTOCOMMIT")
    name, log = sa.make_url(unmigrated_url).database, tmp_path / "worker.log"

    def allow(word: str) -> None:
        with server.connect() as connection:
            connection.execute(
                sa.text(f"alter database {name} with allow_connections {word}")
            )

    allow("false")
    with run_process(WORKER, log=log, environ=environ) as worker:
        wait_until(
            lambda: log.read_text().count("database_unreachable") > 1, what="a start"
        )
        was_running = worker.poll() is None
        allow("true")
        wait_until(lambda: worker.poll() is not None, what="its end")
    server.dispose()

    assert was_running
    assert "database_unreachable" in log.read_text()
    assert "schema_refused" in log.read_text()
