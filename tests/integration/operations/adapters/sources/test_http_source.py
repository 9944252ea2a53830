"""What shows that a source is as it was, on a real web server."""

from __future__ import annotations

from pathlib import Path

import pytest

from operations.adapters.guarded_http import HostGuard
from operations.adapters.sources.http_source import HttpSource
from operations.adapters.sources.sources import RealSources
from operations.domains import Domain, DomainLimits, Fingerprint, ReadRequest
from tests.servers import WebServer
from tests.unit.operations.fakes import failing

OLD = "Mon, 23 Nov 2020 06:00:00 GMT"


@pytest.fixture(autouse=True)
def _web(web: WebServer) -> None:
    """Let the web server ignore conditions."""
    web.honours_conditions = False
    web.headers, web.body = {"ETag": '"1"'}, b"a\n1\n2\n"


@pytest.fixture
def body(tmp_path: Path) -> Path:
    """Give where the answer is written."""
    return tmp_path / "body"


def fetch(
    web: WebServer, body: Path, known: Fingerprint | None = None
) -> Fingerprint | None:
    """Fetch into *body*; return what identifies the answer, None if nothing is new."""
    guard = HostGuard(("127.0.0.0/8",), setting="")
    source = HttpSource(web.url, "digest", "it", guard, DomainLimits())
    download = source.fetch(known, body)
    return None if download is None else download.fingerprint


def fetch_first(web: WebServer, body: Path) -> Fingerprint:
    seen = fetch(web, body)
    assert seen is not None
    return seen


@pytest.mark.parametrize(
    "headers", [{"ETag": '"1"'}, {"Last-Modified": OLD}], ids=["etag", "last-modified"]
)
def test_server_that_knows_conditions_says_that_it_is_as_it_was(
    web: WebServer, body: Path, headers: dict[str, str]
):
    """By a 304."""
    web.honours_conditions, web.headers = True, headers
    known = fetch_first(web, body)

    assert fetch(web, body, known) is None
    web.headers = {name: f"{value}x" for name, value in headers.items()}
    assert fetch(web, body, known) is not None


def test_head_of_the_answer_shows_that_it_is_as_it_was(web: WebServer, body: Path):
    """A server that ignores conditions sends the same ETag; its body is not read."""
    known = fetch_first(web, body)
    web.body = b""

    assert fetch(web, body, known) is None
    assert b"a\n1\n2\n" == body.read_bytes()
    web.headers = {"ETag": '"2"'}
    assert fetch(web, body, known) is not None


@pytest.mark.parametrize(
    ("before", "after", "is_same"),
    [
        ({"ETag": '"1"', "Last-Modified": OLD}, {"ETag": '"1"'}, True),
        ({"ETag": '"1"', "Last-Modified": OLD}, {"Last-Modified": OLD}, False),
        ({"Last-Modified": OLD}, {"ETag": '"1"', "Last-Modified": OLD}, False),
        ({"Last-Modified": OLD}, {"Last-Modified": OLD}, True),
        ({"ETag": 'W/"1"'}, {"ETag": '"1"'}, True),
        ({"ETag": ""}, {"ETag": ""}, False),
        ({}, {}, False),
    ],
)
def test_the_etag_wins_and_doubt_reads(
    web: WebServer,
    body: Path,
    before: dict[str, str],
    after: dict[str, str],
    *,
    is_same: bool,
):
    """Times count only where neither answer has an ETag; a tag may become weak."""
    web.headers = before
    known = fetch_first(web, body)
    web.headers = after

    assert is_same == (fetch(web, body, known) is None)


def test_time_of_this_very_second_proves_nothing(web: WebServer, body: Path):
    """A source may change twice within a second, of which its time tells only once."""
    web.headers, web.date = {"Last-Modified": OLD}, OLD
    known = fetch_first(web, body)

    assert known.last_modified is None
    assert fetch(web, body, known) is not None


def read(web: WebServer, folder: Path, most: int = 1000) -> None:
    """Read the source, of at most so many bytes."""
    sources = RealSources(
        allowed_hosts=("127.0.0.0/8",), limits=DomainLimits(bytes=most)
    )
    domain = Domain("sales", {"url": f"{web.url}/sales.csv"})
    sources.read(ReadRequest("shop", domain, folder / "out.parquet"))


@pytest.mark.parametrize("announces", [True, False])
def test_answer_beyond_the_bound_is_refused(
    web: WebServer, tmp_path: Path, *, announces: bool
):
    """At once if the server says that it is too much, else where it is cut."""
    web.announces = announces
    with failing("MINUTEHAND_SOURCE_MAX_BYTES", permanent=True):
        read(web, tmp_path, most=5)

    assert [] == list(tmp_path.iterdir())


def test_authorities_that_cannot_be_read_are_told_as_the_source(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What the host lacks may be mended: it is tried again."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    with failing("domain sales: source http", permanent=False):
        read(web, tmp_path)
