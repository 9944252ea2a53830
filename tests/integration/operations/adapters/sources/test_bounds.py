"""Sources that are large or hostile: bounds of bytes, rows, columns, memory, time."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from contextlib import closing, nullcontext
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import polars as pl
import psycopg
import pytest
from sqlalchemy import make_url

from models.errors import StepError
from operations.adapters.polars_io import convert_to_parquet
from operations.domains import DomainLimits
from tests.conftest import run_pooler, show_url
from tests.integration.operations.adapters.sources.conftest import Reader
from tests.unit.operations.fakes import failing

MIB = 1 << 20


def test_gzip_is_undone(reader: Reader, tmp_path: Path):
    """By what is in the file, once or twice, in several members."""
    data = gzip.compress(gzip.compress(b"a,b\n1,x\n") + gzip.compress(b"2,y\n"))
    (tmp_path / "a.csv.gz").write_bytes(data)

    reader.read({"file": "a.csv.gz"})

    assert [(1, "x"), (2, "y")] == reader.rows


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


def test_gzip_bomb_is_stopped_at_the_bound(reader: Reader, tmp_path: Path):
    """The message names domain, bound and setting; nothing larger was ever written."""
    (tmp_path / "bomb.csv").write_bytes(make_bomb(64 * MIB, layers=2))

    with failing(permanent=True) as caught:
        reader.read({"file": "bomb.csv"}, bytes=10 * MIB)

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
    reader: Reader, tmp_path: Path, data: bytes, reason: str
):
    """Polars would undo it all in memory."""
    (tmp_path / "a.csv").write_bytes(data)

    with failing(reason, permanent=True):
        reader.read({"file": "a.csv"})


@pytest.mark.parametrize(
    ("kind", "bound"),
    [
        *(("csv", "rows"), ("csv", "columns")),
        *(("json", "rows"), ("json", "columns")),
        *(("parquet", "rows"), ("parquet", "columns")),
    ],
)
def test_rows_and_columns_are_bounded(
    reader: Reader, tmp_path: Path, kind: str, bound: str
):
    """One more than the bound is refused for good."""
    frame = pl.DataFrame({f"a{number}": range(1000) for number in range(30)})
    path = tmp_path / f"a.{kind}"
    getattr(frame, f"write_{kind}")(path)
    most = {"rows": 999, "columns": 29}[bound]

    with failing(rf"sales: .*{most} {bound} \(MINUTE", permanent=True):
        reader.read({"file": path.name}, **{bound: most})


def test_as_many_as_the_bounds_are_read(reader: Reader, tmp_path: Path):
    """Of rows and columns."""
    (tmp_path / "a.ndjson").write_text('{"a": 1, "b": 2}\n' * 1000)

    reading = reader.read({"file": "a.ndjson"}, rows=1000, columns=2)

    assert 1000 == reading.rows


def test_json_with_a_key_of_its_own_in_each_record_is_bounded(
    reader: Reader, tmp_path: Path
):
    """A million columns of a million rows come out of some megabytes."""
    records = [{f"k{number}": 1} for number in range(10_000)]
    (tmp_path / "a.json").write_text(json.dumps(records))

    with pytest.raises(StepError, match="2,000 columns"):
        reader.read({"file": "a.json"})


def test_dates_of_csv_are_dates_if_all_of_them_are(reader: Reader, tmp_path: Path):
    """What is no date after many that are makes a text of the column, no error."""
    rows = [f"2026-01-01,2026-01-01,{number}" for number in range(20_000)]
    text = "\n".join(["day,odd,n", *rows, "2026-01-02,soon,1.5", ""])
    (tmp_path / "a.csv").write_text(text)

    reader.read({"file": "a.csv"})

    schema = pl.read_parquet_schema(reader.target)
    assert {"odd": pl.String, "n": pl.Float64}.items() <= schema.items()
    assert schema["day"] in {pl.Date, pl.String}


def test_rows_of_csv_are_written_as_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """There is no frame of all of them, which would be read or written at once."""

    def refuse(*_given: object, **_how: object) -> None:
        raise AssertionError("all rows are held at once")

    (tmp_path / "a.csv").write_text("a,b\n1,2026-01-01\n")
    monkeypatch.setattr(pl, "read_csv", refuse)
    for name in ("write_parquet", "lazy"):
        monkeypatch.setattr(pl.DataFrame, name, refuse)
    rows = convert_to_parquet(
        tmp_path / "a.csv",
        "csv",
        tmp_path / "out.part",
        shown="sales",
        limits=DomainLimits(),
        tell=None,
    )

    assert 1 == rows


def test_large_json_is_read_in_little_memory(reader: Reader, tmp_path: Path):
    """200,000 records, 17 MB, of which a list takes several times as much."""
    record = '{"id": %d, "name": "name %d", "amount": %d.5, "when": "2026-11-23 06:00"}'
    with (tmp_path / "a.json").open("w") as file:
        file.write("[\n")
        for number in range(200_000):
            file.write("," * bool(number) + record % (number, number, number) + "\n")
        file.write("]")

    reading = reader.read({"file": "a.json"}, memory=192 * MIB)

    assert 200_000 == reading.rows


def test_memory_is_bounded(reader: Reader, tmp_path: Path):
    """Pages of Parquet that are far larger than the file end that process alone."""
    frame = pl.DataFrame({"a": ["x" * 1000]})
    wide = pl.concat([frame] * 250_000, rechunk=False)
    wide.write_parquet(tmp_path / "a.parquet", row_group_size=250_000)
    del wide

    with failing(permanent=True) as caught:
        reader.read({"file": "a.parquet"}, memory=160 * MIB)

    assert "160 MiB of memory (MINUTEHAND_SOURCE_MAX_MEMORY)" in str(caught.value)


def test_sql_is_read_in_batches_of_one_schema(reader: Reader, reader_url: str):
    """Late NULLs, late fractions and late texts decide the type of the whole column."""
    query = (
        "select n as id, case when n > 1500 then n end as late,"
        " case when n = 1900 then 1.25::numeric else n end as price,"
        " case when n > 1800 then 0.5::float8 end as part,"
        " null::text as never, jsonb_build_object('n', n) as data"
        " from generate_series(1, 2000) n"
    )

    reading = reader.ask(reader_url, query)

    frame = pl.read_parquet(reader.target)
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


def test_rows_of_sql_are_bounded(reader: Reader, reader_url: str):
    """A query without an end is ended at the bound."""
    query = (
        "with recursive t as (select 1 as n union all select n from t) select * from t"
    )

    with pytest.raises(StepError, match=r"more than 5,000 rows"):
        reader.ask(reader_url, query, rows=5_000)


def test_one_large_value_of_sql_is_bounded(reader: Reader, reader_url: str):
    """The driver holds it whole: its process ends, and the worker does not."""
    query = "select repeat('x', 100000000)"

    with failing("MINUTEHAND_SOURCE_MAX_MEMORY", permanent=True):
        reader.ask(reader_url, query, memory=160 * MIB)


def test_slow_query_is_ended_in_its_database(reader: Reader, reader_url: str):
    """At the bound nothing of it runs any more, whatever it set before it slept."""
    query = "select set_config('statement_timeout', '0', false), pg_sleep(600)"

    with failing("MINUTEHAND_SOURCE_TIMEOUT", permanent=False):
        reader.ask(reader_url, query, time=timedelta(seconds=3))

    with psycopg.connect(reader_url) as other:
        running = other.execute(
            "select query from pg_stat_activity"
            " where application_name = 'minutehand source' and state = 'active'"
        ).fetchall()
    assert [] == running


def test_query_cannot_take_its_bounds_away(reader: Reader, reader_url: str):
    """Whatever it sets holds until its next rows, so it ends with its reader."""
    query = (
        "select case n when 1 then set_config('statement_timeout', '0', false)"
        " when 2 then set_config('client_connection_check_interval', '0', false)"
        " else current_setting('statement_timeout') || ' '"
        " || current_setting('client_connection_check_interval') end as bounds"
        " from generate_series(1, 501) n"
    )

    reader.ask(reader_url, query, time=timedelta(minutes=2))

    frame = pl.read_parquet(reader.target)
    assert ["0 0", "2min 2s"] == frame["bounds"][-2:].to_list()


def read_sessions(url: str) -> list[tuple[str, str]]:
    told = (
        "select current_setting('search_path'), count(*)::text from pg_locks"
        " where locktype = 'advisory'"
    )
    with psycopg.connect(url) as other:
        return [tuple(row) for row in other.execute(told).fetchall()]


@pytest.mark.parametrize("fails", [False, True])
def test_query_leaves_nothing_to_others(
    reader: Reader, reader_url: str, *, fails: bool
):
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
                reader.ask(url, query)

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
    reader: Reader, postgres_server_url: str, power: str, told: str
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
            with failing(told, permanent=True):
                reader.ask(show_url(url), "select pg_terminate_backend(1)")
        finally:
            server.execute(f"drop role {role}".encode())


def test_role_that_minutehand_works_as_is_refused(reader: Reader, reader_url: str):
    """However its server is called: a query could end the sessions of a scheduler."""
    with (
        psycopg.connect(reader_url, application_name="minutehand"),
        failing("Minutehand itself works as it", permanent=True),
    ):
        reader.ask(reader_url, "select 1")


@pytest.mark.parametrize(
    "query",
    [
        "copy (select 1) to program 'touch /tmp/x'",
        "select 1; drop table if exists t",
        "select set_config('transaction_read_only', 'off', false), lo_create(7)",
        "with t as (insert into x values (1) returning 1) select * from t",
    ],
)
def test_postgresql_only_reads(reader: Reader, reader_url: str, query: str):
    """Nothing but one query can be declared, in a transaction that only reads."""
    with failing(permanent=True) as caught:
        reader.ask(reader_url, query)

    assert reader_url not in str(caught.value)


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
def test_sqlite_only_reads_its_own_file(reader: Reader, tmp_path: Path, query: str):
    """No ATTACH, no PRAGMA, no extension, nothing written."""
    url = reader.make_database("create table t (a integer)")

    with failing(permanent=True):
        reader.ask(url, query.format(folder=tmp_path))

    assert not (tmp_path / "copy.db").exists()


def test_our_own_database_is_refused_under_any_name(reader: Reader, database_url: str):
    """The tables tell, not the address: another name of the host changes nothing."""
    url = database_url.replace("127.0.0.1", "localhost")

    with failing("Minutehand's own database", permanent=True) as caught:
        reader.ask(url, "select 1")

    assert url not in str(caught.value)


def test_password_is_in_no_error(reader: Reader):
    """Neither if nobody listens, nor if the address cannot be read."""
    for url in (
        "postgresql://reader:hunter%2F2@127.0.0.1:1/erp",
        "postgresql://reader:hunter2@[::1]x/erp",
        "postgresql://reader:hunter2@127.0.0.1:1/erp?nonsense=1",
        "postgresql://reader@127.0.0.1:1/erp?password=hunter2%zz",
    ):
        with pytest.raises(StepError) as caught:
            reader.ask(url, "select 1")

        assert "hunter" not in str(caught.value)
