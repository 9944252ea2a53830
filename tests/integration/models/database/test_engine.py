"""What is said of a database that is there and cannot serve."""

from __future__ import annotations

import threading
import traceback
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from uuid import uuid4

import psycopg
import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from models.database.engine import compare_clocks, make_engine, reading, writing
from models.database.tables import change_head, small_apps
from models.errors import UnreachableError, UsageError
from operations.claiming.claimed import Claim
from operations.claiming.heart import Heart
from tests.conftest import show_url
from tests.database import execute, fetch_rows, write_by
from tests.scheduling import MINUTE, add_revision, get, lead, must_claim, put
from tests.servers import wait_until

#: How to let a connection refuse writes, as a server does that was demoted.
READ_ONLY = {
    "postgresql": "set default_transaction_read_only = on",
    "sqlite": "pragma query_only = on",
}


def demote(engine: sa.Engine) -> None:
    """Let all that is connected from now on be read-only."""

    @sa.event.listens_for(engine, "connect")
    def _demote(connection: Any, _record: object) -> None:
        connection.execute(READ_ONLY[engine.dialect.name])
        connection.commit()

    engine.dispose()


def fail_with(engine: sa.Engine, state: str) -> None:
    """Let the server fail as it does with the SQLSTATE *state*."""
    with writing(engine) as connection:
        connection.exec_driver_sql(
            f"do $$ begin raise exception 'it fails' using errcode = '{state}'; end $$"
        )


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("schema=public", 'invalid URI query parameter: "schema"'),
        ("sslmode=yes", 'invalid sslmode value: "yes"'),
        (
            "host=a,b&target_session_attrs=rw",
            'invalid target_session_attrs value: "rw"',
        ),
        ("sslmode=prefer&sslrootcert=system", 'weak sslmode "prefer"'),
    ],
)
def test_parameter_that_the_driver_would_refuse_is_refused(query: str, reason: str):
    """Before anybody is asked; some of those that other programs write into a URL."""
    with pytest.raises(UsageError, match=reason):
        make_engine(f"postgresql://ada:secret@db/minutehand?{query}")


def test_options_of_an_address_hold_beside_ours(postgres_url: str):
    """Such as the schema; what we promise holds against them."""
    options = "-c search_path=one,two -c statement_timeout=0"
    url = sa.make_url(postgres_url).update_query_dict({"options": options})
    engine = make_engine(show_url(url), timeout=timedelta(seconds=7))

    with reading(engine) as connection:
        shown = [
            connection.execute(sa.text(f"show {name}")).scalar_one()
            for name in ("search_path", "statement_timeout")
        ]
    engine.dispose()

    assert ["one,two", "7s"] == shown


def test_first_server_that_answers_serves(postgres_url: str):
    """Of several in an address, as docs/settings.md writes them."""
    url = sa.make_url(postgres_url)
    several = {"host": f"{url.host},{url.host}", "port": f"1,{url.port}"}
    engine = make_engine(
        show_url(url.set(host=None, port=None).update_query_dict(several))
    )

    port = fetch_rows(engine, sa.text("show port")).scalar_one()
    engine.dispose()

    assert str(url.port) == port


ISOLATION = sa.text("show transaction_isolation")
IDLE = sa.text("show idle_session_timeout")


def test_role_decides_nothing_about_what_is_read(
    postgres_engine: sa.Engine, postgres_url: str
):
    """
    Neither how dates are written, nor which letters there are, nor who waits; nor when
    a session that does nothing ends.
    """
    name = f"tests_{uuid4().hex[:8]}"
    execute(postgres_engine, sa.text(f"create role {name} login"))
    for setting in (
        "datestyle = 'German'",
        "client_encoding = 'SQL_ASCII'",
        "default_transaction_isolation = 'serializable'",
        "idle_session_timeout = '1h'",
    ):
        execute(postgres_engine, sa.text(f"alter role {name} set {setting}"))
    engine = make_engine(show_url(sa.make_url(postgres_url).set(username=name)))

    with reading(engine) as connection:
        assert compare_clocks(connection)[1] < MINUTE
        assert "→" == connection.execute(sa.text("select '→'")).scalar_one()
        assert "read committed" == connection.execute(ISOLATION).scalar_one()
        assert "0" == connection.execute(IDLE).scalar_one()
    engine.dispose()
    execute(postgres_engine, sa.text(f"drop role {name}"))


def test_connection_is_waited_for_no_longer_than_an_answer(database_url: str):
    """On SQLite it was half a minute, whatever the deadline."""
    engine = make_engine(database_url, timeout=timedelta(seconds=3))

    assert 3 == engine.pool.timeout()  # type: ignore[attr-defined]  # of a QueuePool


