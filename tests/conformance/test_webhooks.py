"""Webhooks, in memory, in the simulated world and over HTTP, keep their promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from operations.adapters.webhooks import RealWebhooks
from operations.mail.message import Fate, WebhookRequest
from operations.ports import Webhooks
from tests.servers import run_web_server
from tests.unit.operations.fakes import FakeWebhooks

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


@dataclass
class Case:
    """Webhooks, an address that takes requests, and what it was sent: id and body."""

    webhooks: Webhooks
    url: str
    fetch: Callable[[], list[tuple[str, bytes]]]


@pytest.fixture(params=["memory", "http"])
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    """Give each of them."""
    if request.param == "memory":
        fake = FakeWebhooks()
        yield Case(
            fake,
            "https://example.org/hook",
            lambda: [(id_, body) for _url, id_, body in fake.posts],
        )
        return
    with run_web_server() as web:
        real = RealWebhooks(secret="abc", allowed_hosts=("127.0.0.0/8",))

        def fetch() -> list[tuple[str, bytes]]:
            ids = (each["webhook-id"] for each in web.requests)
            return list(zip(ids, web.bodies, strict=True))

        yield Case(real, f"{web.url}/hook", fetch)


def test_request_arrives_under_its_id(case: Case) -> None:
    """As often as it is posted: who gets it tells a repetition by its id."""
    sendings = [
        case.webhooks.post(WebhookRequest(case.url, "1", b"{}"), now=NOW)
        for _ in range(2)
    ]

    assert [Fate.SENT] * 2 == [each.outcome for each in sendings]
    assert [("1", b"{}")] * 2 == case.fetch()


@pytest.mark.parametrize("url", ["", "nowhere", "ftp://example.org/x"])
def test_what_is_not_an_address_of_the_web_is_refused(case: Case, url: str) -> None:
    """With words that say which; nothing is sent."""
    sending = case.webhooks.post(WebhookRequest(url, "1", b"{}"), now=NOW)

    assert sending.outcome is Fate.REFUSED
    assert sending.detail
    assert [] == case.fetch()
