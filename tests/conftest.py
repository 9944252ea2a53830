"""
Fixtures of all tests: databases of both dialects, a broker, a mail server.

Servers start when the first test asks for one, once for each worker of
pytest-xdist; databases are new for each test, copied from one that was migrated
once. ``MINUTEHAND_TEST_DATABASE_URL`` and ``MINUTEHAND_TEST_BROKER_URL`` name
servers to use instead of our own.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import hypothesis
import psycopg
import pytest
import redis
import sqlalchemy as sa
import structlog

from migrations.schema import migrate
from models.database.engine import make_engine
from models.database.journal import GENESIS
from models.database.tables import change_head, installation
from tests.chaos.servers import Victim, run_pgbouncer, run_postgres, run_redis
from tests.database import EMPTYING
from tests.mail_server import MailServer, run_mail_server
from tests.programs import demand_program, tell_missing
from tests.rabbit.server import run_faulty_rabbit
from tests.recorded import leave_out_recorded

# Time limits of single examples fail on a busy machine, not on a bug. In CI the
# examples are the same each time, so that a change is judged by what it changed; and
# `make test-all` takes more of them, as of all else.
hypothesis.settings.register_profile(
    "minutehand",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
    max_examples=100 if "MINUTEHAND_TEST_ALL" in os.environ else 25,
)
# For `make fast`, while one writes.
hypothesis.settings.register_profile(
    "fast", hypothesis.settings.get_profile("minutehand"), max_examples=10
)
# For `make test-time`.
hypothesis.settings.register_profile(
    "long", hypothesis.settings.get_profile("minutehand"), max_examples=10_000
)
hypothesis.settings.load_profile("minutehand")

# As our own log does: with the values of all variables, which are the rows of a month
# sometimes, a failure takes seconds to write.
_renderer = structlog.get_config()["processors"][-1]
_renderer.exception_formatter = structlog.dev.plain_traceback

DIALECTS = ("postgresql", "sqlite")


class _Compiled(dict[Any, Any]):
    """Statements as they were compiled for another engine of the same database."""

    def get(self, key: Any, default: Any = None) -> Any:
        return super().get(self._without_engine(key), default)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(self._without_engine(key), value)

    def _without_engine(self, key: Any) -> Any:
        dialect, *statement = key
        return (dialect.name, dialect.driver, *statement)


_COMPILED = _Compiled()


# A process has one engine, and compiles each statement once; tests have thousands.
@sa.event.listens_for(sa.Engine, "engine_connect")
def _share_compiled(connection: sa.Connection) -> None:
    connection.execution_options(compiled_cache=_COMPILED)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the options of ``make test-api``."""
    parser.addoption("--fuzz-seed", type=int, default=0, help="of requests to the API")
    parser.addoption(
        "--fuzz-examples",
        type=int,
        default=5 if "MINUTEHAND_TEST_ALL" in os.environ else 0,
        help="of requests beside the bounds, for each route",
    )


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave out what a record stands for, and begin with what takes long."""
    leave_out_recorded(config, items)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if workers:
        items[:] = _begin_with_waiting(items, workers)


#: Folders of tests that start programs, and wait for them; and what shares a broker or
#: a browser, which starts once for each worker.
_WAITING = ("acceptance", "browser", "chaos", "neighbours", "rabbit")
_SHARING = {"browser": "browser", "neighbours": "rabbit", "rabbit": "rabbit"}


def _begin_with_waiting(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """
    Return *items* so that each worker begins with its share of the tests that wait.

    Each is given an equal part of the list, and at the end takes what is left from the
    end of another's: that should be short.
    """
    waiting: defaultdict[object, list[pytest.Item]] = defaultdict(list)
    others: list[pytest.Item] = []
    for each in items:
        folder = each.path.relative_to(Path(__file__).parent).parts[0]
        if folder in _WAITING:
            waiting[_SHARING.get(folder, each.path)].append(each)
        else:
            others.append(each)
    shares: list[list[pytest.Item]] = [[] for _ in range(workers)]
    for group in sorted(waiting.values(), key=len, reverse=True):
        min(shares, key=len).extend(group)
    ordered: list[pytest.Item] = []
    for number, share in enumerate(shares):
        part = (len(items) - len(ordered)) // (workers - number)
        short = max(0, part - len(share))
        ordered += share + others[:short]
        del others[:short]
    return ordered


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among what is loaded: the tests, which are none."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Tell, in the last line, of programs that are missing."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return  # in a worker of pytest-xdist, whose reports the first process has
    skipped = reporter.stats.get("skipped", [])
    if told := tell_missing([report.longrepr[2] for report in skipped]):
        reporter.write_line("")
        reporter.write_line(told, yellow=True)


@pytest.fixture(autouse=True)
def _restored_logging() -> Iterator[None]:
    """Leave logging as it was: a test that configures it must not mute the others."""
    handlers, level = logging.root.handlers[:], logging.root.level
    yield
    logging.root.handlers[:] = handlers
    logging.root.setLevel(level)
    structlog.reset_defaults()


_numbers = count(1)


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """Give a PostgreSQL whose user may create databases."""
    if given := os.environ.get("MINUTEHAND_TEST_DATABASE_URL"):
        yield given
        return
    with run_postgres() as url:
        yield url


@pytest.fixture(scope="session")
def reader_url(postgres_server_url: str) -> str:
    """Give the same server for a role that may do nothing but read, as a source has."""
    server = sa.create_engine(postgres_server_url, poolclass=sa.NullPool)
    with server.begin() as connection:
        connection.execute(
            sa.text(
                "do $$ begin create role minutehand_reader login password 'reader';"
                " exception when duplicate_object then null; end $$"
            )
        )
    return show_url(
        sa.make_url(postgres_server_url).set(
            drivername="postgresql", username="minutehand_reader", password="reader"
        )
    )


@contextmanager
def new_database(server_url: str, template: str) -> Iterator[sa.URL]:
    """Create a database as a copy of *template*, and drop it at the end."""
    name = f"minutehand_test_{os.getpid()}_{next(_numbers)}"
    server = sa.create_engine(
        server_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with server.connect() as connection:
        connection.execute(sa.text(f"create database {name} template {template}"))
    try:
        yield sa.make_url(server_url).set(database=name)
    finally:
        with server.connect() as connection:
            connection.execute(sa.text(f"drop database {name} with (force)"))


@pytest.fixture(scope="session")
def postgres_template(postgres_server_url: str) -> Iterator[str]:
    """Give the name of a migrated database that nobody is connected to."""
    with new_database(postgres_server_url, "template0") as url:
        engine = make_engine(show_url(url))
        migrate(engine)
        engine.dispose()
        assert url.database is not None  # it was made with a name
        yield url.database


@pytest.fixture(scope="session")
def _sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a migrated file that nobody has open."""
    path = tmp_path_factory.mktemp("template") / "minutehand.sqlite3"
    engine = make_engine(f"sqlite:///{path}")
    migrate(engine)
    engine.dispose()
    return path