def test_database_that_is_read_only_is_away(engine: sa.Engine):
    """A failover passes; until then nothing can be written."""
    made = put(engine)
    demote(engine)

    with pytest.raises(UnreachableError, match=r"read-?only"):
        execute(engine, sa.text("update operations set state = 'failed'"))

    assert "pending" == get(engine, made).state


@pytest.mark.parametrize(
    "state",
    [
        *("08006", "25006", "25P03", "25P04", "40001", "40P01", "53100", "53200"),
        *("53300", "53400", "55P03", "57014", "57P01", "57P02", "57P03", "58030"),
        *("72000", "XX000", "XX001"),
    ],
)
def test_server_that_cannot_serve_now_is_away(postgres_engine: sa.Engine, state: str):
    """Whatever class the driver gives it: nobody but the server is to blame."""
    with pytest.raises(UnreachableError, match="it fails"):
        fail_with(postgres_engine, state)


@pytest.mark.parametrize(
    "state",
    [
        *("0A000", "22003", "23505", "25001", "25P02", "42P01"),
        *("54000", "54001", "54011", "54023"),
    ],
)
def test_statement_that_is_wrong_is_not_the_servers_fault(
    postgres_engine: sa.Engine, state: str
):
    """It would be wrong for ever, so nobody should wait for better times."""
    with pytest.raises(sa.exc.DBAPIError):
        fail_with(postgres_engine, state)


def test_text_that_no_index_takes_is_not_the_servers_fault(postgres_engine: sa.Engine):
    """The server has reached a limit of the program, and not of its resources."""
    pages = "".join(map(chr, range(0x4E00, 0x9000)))

    with pytest.raises(sa.exc.OperationalError, match="index row"):
        execute(postgres_engine, sa.insert(small_apps).values(uid=pages, name="shop"))


def test_lock_that_is_held_for_too_long_is_told_with_how_to_find_its_holder(
    postgres_engine: sa.Engine,
):
    """
    A VACUUM FULL, a forgotten shell. What takes too long for other reasons is not
    mistaken for it.
    """
    sooner = "select current_setting('lock_timeout')::interval"
    later = "current_setting('statement_timeout')::interval"

    with pytest.raises(UnreachableError, match=r"holds that lock; the doctor names it"):
        fail_with(postgres_engine, "55P03")
    assert fetch_rows(postgres_engine, sa.text(f"{sooner} < {later}")).scalar_one()


def test_connection_to_a_server_that_cannot_serve_is_dropped(
    postgres_engine: sa.Engine,
):
    """The next one may lead to another server, which was promoted."""
    with reading(postgres_engine) as connection:
        before = connection.connection.dbapi_connection
    with pytest.raises(UnreachableError):
        fail_with(postgres_engine, "25006")

    with reading(postgres_engine) as connection:
        assert before is not connection.connection.dbapi_connection
    assert isinstance(before, psycopg.Connection)
    assert before.closed


def test_connection_that_is_killed_under_a_statement_is_away(
    postgres_engine: sa.Engine,
):
    """As is its server; the next call connects again."""
    kill = "select pg_terminate_backend(pg_backend_pid()), pg_sleep(9)"

    with pytest.raises(UnreachableError):
        execute(postgres_engine, sa.text(kill))

    with writing(postgres_engine) as connection:
        assert 1 == connection.execute(sa.text("select 1")).scalar()


def test_leader_of_a_read_only_database_leads_on(engine: sa.Engine):
    """It neither renews nor releases the lease, and trusts it to its end."""
    now = [0.0]
    leader = lead(engine, monotonic=lambda: now[0])
    demote(engine)
    now[0] = 11.0

    for ask in (leader.hold, leader.release):
        with pytest.raises(UnreachableError):
            ask()

    assert leader.fence is not None


def test_the_heart_of_a_worker_outlives_a_read_only_database(engine: sa.Engine):
    """
    A beat that renews nothing is told of, and the claim kept for the next. What it
    cannot give back when it stops is taken over when its lease has run out.
    """
    add_revision(engine)
    made = put(engine)
    claim = must_claim(engine, made, worker="worker")
    heart = Heart(engine, lease=MINUTE, every=timedelta(hours=1))
    heart.add(claim)
    demote(engine)

    with capture_logs() as lines:
        heart.beat()
        heart.beat()
        heart.stop()

    *beats, end = lines
    assert ["heartbeat_failed"] * 2 == [line["event"] for line in beats]
    assert ("operations_not_given_back", [str(made)]) == (end["event"], end["ids"])


def test_no_plan_is_compiled(postgres_engine: sa.Engine):
    """Our statements read few rows by indexes."""
    with postgres_engine.connect() as connection:
        assert "off" == connection.execute(sa.text("show jit")).scalar_one()


