"""Sources and webhooks on real files, databases and web servers, and what is told."""

from __future__ import annotations

import gzip
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from models.errors import CanceledError, StepError
from models.fields.sql_connection import SqlConnection
from operations.adapters.sources.sources import RealSources, find_format
from operations.adapters.webhooks import RealWebhooks
from operations.domains import (
    Domain,
    DomainLimits,
    Drift,
    Reached,
    Reading,
    ReadRequest,
)
from operations.mail.message import Fate, WebhookRequest
from tests.integration.operations.adapters.sources.conftest import Reader
from tests.servers import WebServer
from tests.unit.operations.fakes import failing

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def write_old(path: Path, content: str | bytes) -> None:
    """Write *content* with a time that is not of this moment."""
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (1_700_000_000, 1_700_000_000))


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("x.csv", "a,b\n1,x\n2,\n", [(1, "x"), (2, None)]),
        ("x[1]*.csv", "a\n1\n", [(1,)]),
        ("late.csv", "a\n" + "1\n" * 20_000 + "1.5\n", None),
        ("x.json", '[{"a": 1}, {"a": 2.5}]', [(1.0,), (2.5,)]),
        ("x.jsonl", '{"a": 1}\n{"a": null}\n', [(1,), (None,)]),
        ("x.ndjson", '{"a": 1}\n\n{"a": 2.5, "b": "x"}', [(1.0, None), (2.5, "x")]),
        ("head.csv", "a,b\n", []),
    ],
)
def test_files_are_read(
    reader: Reader, tmp_path: Path, name: str, content: str, rows: object
):
    """CSV and JSON become Parquet; every row decides the type of a column."""
    write_old(tmp_path / name, content)

    reading = reader.read({"file": name})

    found = reader.rows
    assert len(found) == reading.rows
    assert rows is None or rows == found


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ({"file": "bad.json"}, "bad.json cannot be read as json"),
        ({"file": "bad.parquet"}, "bad.parquet cannot be read as parquet"),
        ({"file": "bad.jsonl"}, "bad.jsonl cannot be read as ndjson"),
        ({"file": "list.jsonl"}, "list.jsonl cannot be read as ndjson"),
        ({"file": "ragged.csv"}, "ragged.csv cannot be read as csv"),
        ({"file": "empty.csv"}, "empty.csv: the file is empty"),
        ({"file": "data"}, 'Write "format"'),
        ({"file": "bad.json", "format": "xlsx"}, "'xlsx' is not known"),
        ({"ftp": "x"}, "its source is no file, url or sql"),
        ({}, "its source is no file, url or sql"),
        ({"sql": "select 1"}, '"connection" is missing'),
        ({"sql": "select 1", "database": "x"}, '"connection" is missing'),
        ({"sql": "select 1", "connection": "x"}, "has no such connection"),
        ({"sql": "select 1", "connection": "gone"}, "no such file"),
        ({"sql": "select 1", "connection": "theirs"}, "has no such conn"),
        ({"url": "ftp://x/y.csv"}, "Write http"),
    ],
)
def test_what_cannot_be_read_says_why(
    reader: Reader, tmp_path: Path, source: dict[str, str], reason: str
):
    """The message has the path and the reason; content does not mend itself."""
    gone = SqlConnection(SecretStr("sqlite:////no.db"), ("shop",))
    theirs = SqlConnection(SecretStr("sqlite:////no.db"), ("others",))
    reader.connections = {"gone": gone, "theirs": theirs}
    write_old(tmp_path / "bad.json", "{nope")
    write_old(tmp_path / "bad.parquet", "PAR1nope")
    write_old(tmp_path / "bad.jsonl", '{"a": 1}\n{"a": \n')
    write_old(tmp_path / "list.jsonl", "[1]\n[2]\n")
    write_old(tmp_path / "ragged.csv", "a\n1\n1,2,3\n")
    write_old(tmp_path / "empty.csv", "")
    write_old(tmp_path / "data", "a\n1\n")

    with failing(permanent=True) as caught:
        reader.read(source)

    assert reason in str(caught.value)


def test_query_is_read(reader: Reader):
    """SQL results become Parquet; signs of other dialects of SQL are text."""
    url = reader.make_database(
        "create table t (a integer, b text, c text)",
        "insert into t values (1, '50%', null), (2, ':x', null)",
    )
    query = "select * from t where b like '%5%' or b = ':x'"

    reader.ask(url, query)

    assert [(1, "50%", None), (2, ":x", None)] == reader.rows