@pytest.fixture(scope="session")
def _postgres_emptied(
    postgres_server_url: str, postgres_template: str
) -> Iterator[sa.Engine]:
    """Give an engine on the one database that tests use in turn."""
    with new_database(postgres_server_url, postgres_template) as url:
        engine = sa.create_engine(url, poolclass=sa.StaticPool)
        yield engine
        engine.dispose()


@pytest.fixture
def postgres_url(_postgres_emptied: sa.Engine, _postgres_shared: _Shared) -> str:
    """
    Give a migrated, empty PostgreSQL database that only this test uses.

    Emptying one is many times faster than copying the template for each test.
    """
    _postgres_shared.renew()
    ours = [each.info.backend_pid for each in _postgres_shared.find_sessions()]
    with _postgres_emptied.begin() as connection:
        # what a former test left behind would hold locks, or write on
        connection.execute(
            sa.text(
                "select pg_terminate_backend(pid) from pg_stat_activity where"
                " datname = current_database() and pid <> pg_backend_pid()"
                " and not pid = any(:ours)"
            ),
            {"ours": ours},
        )
        connection.exec_driver_sql("; ".join(EMPTYING))  # one round trip
        unpaused = dict.fromkeys(
            ("paused_at", "paused_until", "paused_by", "pause_note", "spread")
        )
        connection.execute(sa.update(installation).values(unpaused))
        head = sa.insert(change_head).values(id=1, number=0, hash=GENESIS)
        connection.execute(head)
    return show_url(_postgres_emptied.url)


@pytest.fixture
def sqlite_url(tmp_path: Path, _sqlite_template: Path) -> str:
    """Give a migrated, empty SQLite file of this test alone."""
    path = tmp_path / "minutehand.sqlite3"
    shutil.copyfile(_sqlite_template, path)
    return f"sqlite:///{path}"


@pytest.fixture(params=DIALECTS)
def database_url(request: pytest.FixtureRequest) -> str:
    """Give a migrated, empty database of this test alone, once for each dialect."""
    name = {"postgresql": "postgres_url", "sqlite": "sqlite_url"}[request.param]
    url: str = request.getfixturevalue(name)
    return url


@pytest.fixture(params=DIALECTS)
def unmigrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Give a database without any table, once for each dialect."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/unmigrated.sqlite3"
        return
    server_url: str = request.getfixturevalue("postgres_server_url")
    with new_database(server_url, "template0") as url:
        yield show_url(url)


