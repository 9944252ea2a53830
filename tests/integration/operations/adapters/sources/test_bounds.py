"""Sources that are large or hostile: bounds of bytes, rows, columns, memory, time."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import polars as pl
import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import make_url

from models.errors import StepError
from models.fields.sql_connection import SqlConnection
from operations.adapters.sources.sources import RealSources
from operations.domains import Domain, DomainLimits, Reading, ReadRequest
from settings import read_child_environment
from tests.conftest import run_pooler
from tests.unit.operations.fakes import failing

Read = Callable[..., Reading | None]

MIB = 1 << 20


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Give a function that reads a source below tmp_path within some limits."""

    def read(
        source: dict[str, Any], connection: SqlConnection | None = None, **limits: Any
    ) -> Reading | None:
        sources = RealSources(
            limits=replace(DomainLimits(), **limits),
            connections={"c": connection} if connection else {},
            environment=read_child_environment(),
        )
        domain = Domain("sales", source, folder=tmp_path)
        try:
            return sources.read(ReadRequest("shop", domain, tmp_path / "out.part"))
        finally:
            left = {path.name for path in tmp_path.glob("out.part.*")}
            assert set() == left, "scratch files stay"

    return read


def read_rows(folder: Path) -> list[tuple[object, ...]]:
    return pl.read_parquet(folder / "out.part").rows()


def test_gzip_is_undone(read: Read, tmp_path: Path):
    """By what is in the file, once or twice, in several members."""
    data = gzip.compress(gzip.compress(b"a,b\n1,x\n") + gzip.compress(b"2,y\n"))
    (tmp_path / "a.csv.gz").write_bytes(data)

    read({"file": "a.csv.gz"})

    assert [(1, "x"), (2, "y")] == read_rows(tmp_path)


def make_bomb(size: int, layers: int) -> bytes:
    """Return gzip of *size* bytes of CSV, made without holding them."""
    engine = zlib.compressobj(wbits=31)
    parts = [engine.compress(b"a\n")]
    row = b"1\n" * (MIB // 2)
    parts += [engine.compress(row) for _ in range(size // MIB)]
    data = b"".join([*parts, engine.flush()])
    for _ in range(layers - 1):
        data = gzip.compress(data)
    return data


def test_gzip_bomb_is_stopped_at_the_bound(read: Read, tmp_path: Path):
    """The message names domain, bound and setting; nothing larger was ever written."""
    (tmp_path / "bomb.csv").write_bytes(make_bomb(64 * MIB, layers=2))

    with failing(permanent=True) as caught:
        read({"file": "bomb.csv"}, bytes=10 * MIB)

    for words in ("domain sales", "10 MiB", "MINUTEHAND_SOURCE_MAX_BYTES"):
        assert words in str(caught.value)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\x28\xb5\x2f\xfd rest", "compressed with zstd"),
        (zlib.compress(b"a\n1\n"), "compressed with zlib"),
        (gzip.compress(b"a\n1\n")[:-9], "cannot be read as gzip"),
        (gzip.compress(b"a\n1\n") + b"rubbish", "cannot be read as gzip"),
        (make_bomb(MIB, 3), "gzip, several times"),
    ],
    ids=["zstd", "zlib", "cut off", "rubbish behind", "three layers"],
)
def test_other_compression_is_refused(
    read: Read, tmp_path: Path, data: bytes, reason: str
):
    """Polars would undo it all in memory."""
    (tmp_path / "a.csv").write_bytes(data)

    with failing(reason, permanent=True):
        read({"file": "a.csv"})


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        *(("csv", "rows"), ("csv", "columns")),
        *(("json", "rows"), ("json", "columns")),
        *(("parquet", "rows"), ("parquet", "columns")),
    ],
)
def test_rows_and_columns_are_bounded(
    read: Read, tmp_path: Path, kind: str, bound: str
):
    """One more than the bound is refused for good."""
    frame = pl.DataFrame({f"a{number}": range(1000) for number in range(30)})
    path = tmp_path / f"a.{kind}"
    getattr(frame, f"write_{kind}")(path)
    most = {"rows": 999, "columns": 29}[bound]

    with pytest.raises(StepError, match=rf"sales: .*{most} {bound} \(MINUTE") as caught:
        read({"file": path.name}, **{bound: most})

    assert caught.value.permanent