def test_error_holds_no_statement_and_no_values(engine: sa.Engine):
    """Whoever shows it, in a log or to a person, shows nothing of a tenant."""
    secret = "correct horse battery staple"
    statement = sa.insert(small_apps).values(uid=secret, name=secret)

    execute(engine, statement)
    with pytest.raises(sa.exc.IntegrityError) as caught:
        execute(engine, statement)
    shown = "".join(traceback.format_exception(caught.value))

    assert "small_apps" in shown
    assert secret not in shown
    assert "INSERT INTO" not in shown


def test_damaged_file_is_told_with_a_way_out(tmp_path: Path, sqlite_url: str):
    """Someone at 3 a.m. needs to know what to do, not where in our code it showed."""
    path = tmp_path / "minutehand.sqlite3"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    engine = make_engine(sqlite_url)

    with pytest.raises(UsageError, match=r"damaged.*\.recover"):
        fetch_rows(engine, sa.text("select * from operations"))

    engine.dispose()


def test_file_whose_folder_is_gone_is_told(tmp_path: Path):
    """A file in its place, or a mount that broke, says something else than that."""
    folder = tmp_path / "home"
    folder.mkdir()
    engine = make_engine(f"sqlite:///{folder}/minutehand.sqlite3")
    execute(engine, sa.text("create table ours (id integer)"))
    folder.rename(tmp_path / "aside")
    folder.touch()

    with pytest.raises(UnreachableError, match="was deleted or replaced"):
        execute(engine, sa.text("select * from ours"))

    engine.dispose()


@pytest.mark.parametrize("is_replaced", [False, True])
def test_file_that_was_taken_away_is_told(
    tmp_path: Path, sqlite_engine: sa.Engine, *, is_replaced: bool
):
    """
    What is open would go on in a file that nobody finds again; another one is none of
    ours, and is not made. If it comes back, all goes on.
    """
    path, aside = tmp_path / "minutehand.sqlite3", tmp_path / "aside"
    execute(sqlite_engine, sa.text("create table ours (id integer)"))
    path.rename(aside)
    if is_replaced:
        path.write_bytes(aside.read_bytes())

    for _ in range(2):
        with pytest.raises(UnreachableError, match=f"{path} was deleted or replaced"):
            execute(sqlite_engine, sa.text("select * from ours"))
        sqlite_engine.dispose()  # so that the next one connects anew
    assert is_replaced == path.exists()

    aside.rename(path)
    execute(sqlite_engine, sa.text("insert into ours values (1)"))


def test_file_that_cannot_grow_is_told_with_a_way_out(sqlite_engine: sa.Engine):
    """SQLite says of a bound that was set what it says of a disk without space."""

    def grow(connection: sa.Connection) -> None:
        connection.execute(sa.text("pragma max_page_count = 1"))
        connection.execute(sa.text("create table large as select zeroblob(100000)"))

    with pytest.raises(UnreachableError, match=r"is full\. .* MINUTEHAND_HOME"):
        write_by(sqlite_engine, grow)


def test_the_heart_survives_what_a_statement_says(unmigrated_url: str):
    """A schema that is away for a moment (a restore) must not end all renewals."""
    engine = make_engine(unmigrated_url)
    heart = Heart(engine, lease=MINUTE, every=timedelta(hours=1))
    heart._claims[uuid4()] = cast("Claim", None)  # renewed, and never read

    with capture_logs() as lines:
        heart.beat()

    engine.dispose()
    assert ["heartbeat_failed"] == [line["event"] for line in lines]


class WeakHeart(Heart):
    """A heart each beat of which fails in a way that nobody expects."""

    beats = 0

    def beat(self) -> None:
        """Fail."""
        self.beats += 1
        raise RuntimeError("nobody expected this")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_heart_beats_again_whatever_became_of_a_beat(sqlite_engine: sa.Engine):
    """Without it every operation of the process would be taken from it."""
    before = set(threading.enumerate())
    heart = WeakHeart(sqlite_engine, lease=MINUTE, every=timedelta(milliseconds=1))
    heart.start_beating()

    wait_until(lambda: heart.beats > 2, what="beats after one that failed")
    heart.stop()
    # What fails in a thread after the end of a test is told of the next one.
    wait_until(lambda: before.issuperset(threading.enumerate()), what="the last beat")


def test_file_that_can_be_written_to_again_is_written_to(sqlite_url: str):
    """A connection that was opened when it could not be does not stay in the pool."""
    engine = make_engine(sqlite_url)
    with engine.connect() as connection:
        # as one is that was opened while the file system was mounted for reading
        connection.exec_driver_sql("PRAGMA query_only = ON")
    change = sa.update(change_head).values(number=0)

    with pytest.raises(UnreachableError, match="readonly"):
        execute(engine, change)
    with writing(engine) as another:
        assert another.execute(change).rowcount == 1
    engine.dispose()
