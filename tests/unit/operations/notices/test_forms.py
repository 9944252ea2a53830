"""Notices as Slack, Teams and PagerDuty expect them."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from models.fields.addresses import NoticeForm, find_form
from operations.steps.notify import make_request
from tests.unit.operations.steps.test_notify import FACTS as NOTICE

ID = UUID(int=7)

FACTS: dict[str, Any] = {
    **NOTICE,
    "zone": "UTC",
    "cause": "send_email: <ann> & 'bob' 17",
    "count": 2,
    "total": 2,
    "mail": [],
}
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue?routing_key=K1"


def make(url: str, **changes: Any) -> tuple[str, Any]:
    """Return where a notice is posted, and what."""
    request = make_request({**FACTS, "webhook": url, **changes}, operation_id=ID)
    return request.url, json.loads(request.body)


@pytest.mark.parametrize(
    ("url", "form"),
    [
        ("https://hooks.slack.com/services/T0/B0/x", NoticeForm.SLACK),
        ("https://Hooks.Slack.com/services/T0/B0/x", NoticeForm.SLACK),
        ("https://hooks.slack.com.example.com/x", NoticeForm.OWN),
        ("https://acme.webhook.office.com/webhookb2/x", NoticeForm.TEAMS),
        ("https://prod-1.westeurope.logic.azure.com:443/workflows/x", NoticeForm.TEAMS),
        (PAGERDUTY, NoticeForm.PAGERDUTY),
        ("https://chat.example.com/hooks/7#slack", NoticeForm.SLACK),
        ("https://hooks.slack.com/services/x#own", NoticeForm.OWN),
        ("https://example.com/hook#section", NoticeForm.OWN),
    ],
)
def test_address_tells_the_form(url: str, form: NoticeForm):
    """By its whole host, or the end of the address."""
    assert form is find_form(url)


def test_slack_gets_one_text_without_mentions():
    """What stands in an error cannot become a link or call a channel."""
    url, body = make("https://chat.example.com/hooks/7#slack")

    assert "https://chat.example.com/hooks/7" == url
    first, *commands = body["text"].splitlines()
    assert first.endswith("failed (2 times): send_email: &lt;ann&gt; &amp; 'bob' 17*")
    assert commands[0] == f"`minutehand operations show {FACTS['operations'][0]}`"


def test_teams_gets_an_adaptive_card():
    """With the headline first, and the commands."""
    _, body = make("https://acme.webhook.office.com/webhookb2/x")

    (attachment,) = body["attachments"]
    card = attachment["content"]
    assert ("message", "AdaptiveCard") == (body["type"], card["type"])
    (headline,), *commands = (block["inlines"] for block in card["body"])
    assert headline["text"].startswith('sales: "weekly" failed (2 times)')
    assert len(commands) == 3


def test_teams_shows_an_error_as_it_is():
    """A run of text is never read as Markdown, as a block of text is."""
    cause = "send_email: [pay](https://evil.example) **now** <b>"

    _, body = make("https://acme.webhook.office.com/webhookb2/x", cause=cause)

    blocks = body["attachments"][0]["content"]["body"]
    runs = [each for block in blocks for each in block["inlines"]]
    assert {"RichTextBlock"} == {block["type"] for block in blocks}
    assert {"TextRun"} == {run["type"] for run in runs}
    assert runs[0]["text"].endswith(cause)


def test_pagerduty_resolves_what_it_was_told_of():
    """All notices of one cause have one key; the routing key is in the body alone."""
    url, failed = make(PAGERDUTY)
    _, again = make(PAGERDUTY, count=1, cause="send_email: <ann> & 'eve' 18")
    _, other = make(PAGERDUTY, cause="no such template")
    _, recovered = make(PAGERDUTY, kind="recovered")

    assert "https://events.pagerduty.com/v2/enqueue" == url
    assert ("K1", "trigger") == (failed["routing_key"], failed["event_action"])
    assert "resolve" == recovered["event_action"]
    assert failed["dedup_key"] == again["dedup_key"] == recovered["dedup_key"]
    assert failed["dedup_key"] != other["dedup_key"]
    assert "operation.failed" == failed["payload"]["class"]


@pytest.mark.parametrize("form", list(NoticeForm))
def test_test_notice_says_that_nothing_failed(form: NoticeForm):
    """In each form."""
    changes = {"kind": "test", "was": "test", "cause": "", "actions": []}

    _, body = make(f"https://example.com/x#{form}", **changes, operations=[])

    assert "sales: a test notice; nothing has failed" in json.dumps(body)
