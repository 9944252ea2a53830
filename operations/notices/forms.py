"""
Notices as programs of others expect them: Slack, Teams, PagerDuty. Pure.

The address says which it is, by its host or by what follows a ``#`` in it. That is for
servers of one's own that read such a form: what follows a ``#`` is never sent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit, urlunsplit
from uuid import UUID

from models.occurrence import str_to_uuid
from operations.notices.grouping import NoticeKind
from operations.notices.wording import find_commands, make_event, make_headline
from operations.reasons import make_cause_key


class NoticeForm(StrEnum):
    """How a notice is written for whoever is posted it."""

    OWN = "own"  # docs/notices.md, signed
    SLACK = "slack"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"


#: The ends of the hosts that expect a form.
_HOSTS = {
    "hooks.slack.com": NoticeForm.SLACK,
    ".webhook.office.com": NoticeForm.TEAMS,
    ".logic.azure.com": NoticeForm.TEAMS,
    ".api.powerplatform.com": NoticeForm.TEAMS,
    "events.pagerduty.com": NoticeForm.PAGERDUTY,
    "events.eu.pagerduty.com": NoticeForm.PAGERDUTY,
}

#: The parameter of an address of PagerDuty that has the key; it is sent in the body.
ROUTING_KEY = "routing_key"

_LONGEST_SUMMARY = 1024


class NoticeRequest(NamedTuple):
    """What is posted where; only our own form is signed."""

    form: NoticeForm
    url: str
    body: bytes


def find_form(url: str) -> NoticeForm:
    """
    Return the form that *url* asks for.

    >>> find_form("https://hooks.slack.com/services/T0/B0/x").value
    'slack'
    >>> find_form("https://chat.example.com/hooks/7#slack").value
    'slack'
    """
    parts = urlsplit(url)
    if parts.fragment in set(NoticeForm):
        return NoticeForm(parts.fragment)
    host = (parts.hostname or "").casefold()
    for end, form in _HOSTS.items():
        if host == end or (end.startswith(".") and host.endswith(end)):
            return form
    return NoticeForm.OWN


def make_request(facts: Mapping[str, Any], *, operation_id: UUID) -> NoticeRequest:
    """Return what is posted of a notice: the same bytes in every attempt."""
    parts = urlsplit(facts["webhook"])
    form = find_form(facts["webhook"])
    url = urlunsplit(parts._replace(fragment=""))
    if form is NoticeForm.OWN:
        return NoticeRequest(form, url, make_event(facts, operation_id=operation_id))
    if form is NoticeForm.PAGERDUTY:
        url = urlunsplit(parts._replace(fragment="", query=""))
    body = _BODIES[form](facts, operation_id)
    return NoticeRequest(form, url, json.dumps(body, ensure_ascii=False).encode())


def _make_slack(facts: Mapping[str, Any], _operation_id: UUID) -> dict[str, Any]:
    lines = [f"*{_escape(make_headline(facts))}*"]
    lines += [f"`{_escape(command)}`" for command in _find_commands(facts)]
    return {"text": "\n".join(lines)}


def _escape(text: str) -> str:
    """Return *text* without what Slack takes for a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_teams(facts: Mapping[str, Any], _operation_id: UUID) -> dict[str, Any]:
    headline = {"text": make_headline(facts), "weight": "Bolder"}
    told = _find_commands(facts)
    commands = [{"text": each, "fontType": "Monospace"} for each in told]
    blocks = [
        {"type": "TextBlock", "wrap": True, **each} for each in (headline, *commands)
    ]
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    kind = "application/vnd.microsoft.card.adaptive"
    return {"type": "message", "attachments": [{"contentType": kind, "content": card}]}


def _make_pagerduty(facts: Mapping[str, Any], operation_id: UUID) -> dict[str, Any]:
    parts = urlsplit(facts["webhook"])
    (key, *_) = parse_qs(parts.query).get(ROUTING_KEY, [""])
    # The same for all notices of one cause, so that what recovers is resolved.
    cause = (facts["app"] or "", facts["was"], make_cause_key(facts["cause"]))
    is_over = facts["kind"] == NoticeKind.RECOVERED
    event = json.loads(make_event(facts, operation_id=operation_id))
    is_test = facts["kind"] == NoticeKind.TEST
    return {
        "routing_key": key,
        "event_action": "resolve" if is_over else "trigger",
        "dedup_key": str(str_to_uuid(f"notice | {json.dumps(cause)}")),
        "payload": {
            "summary": make_headline(facts)[:_LONGEST_SUMMARY],
            "source": facts["app"] or "minutehand",
            "severity": "info" if is_test else "error",
            "timestamp": facts["last_at"],
            "class": event["type"],
            "custom_details": event["data"],
        },
    }


def _find_commands(facts: Mapping[str, Any]) -> list[str]:
    return find_commands(facts, NoticeKind(facts["kind"]))


_BODIES: Mapping[NoticeForm, Callable[[Mapping[str, Any], UUID], dict[str, Any]]] = {
    NoticeForm.SLACK: _make_slack,
    NoticeForm.TEAMS: _make_teams,
    NoticeForm.PAGERDUTY: _make_pagerduty,
}
