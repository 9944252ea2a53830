"""The probe of one byte, on a real web server that answers it in each way."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import StepError
from operations.adapters.sources.sources import RealSources
from operations.domains import Domain, DomainLimits, Fingerprint, Reading
from tests.integration.operations.adapters.sources.conftest import WebServer

OLD = "Mon, 23 Nov 2020 06:00:00 GMT"


@pytest.fixture(autouse=True)
def _web(web: WebServer) -> None:
    """Let the web server ignore conditions, but not ranges."""
    web.honours_conditions, web.ranged = False, 206
    web.headers, web.body = {"ETag": '"1"'}, b"a\n1\n2\n"


def read(
    web: WebServer,
    folder: Path,
    known: Fingerprint | None = None,
    limits: DomainLimits | None = None,
) -> Reading | None:
    target = folder / "out.parquet"
    sources = RealSources(allowed_hosts=("127.0.0.0/8",), limits=limits)
    domain = Domain("sales", {"url": f"{web.url}/sales.csv"})
    return sources.read("shop", domain, known=known, target=target)


def read_first(web: WebServer, folder: Path) -> Fingerprint:
    reading = read(web, folder)
    assert reading is not None
    assert [None] == web.asked
    web.requests.clear()
    return reading.fingerprint


def test_one_byte_shows_that_it_is_as_it_was(web: WebServer, tmp_path: Path):
    """The whole is not asked for if the answer to one byte has the same ETag."""
    known = read_first(web, tmp_path)

    assert read(web, tmp_path, known) is None
    assert ["bytes=0-0"] == web.asked


@pytest.mark.parametrize("ranged", [206, 416, 405, 403, 503, 0])
def test_whatever_a_changed_source_answers_to_a_range_it_is_read(
    web: WebServer, tmp_path: Path, ranged: int
):
    """A new ETag, a refusal of the range, or no answer: then the whole is asked for."""
    known = read_first(web, tmp_path)
    web.headers, web.ranged, web.body = {"ETag": '"2"'}, ranged, b"a\n1\n2\n3\n"

    reading = read(web, tmp_path, known)

    assert reading is not None
    assert 3 == reading.rows
    assert ["bytes=0-0", None] == web.asked


@pytest.mark.parametrize("ranged", [416, 405, 503, 0])
def test_server_that_refuses_ranges_is_still_recognized(
    web: WebServer, tmp_path: Path, ranged: int
):
    """The request for the whole has the same conditions; headers are compared."""
    known = read_first(web, tmp_path)
    web.ranged = ranged

    assert read(web, tmp_path, known) is None


def test_server_that_ignores_ranges_is_asked_once(web: WebServer, tmp_path: Path):
    """What it sends instead of one byte is the whole, and is used."""
    known = read_first(web, tmp_path)
    web.headers, web.ranged = {"ETag": '"2"'}, 200

    reading = read(web, tmp_path, known)

    assert reading is not None
    assert 2 == reading.rows
    assert ["bytes=0-0"] == web.asked


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
    tmp_path: Path,
    before: dict[str, str],
    after: dict[str, str],
    *,
    is_same: bool,
):
    """Times count only where neither answer has an ETag; a tag may become weak."""
    web.headers = before
    known = read_first(web, tmp_path)
    web.headers = after

    assert is_same == (read(web, tmp_path, known) is None)


def test_time_of_this_very_second_proves_nothing(web: WebServer, tmp_path: Path):
    """A source may change twice within a second, of which its time tells only once."""
    web.headers, web.date = {"Last-Modified": OLD}, OLD
    known = read_first(web, tmp_path)

    assert known.last_modified is None
    assert read(web, tmp_path, known) is not None


@pytest.mark.parametrize("announces", [True, False])
def test_answer_beyond_the_bound_is_refused(
    web: WebServer, tmp_path: Path, *, announces: bool
):
    """At once if the server says that it is too much, else where it is cut."""
    web.announces = announces
    with pytest.raises(StepError, match="MINUTEHAND_SOURCE_MAX_BYTES") as caught:
        read(web, tmp_path, limits=DomainLimits(bytes=5))

    assert caught.value.permanent
    assert [] == list(tmp_path.iterdir())


def test_authorities_that_cannot_be_read_are_told_as_the_source(
    web: WebServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What the host lacks may be mended: it is tried again."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))

    with pytest.raises(StepError, match="domain sales: source http") as caught:
        read(web, tmp_path)

    assert not caught.value.permanent
