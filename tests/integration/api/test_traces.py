"""Requests as spans that go on with the trace of whoever asks."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import pytest
from starlette.requests import Request
from starlette.responses import Response

import tracing
from serving.apart import LARGEST_HERE, Apart
from serving.refusals import HttpError
from settings import find_collector
from tests.collector import Collector, collecting
from tests.integration.api.conftest import Web
from tests.scheduling import make_document

THEIRS = ("a" * 32, "b" * 16)
HEADERS = {"traceparent": f"00-{THEIRS[0]}-{THEIRS[1]}-01"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Give a collector that gets what this process does."""
    with collecting() as listening:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", listening.url)
        tracing.configure(find_collector("TRACES"))
        yield listening
        tracing.stop()


def test_post_goes_on_with_the_trace_of_whoever_asks(web: Web, collector: Collector):
    """The post links to the request, which is a part of their trace."""
    answer = web.post("/actions", make_document(), headers=HEADERS)
    tracing.stop()

    assert 201 == answer.status_code, answer.text
    (asked,), (posted,) = collector.find("POST /api/v1/actions"), collector.find("post")
    assert THEIRS == (asked.trace_id, asked.parent)
    assert 201 == asked.facts["status"]
    assert answer.headers["x-request-id"] == asked.facts["request_id"]
    assert (asked.place,) == posted.links


def test_request_that_is_refused_is_traced_if_it_was_let_in(
    web: Web, collector: Collector
):
    """What it asked for is not there; who has no key sends nothing to a collector."""
    headers = {"traceparent": "no such thing"}
    web.get("/actions/nobodys", headers=headers)
    web.client.get("/api/v1/actions/nobodys", headers=HEADERS)
    tracing.stop()

    (asked,) = collector.find("GET /api/v1/actions/{uid}")
    assert (404, "", "") == (asked.facts["status"], asked.parent, asked.error)


class Ending(Apart):
    """Processes that end before they have answered."""

    async def answer(self, request: Request, tenant: str, body: bytes) -> Response:
        """Raise what is raised of them."""
        del request, tenant, body
        raise HttpError(HTTPStatus.SERVICE_UNAVAILABLE, "it has ended")


def test_large_request_without_an_answer_is_traced_with_what_it_was_told(
    web: Web, collector: Collector
):
    """It is no error of the span, and its limits are those of any other."""
    web.client.app.state.services.apart = Ending(lambda: web.client.app)  # type: ignore[attr-defined]
    answer = web.post("/actions", {"name": "n" * LARGEST_HERE}, headers=HEADERS)
    tracing.stop()

    assert 503 == answer.status_code, answer.text
    assert "ratelimit" in answer.headers
    (asked,) = collector.find("POST /api/v1/actions")
    assert (503, "") == (asked.facts["status"], asked.error)