def test_query_on_postgres(reader_url: str, reader: Reader):
    """Types of PostgreSQL arrive; a wrong query is permanent and names no password."""
    query = (
        "select 1.5::numeric as n, now() as t, gen_random_uuid() as u, '{1}'::int[] a"
    )

    reading = reader.ask(reader_url, query)
    with failing("does not exist", permanent=True):
        reader.ask(reader_url, "select * from nope")

    assert 1 == reading.rows


def test_unchanged_address_is_not_read(reader: Reader, web: WebServer):
    """What servers say, and do not say, of that: test_http_source.py."""
    web.headers = {"Content-Type": "text/csv; charset=utf-8", "ETag": '"1"'}
    source = {"url": f"{web.url}/a?key=s3cret"}
    reading = reader.read(source)

    assert reader.read_if_new(source, known=reading.fingerprint) is None


@pytest.mark.parametrize(
    ("given", "name", "media_type", "found"),
    [
        ("jsonl", "a", "", "ndjson"),
        ("ndjson", "a.csv", "text/csv", "ndjson"),
        (None, "a.PQ.gz", "text/csv", "parquet"),
        (None, "a", "application/x-ndjson", "ndjson"),
        (None, "a", "Application/JSONL; charset=utf-8", "ndjson"),
    ],
)
def test_format_is_known_by_itself_the_name_or_the_media_type(
    given: str | None, name: str, media_type: str, found: str
):
    """In this order; an address need not end in .jsonl."""
    source = {"format": given} if given else {}

    assert found == find_format(source, name, media_type, shown="it")


@pytest.mark.parametrize(
    ("status", "permanent"),
    [(404, True), (403, True), (429, False), (503, False), (204, True)],
)
def test_answers_that_are_no_data(
    reader: Reader, web: WebServer, status: int, *, permanent: bool
):
    """4xx stays, 5xx passes; keys in the query are not in the message."""
    web.status, web.body = status, b""

    with failing(str(status), permanent=permanent) as caught:
        reader.read({"url": f"{web.url}/a.csv?key=s3cret"})

    assert "s3cret" not in str(caught.value)


def test_dead_web_server_is_temporary(reader: Reader):
    """A refused connection may pass."""
    with failing(permanent=False):
        reader.read({"url": "http://127.0.0.1:1/a.csv"})


def read_named(web: WebServer, target: Path, **changes: Any) -> Reading | None:
    """Read from *web* by the name good.example, which is all that is allowed."""
    port = web.url.rpartition(":")[2]
    sources = RealSources(
        allowed_hosts=("good.example",),
        resolve=lambda _h, _p: ("127.0.0.1",),
        **changes,
    )
    source = {"url": f"http://good.example:{port}/a.csv"}
    return sources.read(ReadRequest("shop", Domain("sales", source), target))


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254"),
        ("{url}/secret", "127.0.0.1"),
        ("http://inner.example/", "resolves to 127.0.0.1, which is not a public"),
        ("//inner.example/", "MINUTEHAND_SOURCE_ALLOWED_HOSTS"),
        ("file:///etc/passwd", "Write https://"),
        ("/again", "more than 10 redirects"),
    ],
)
def test_each_redirect_is_checked(
    web: WebServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    location: str,
    reason: str,
):
    """A listed host cannot send us on to one that is not, nor for ever; nor a proxy."""
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    web.status, web.headers = 302, {"Location": location.format(url=web.url)}

    with failing(permanent=True) as caught:
        read_named(web, tmp_path / "out")

    assert reason in str(caught.value)
    assert {"good.example"} == {each["host"].split(":")[0] for each in web.requests}
    assert 11 >= len(web.requests)


def test_answer_that_is_a_bomb_is_stopped(web: WebServer, tmp_path: Path):
    """What is sent with gzip is undone within the bound of bytes."""
    web.headers = {"Content-Encoding": "gzip"}
    web.body = gzip.compress(b"a\n" + b"1\n" * 1_000_000)

    reading = read_named(web, tmp_path / "fine")
    assert reading is not None
    with failing("MINUTEHAND_SOURCE_MAX_BYTES", permanent=True):
        read_named(web, tmp_path / "bomb", limits=DomainLimits(bytes=1_000_000))
    web.headers = {"Content-Encoding": "br"}
    with pytest.raises(StepError, match="gzip was asked for"):
        read_named(web, tmp_path / "br")

    assert 1_000_000 == reading.rows
    assert ["fine"] == [path.name for path in tmp_path.iterdir()]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        (204, Fate.SENT),
        (302, Fate.REFUSED),
        (400, Fate.REFUSED),
        (410, Fate.REFUSED),
        (408, Fate.DEFERRED),
        (429, Fate.DEFERRED),
        (500, Fate.DEFERRED),
    ],
)
def test_webhook_is_posted_and_judged(web: WebServer, status: int, outcome: Fate):
    """A listed address is called, signed; the answer decides; redirects are refused."""
    web.status, web.headers = status, {"Location": f"{web.url}/elsewhere"}
    webhooks = RealWebhooks(secret="abc", allowed_hosts=("127.0.0.0/8",))

    sending = webhooks.post(WebhookRequest(f"{web.url}/x", "id", b"{}"), now=NOW)

    assert outcome is sending.outcome
    assert [b"{}"] == web.bodies
    headers = web.requests[0]
    assert ("id", str(int(NOW.timestamp()))) == (
        headers["webhook-id"],
        headers["webhook-timestamp"],
    )
    assert headers["webhook-signature"].startswith("v1,")