def test_as_many_as_the_bounds_are_read(read: Read, tmp_path: Path):
    """Of rows and columns."""
    (tmp_path / "a.ndjson").write_text('{"a": 1, "b": 2}\n' * 1000)

    reading = read({"file": "a.ndjson"}, rows=1000, columns=2)

    assert reading is not None
    assert 1000 == reading.rows


def test_json_with_a_key_of_its_own_in_each_record_is_bounded(
    read: Read, tmp_path: Path
):
    """A million columns of a million rows come out of some megabytes."""
    records = [{f"k{number}": 1} for number in range(10_000)]
    (tmp_path / "a.json").write_text(json.dumps(records))

    with pytest.raises(StepError, match="2,000 columns"):
        read({"file": "a.json"})


def test_dates_of_csv_are_dates_if_all_of_them_are(read: Read, tmp_path: Path):
    """What is no date after many that are makes a text of the column, no error."""
    rows = [f"2026-01-01,2026-01-01,{number}" for number in range(20_000)]
    text = "\n".join(["day,odd,n", *rows, "2026-01-02,soon,1.5", ""])
    (tmp_path / "a.csv").write_text(text)

    read({"file": "a.csv"})

    schema = pl.read_parquet_schema(tmp_path / "out.part")
    assert {"odd": pl.String, "n": pl.Float64}.items() <= schema.items()
    assert schema["day"] in {pl.Date, pl.String}


def test_large_json_is_read_in_little_memory(read: Read, tmp_path: Path):
    """200,000 records, 17 MB, of which a list takes several times as much."""
    record = '{"id": %d, "name": "name %d", "amount": %d.5, "when": "2026-11-23 06:00"}'
    with (tmp_path / "a.json").open("w") as file:
        file.write("[\n")
        for number in range(200_000):
            file.write("," * bool(number) + record % (number, number, number) + "\n")
        file.write("]")

    reading = read({"file": "a.json"}, memory=192 * MIB)

    assert reading is not None
    assert 200_000 == reading.rows


def test_memory_is_bounded(read: Read, tmp_path: Path):
    """Pages of Parquet that are far larger than the file end that process alone."""
    frame = pl.DataFrame({"a": ["x" * 1000]})
    wide = pl.concat([frame] * 250_000, rechunk=False)
    wide.write_parquet(tmp_path / "a.parquet", row_group_size=250_000)
    del wide

    with failing(permanent=True) as caught:
        read({"file": "a.parquet"}, memory=160 * MIB)

    assert "160 MiB of memory (MINUTEHAND_SOURCE_MAX_MEMORY)" in str(caught.value)


def test_sql_is_read_in_batches_of_one_schema(
    read: Read, reader_url: str, tmp_path: Path
):
    """Late NULLs, late fractions and late texts decide the type of the whole column."""
    query = (
        "select n as id, case when n > 1500 then n end as late,"
        " case when n = 1900 then 1.25::numeric else n end as price,"
        " case when n > 1800 then 0.5::float8 end as part,"
        " null::text as never, jsonb_build_object('n', n) as data"
        " from generate_series(1, 2000) n"
    )

    reading = read({"sql": query, "connection": "c"}, make_connection(reader_url))

    frame = pl.read_parquet(tmp_path / "out.part")
    assert reading is not None
    assert 2000 == reading.rows == frame.height
    assert [
        pl.Int64,
        pl.Int64,
        pl.Decimal(38, 2),
        pl.Float64,
        pl.String,
        pl.String,
    ] == frame.dtypes
    assert (500, '{"n": 2000}') == (frame["late"].count(), frame["data"][-1])


