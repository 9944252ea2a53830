"""Behind PgBouncer, each transaction may be in a session of somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from celery_app.tasks import execute
from migrations.schema import migrate
from models.database.engine import (
    execute_at_once,
    is_pooled,
    make_engine,
    reading,
    reading_once,
    writing,
)
from models.database.postgresql import set_deadline
from models.database.tables import small_apps
from models.database.transaction import departing
from models.errors import UnreachableError, UsageError
from operations.claiming.heart import Heart, Worker
from overview.doctor.examine import find_trouble
from overview.doctor.finding import Health
from settings import Settings
from tests.conftest import run_pooler
from tests.database import read_by, write_by
from tests.scheduling import (
    add_app,
    add_revision,
    at,
    copy_action,
    fetch_all,
    make_dispatcher,
    make_operation,
    post_at,
    record_all,
    tick,
)
from tests.unit.operations.fakes import World

ADD = (
    sa.insert(small_apps)
    .values(uid=sa.bindparam("uid"), name="an app")
    .returning(small_apps.c.uid)
)
SEVEN = at("07:00")

#: What holds in a session, as far as we say it.
SETTINGS = sa.text(
    "select current_setting('timezone') as zone,"
    " current_setting('transaction_isolation') as isolation,"
    " current_setting('statement_timeout') as longest,"
    " current_setting('jit') as jit,"
    " current_setting('idle_in_transaction_session_timeout') as idle"
)

#: Each refuses to hand on what our sessions are told when they begin, or loses it.
POOLERS = {
    "refuses options": "pool_mode = transaction",
    "ignores options": "ignore_startup_parameters = options",
    "pools sessions": "pool_mode = session\nignore_startup_parameters = options",
}


@pytest.fixture(params=POOLERS)
def pooled_url(
    request: pytest.FixtureRequest, postgres_url: str, postgres_engine: sa.Engine
) -> Iterator[str]:
    """Give a database behind a pooler, whose sessions would let nobody wait."""
    database = sa.make_url(postgres_url).database
    strict = f"alter database {database} set default_transaction_isolation"
    write_by(
        postgres_engine, sa.Connection.execute, sa.text(f"{strict} = 'serializable'")
    )
    with run_pooler(postgres_url, POOLERS[request.param]) as url:
        yield url
    write_by(postgres_engine, sa.Connection.execute, sa.text(f"{strict} to default"))


@pytest.fixture
def pooled(postgres_url: str) -> Iterator[sa.Engine]:
    """Give an engine on a database behind a pooler of transactions."""
    with run_pooler(postgres_url) as url:
        made = make_engine(url)
        yield made
        made.dispose()


def add_often(engine: sa.Engine, prefix: str) -> None:
    """Do the same again and again, in each way in which we ask PostgreSQL."""
    for number in range(20):
        execute_at_once(engine, ADD, {"uid": f"{prefix}-once-{number}"})
        with writing(engine) as connection:
            connection.execute(ADD, {"uid": f"{prefix}-{number}"})
        with departing(engine) as flight:
            flight.ask(ADD, {"uid": f"{prefix}-flight-{number}"})
        flight.land()
        with reading_once(engine) as connection:
            connection.execute(sa.select(small_apps.c.uid).limit(1)).all()


def test_clients_share_sessions(pooled: sa.Engine):
    """None finds what another has prepared, or misses what it prepared itself."""
    with ThreadPoolExecutor(4) as clients:
        list(clients.map(lambda name: add_often(pooled, name), "abcd"))

    with reading(pooled) as connection:
        count = connection.execute(sa.select(sa.func.count(small_apps.c.uid)))
        assert 4 * 20 * 3 == count.scalar_one()


def test_deadlines_hold_behind_any_pooler(pooled_url: str):
    """Each transaction says them itself, and leaves nothing to others."""
    ours = make_engine(pooled_url, timeout=timedelta(seconds=7))
    stranger = sa.create_engine(pooled_url, poolclass=sa.NullPool)

    said = ("UTC", "read committed", "7s", "off", "7s")
    with writing(ours) as connection:
        assert is_pooled(connection)
        assert said == tuple(connection.execute(SETTINGS).one())
    with reading_once(ours) as connection:
        assert said == tuple(connection.execute(SETTINGS).one())
    assert said == tuple(execute_at_once(ours, SETTINGS, {}))
    with departing(ours) as flight:
        answer = flight.ask(SETTINGS, {})
    flight.land()
    assert [said] == [tuple(row) for row in answer.rows]
    ours.dispose()
    with stranger.connect() as connection:
        assert "0" == connection.execute(SETTINGS).one().longest


def test_database_itself_is_no_pooler(
    postgres_engine: sa.Engine, sqlite_engine: sa.Engine
):
    """There, what is prepared stays prepared."""
    for engine in (postgres_engine, sqlite_engine):
        assert not read_by(engine, is_pooled)


def test_tick_records_all_that_is_due(pooled: sa.Engine):
    """More than the turns that are found at once, which no session keeps here."""
    add_app(pooled)
    uid = post_at(pooled, SEVEN)
    copy_action(pooled, uid, 2_999)

    report = tick(make_dispatcher(pooled), SEVEN)

    assert (3_000, 3_000, 3_000) == (report.due, report.recorded, report.sent)


def test_workers_run_operations(pooled: sa.Engine, tmp_path: Path):
    """Two at a time, and many more than it takes for a statement to be prepared."""
    add_revision(pooled)
    operations = [make_operation(number) for number in range(40)]
    record_all(pooled, *operations)
    lease = timedelta(minutes=1)
    heart = Heart(pooled, lease=lease, every=lease)
    worker = Worker(pooled, World(tmp_path).make_context().ports, heart)

    with ThreadPoolExecutor(2) as slots:
        ids = [str(operation.id) for operation in operations]
        list(slots.map(lambda id_: execute(worker, id_, "celery@host"), ids))

    heart.stop()
    assert ["succeeded"] * 40 == [row.state for row in fetch_all(pooled)]


def test_doctor_says_that_a_pooler_stands_between(
    pooled: sa.Engine, postgres_engine: sa.Engine
):
    """It is no trouble."""
    healths = []
    for engine in (pooled, postgres_engine):
        found = find_trouble(engine, Settings(), names=["pooler"])
        healths.append([each.health for each in found])

    assert [[Health.GOOD], []] == healths


def test_what_needs_a_session_is_refused(pooled: sa.Engine):
    """It would hold for whoever gets the session next; the message says what to set."""
    with (
        pytest.raises(UsageError, match=r"MINUTEHAND_DATABASE_URL"),
        pooled.connect() as connection,
    ):
        set_deadline(connection, timedelta(minutes=10))


def test_statement_that_takes_too_long_is_ended(pooled: sa.Engine):
    """By the server, as if there was no pooler."""
    sleep = sa.text("set local statement_timeout = 1; select pg_sleep(60)")
    with (
        pytest.raises(UnreachableError, match="statement timeout"),
        writing(pooled) as connection,
    ):
        connection.execute(sleep)


@pytest.mark.parametrize("unmigrated_url", ["postgresql"], indirect=True)
def test_fresh_database_is_migrated(unmigrated_url: str):
    """That is one transaction."""
    with run_pooler(unmigrated_url) as url:
        engine = make_engine(url)
        migrate(engine)
        engine.dispose()


def test_session_that_forgot_is_trouble_of_the_platform(postgres_engine: sa.Engine):
    """As behind a pooler that does not show itself: no step is to blame."""
    with (
        pytest.raises(UnreachableError, match=r"pool\s+by session"),
        writing(postgres_engine) as connection,
    ):
        connection.exec_driver_sql("deallocate something_else")

    with pytest.raises(UnreachableError, match=r"pool\s+by session"):
        execute_at_once(postgres_engine, sa.text("deallocate something_else"), {})