def test_webhook_to_loopback_is_refused_unless_listed(web: WebServer):
    """Not listed: nothing is sent. Listed by name: it is."""
    url = web.url.replace("127.0.0.1", "localhost")
    request = WebhookRequest(url, "1", b"")
    refused = RealWebhooks(secret="abc").post(request, now=NOW)
    listing = RealWebhooks(secret="abc", allowed_hosts=("localhost",))
    taken = listing.post(request, now=NOW)

    assert (Fate.REFUSED, Fate.SENT) == (refused.outcome, taken.outcome)
    assert [url.removeprefix("http://")] == [each["host"] for each in web.requests]


@pytest.mark.parametrize(
    "host", ["2130706433", "0x7f.1", "127.1", "0", "[::ffff:127.0.0.1]", "[::1]"]
)
def test_spellings_of_an_address_are_resolved_before_they_are_judged(host: str):
    """Decimal, hexadecimal and short ones mean what the resolver makes of them."""
    sending = RealWebhooks(secret="abc").post(
        WebhookRequest(f"http://{host}/", "1", b""), now=NOW
    )

    assert "not a public" in sending.detail


def test_columns_are_compared_with_those_of_the_version_before(
    reader: Reader, tmp_path: Path
):
    """Of a file and of a query; the first version has none before it."""
    (tmp_path / "x.csv").write_text("id,price,note\n1,2,x\n")
    first = reader.read({"file": "x.csv"})
    before = reader.target.rename(tmp_path / "before.parquet")
    url = reader.make_database("create table t as select 1 id, 2.5 price, 'y' vat")

    same = reader.read({"file": "x.csv"}, before=before)
    changed = reader.ask(url, "select * from t", before=before)

    assert first.drift is None
    assert same.drift is None
    assert changed.drift == Drift(
        added=(("vat", "String"),),
        removed=(("note", "String"),),
        retyped=(("price", "Int64", "Float64"),),
    )


@pytest.mark.parametrize("content", [None, b"PAR1 torn PAR1"])
def test_whatever_became_of_the_version_before_the_new_one_is_read(
    reader: Reader, tmp_path: Path, content: bytes | None
):
    """A file that is gone or damaged is compared with nothing."""
    (tmp_path / "x.csv").write_text("id\n1\n")
    before = tmp_path / "before.parquet"
    if content is not None:
        before.write_bytes(content)

    reading = reader.read({"file": "x.csv"}, before=before)

    assert 1 == reading.rows
    assert reading.drift is None


def test_it_is_told_how_far_each_kind_of_work_is(reader: Reader, tmp_path: Path):
    """Unpacking and records of JSON in bytes of what there is, rows of a query."""
    told: list[Reached | None] = []
    records = json.dumps([{"n": number} for number in range(5_000)])
    (tmp_path / "x.json.gz").write_bytes(gzip.compress(records.encode()))
    url = reader.make_database("create table t as select 1 id")

    reader.read({"file": "x.json.gz"}, tell=told.append)
    reader.ask(url, "select * from t", tell=told.append)

    size = (tmp_path / "x.json.gz").stat().st_size
    assert Reached("unpack", size, size, "bytes") in told
    assert Reached("read", 1, None, "rows") in told


def test_cancellation_ends_the_reading(reader: Reader, tmp_path: Path):
    """What a listener raises ends a query without an end, and leaves no file."""
    url = reader.make_database("create table t as select 1 id")

    def cancel(_reached: Reached | None) -> None:
        raise CanceledError

    endless = (
        "with recursive r(n) as (select 1 union all select n + 1 from r)"
        " select max(n) from r"
    )
    with pytest.raises(CanceledError):
        reader.ask(url, endless, tell=cancel)

    assert [tmp_path / "s%20.db"] == list(tmp_path.iterdir())