def make_connection(url: str) -> SqlConnection:
    return SqlConnection(SecretStr(url.replace("+psycopg", "")), ("shop",))


def test_rows_of_sql_are_bounded(read: Read, reader_url: str):
    """A query without an end is ended at the bound."""
    query = (
        "with recursive t as (select 1 as n union all select n from t) select * from t"
    )
    connection = make_connection(reader_url)

    with pytest.raises(StepError, match=r"more than 5,000 rows"):
        read({"sql": query, "connection": "c"}, connection, rows=5_000)


def test_one_large_value_of_sql_is_bounded(read: Read, reader_url: str):
    """The driver holds it whole: its process ends, and the worker does not."""
    query = "select repeat('x', 100000000)"
    connection = make_connection(reader_url)

    with failing("MINUTEHAND_SOURCE_MAX_MEMORY", permanent=True):
        read({"sql": query, "connection": "c"}, connection, memory=160 * MIB)


def test_slow_query_is_ended_in_its_database(read: Read, reader_url: str):
    """At the bound nothing of it runs any more, whatever it set before it slept."""
    query = "select set_config('statement_timeout', '0', false), pg_sleep(600)"
    connection = make_connection(reader_url)

    with failing("MINUTEHAND_SOURCE_TIMEOUT", permanent=False):
        read({"sql": query, "connection": "c"}, connection, time=timedelta(seconds=3))

    with psycopg.connect(connection.url.get_secret_value()) as other:
        running = other.execute(
            "select query from pg_stat_activity"
            " where application_name = 'minutehand source' and state = 'active'"
        ).fetchall()
    assert [] == running


def test_query_cannot_take_its_bounds_away(read: Read, reader_url: str, tmp_path: Path):
    """Whatever it sets holds until its next rows, so it ends with its reader."""
    query = (
        "select case n when 1 then set_config('statement_timeout', '0', false)"
        " when 2 then set_config('client_connection_check_interval', '0', false)"
        " else current_setting('statement_timeout') || ' '"
        " || current_setting('client_connection_check_interval') end as bounds"
        " from generate_series(1, 501) n"
    )

    read(
        {"sql": query, "connection": "c"},
        make_connection(reader_url),
        time=timedelta(minutes=2),
    )

    frame = pl.read_parquet(tmp_path / "out.part")
    assert ["0 0", "2min 2s"] == frame["bounds"][-2:].to_list()


def read_sessions(url: str) -> list[tuple[str, str]]:
    told = (
        "select current_setting('search_path'), count(*)::text from pg_locks"
        " where locktype = 'advisory'"
    )
    with psycopg.connect(url) as other:
        return [tuple(row) for row in other.execute(told).fetchall()]


@pytest.mark.parametrize("fails", [False, True])
def test_query_leaves_nothing_to_others(read: Read, reader_url: str, *, fails: bool):
    """Neither settings nor locks nor messages, also behind a pooler."""
    query = (
        "select set_config('search_path', 'theirs', false) as a,"
        " pg_advisory_lock(7)::text as b, pg_notify('them', 'x')::text as c,"
        f" 1 / n as d from generate_series({0 if fails else 1}, 3) n"
    )
    options = ("default_pool_size = 1", "max_client_conn = 10")
    with run_pooler(reader_url, *options) as pooled:
        url = pooled.replace("+psycopg", "")
        with psycopg.connect(reader_url, autocommit=True) as listener:
            listener.execute("listen them")
            with nullcontext() if not fails else pytest.raises(StepError):
                read({"sql": query, "connection": "c"}, make_connection(url))

            assert [('"$user", public', "0")] == read_sessions(url)
            assert [] == list(listener.notifies(timeout=0))