class _Shared:
    """
    An engine that tests use in turn: a new connection costs more than most of them do.

    Nothing of a session stays from one test to the next, and the engine itself ends
    with the test that listens to its connections, or leaves one of them open.
    """

    _engine: sa.Engine | None = None
    _listeners = 0

    def give(self, url: str) -> sa.Engine:
        """Return it, with listeners of its own for statements."""
        if self._engine is None:
            self._engine = make_engine(url)
            self._listeners = self._count_listeners(self._engine)
        return self._engine.execution_options()

    def find_sessions(self) -> list[Any]:
        """Return its connections, of which nobody uses any."""
        pool: Any = None if self._engine is None else self._engine.pool
        records = [] if pool is None else [*pool._pool.queue]
        return [each.dbapi_connection for each in records if each.dbapi_connection]

    def renew(self) -> None:
        """Let the next test find it as if it were new; a former one may have cut it."""
        try:
            for each in self.find_sessions():
                each._prepared.clear()
                vars(each).pop("deadline_s", None)
                each.execute(
                    "reset all; reset role; unlisten *; select pg_advisory_unlock_all()"
                )
                each.commit()
        except psycopg.Error:
            self.end()

    def take_back(self) -> None:
        """End it, if it is not as it was given."""
        engine = self._engine
        assert engine is not None  # it was given
        pool: Any = engine.pool
        if pool.checkedout() or self._count_listeners(engine) != self._listeners:
            self.end()

    def end(self) -> None:
        """Close it."""
        if self._engine is not None:
            _dispose(self._engine)
        self._engine = None

    def _count_listeners(self, engine: sa.Engine) -> int:
        pool: Any = engine.pool
        return len(pool.dispatch.connect) + len(pool.dispatch.checkout)


@pytest.fixture(scope="session")
def _postgres_shared() -> Iterator[_Shared]:
    """Give what tests on the one PostgreSQL database connect with."""
    shared = _Shared()
    yield shared
    shared.end()


@pytest.fixture
def engine(request: pytest.FixtureRequest, database_url: str) -> sa.Engine:
    """Give an engine on a migrated, empty database, once for each dialect."""
    is_postgres = database_url.startswith("postgresql")
    name = "postgres_engine" if is_postgres else "sqlite_engine"
    made: sa.Engine = request.getfixturevalue(name)
    return made


@pytest.fixture
def any_engine(request: pytest.FixtureRequest) -> sa.Engine:
    """Give the engine that the test has, of whichever database."""
    name = "engine" if "engine" in request.fixturenames else "postgres_engine"
    engine: sa.Engine = request.getfixturevalue(name)
    return engine


@pytest.fixture
def postgres_engine(
    postgres_url: str, _postgres_shared: _Shared
) -> Iterator[sa.Engine]:
    """Give an engine on a migrated, empty PostgreSQL database."""
    yield _postgres_shared.give(postgres_url)
    _postgres_shared.take_back()


def _dispose(engine: sa.Engine) -> None:
    """Close the connections of *engine*, also those whose owner a test interrupted."""
    pool: Any = engine.pool
    if pool.checkedout():
        # Now, and not in the middle of something else, which CPython 3.11 may not
        # survive: it fails where a traceback is written while it parses a file.
        gc.collect()
    engine.dispose()


@contextmanager
def run_pooler(url: str, *options: str) -> Iterator[str]:
    """Run a PgBouncer before the database at *url*, and give its address there."""
    demand_program("pgbouncer")
    with run_pgbouncer(url, *options) as address:
        yield address


@pytest.fixture
def sqlite_engine(sqlite_url: str) -> Iterator[sa.Engine]:
    """Give an engine on a migrated, empty SQLite file."""
    made = make_engine(sqlite_url)
    yield made
    _dispose(made)


@pytest.fixture(scope="session")
def redis_server_url() -> Iterator[str]:
    """Give a Redis whose content tests may delete."""
    if given := os.environ.get("MINUTEHAND_TEST_BROKER_URL"):
        yield given
        return
    with run_redis() as url:
        yield url


@pytest.fixture
def redis_url(redis_server_url: str) -> str:
    """Give a Redis that holds nothing."""
    with redis.Redis.from_url(redis_server_url) as client:
        client.flushdb()
    return redis_server_url


@pytest.fixture
def other_redis_url(redis_server_url: str) -> str:
    """Give another database of that Redis, which holds nothing: that of a project."""
    url = f"{redis_server_url.rpartition('/')[0]}/1"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture(scope="session")
def rabbit() -> Iterator[Victim]:
    """Give a RabbitMQ; it takes some seconds to start."""
    demand_program("rabbitmq-server")
    with run_faulty_rabbit() as server:
        yield server


@pytest.fixture
def smtp_server() -> Iterator[MailServer]:
    """Give a mail server that delivers nowhere."""
    with run_mail_server() as mail_server:
        yield mail_server


def show_url(url: sa.URL) -> str:
    """Return it as a program is given it."""
    return url.render_as_string(hide_password=False)