@pytest.mark.parametrize(
    ("power", "told"),
    [
        ("alter role {0} superuser", "it is a superuser"),
        ("grant pg_signal_backend to {0}", "it has pg_signal_backend"),
        ("grant pg_read_server_files to {0}", "it has pg_read_server_files"),
    ],
)
def test_role_that_may_do_more_is_refused(
    read: Read, postgres_server_url: str, power: str, told: str
):
    """Its queries could end the sessions of other small apps, or read files."""
    role = f"powerful_{os.getpid()}_{uuid4().hex}"
    server = psycopg.connect(
        postgres_server_url.replace("+psycopg", ""), autocommit=True
    )
    with closing(server):
        server.execute(f"create role {role} login password 'x'".encode())
        server.execute(power.format(role).encode())
        try:
            url = make_url(postgres_server_url).set(
                drivername="postgresql", username=role, password="x"
            )
            connection = make_connection(url.render_as_string(hide_password=False))
            query = {"sql": "select pg_terminate_backend(1)", "connection": "c"}
            with failing(told, permanent=True):
                read(query, connection)
        finally:
            server.execute(f"drop role {role}".encode())


def test_role_that_minutehand_works_as_is_refused(read: Read, reader_url: str):
    """However its server is called: a query could end the sessions of a scheduler."""
    query = {"sql": "select 1", "connection": "c"}
    with (
        psycopg.connect(reader_url, application_name="minutehand"),
        failing("Minutehand itself works as it", permanent=True),
    ):
        read(query, make_connection(reader_url))


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to program 'touch /tmp/x'",
        "select 1; drop table if exists t",
        "select set_config('transaction_read_only', 'off', false), lo_create(7)",
        "with t as (insert into x values (1) returning 1) select * from t",
    ],
)
def test_postgresql_only_reads(read: Read, reader_url: str, query: str):
    """Nothing but one query can be declared, in a transaction that only reads."""
    connection = make_connection(reader_url)

    with failing(permanent=True) as caught:
        read({"sql": query, "connection": "c"}, connection)

    assert connection.url.get_secret_value() not in str(caught.value)


@pytest.mark.parametrize(
    "query",
    [
        "attach database '{folder}/other.db' as o",
        "select load_extension('x')",
        "select * from pragma_database_list",
        "insert into t values (1)",
        "vacuum into '{folder}/copy.db'",
        "select 1; select 2",
        "select zeroblob(1000000000)",
    ],
)
def test_sqlite_only_reads_its_own_file(read: Read, tmp_path: Path, query: str):
    """No ATTACH, no PRAGMA, no extension, nothing written."""
    connection = make_sqlite(tmp_path / "s?%20.db")

    with failing(permanent=True):
        read({"sql": query.format(folder=tmp_path), "connection": "c"}, connection)

    assert not (tmp_path / "copy.db").exists()


def make_sqlite(path: Path) -> SqlConnection:
    # "?" begins the options of a URL, so the name is written without it.
    path = path.with_name(path.name.replace("?", ""))
    with sqlite3.connect(path) as database:
        database.execute("create table t (a integer)")
    database.close()
    return SqlConnection(SecretStr(f"sqlite:///{path}"), ("*",))


def test_our_own_database_is_refused_under_any_name(read: Read, database_url: str):
    """The tables tell, not the address: another name of the host changes nothing."""
    url = database_url.replace("127.0.0.1", "localhost")

    with failing("Minutehand's own database", permanent=True) as caught:
        read({"sql": "select 1", "connection": "c"}, make_connection(url))

    assert url not in str(caught.value)


def test_password_is_in_no_error(read: Read):
    """Neither if nobody listens, nor if the address cannot be read."""
    for url in (
        "postgresql://reader:hunter%2F2@127.0.0.1:1/erp",
        "postgresql://reader:hunter2@[::1]x/erp",
        "postgresql://reader:hunter2@127.0.0.1:1/erp?nonsense=1",
        "postgresql://reader@127.0.0.1:1/erp?password=hunter2%zz",
    ):
        with pytest.raises(StepError) as caught:
            read({"sql": "select 1", "connection": "c"}, make_connection(url))

        assert "hunter" not in str(caught.value)
