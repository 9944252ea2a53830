"""
notify: send a notice of failed operations to the addresses in app.json and settings.

Its facts and addresses were recorded with the operation: every attempt uses the same.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC
from typing import Any, Literal
from urllib.parse import parse_qs, urlsplit, urlunsplit
from uuid import UUID

from models.errors import StepError
from models.fields.addresses import ROUTING_KEY, NoticeForm, find_form
from models.occurrence import str_to_uuid
from operations.mail.deliver import deliver
from operations.mail.message import Fate, Mail, WebhookRequest, compute_message_id
from operations.mail.words import find_words
from operations.notices import wording
from operations.notices.grouping import DETAILS_KEY, NoticeKind
from operations.ports import StepContext, StepResult
from operations.reasons import make_cause_key
from operations.recipients import User

#: Key in the step's memo: the answer to its request, which is not sent again then.
MEMO_KEY = "webhook"


def notify(context: StepContext, asked: Literal[True]) -> StepResult:  # noqa: ARG001 - the shape of a step
    """
    Post the notice, at least once, and mail it, at most once to each address.

    Returns:
        ``webhook``: the answer to the request; None if there was none. ``sent``,
        ``uncertain``, ``failed``: the mails. ``warnings``: why the request or the mails
        were refused.

    Raises:
        PostponedError: The mail server is unavailable.
        StepError: Temporary if the cause may pass; permanent if nobody was reached.
    """
    told: Any = context.details[DETAILS_KEY]
    facts: Mapping[str, Any] = told
    # First, because an unavailable mail server ends the attempt.
    answer, failure = _post(context, facts)
    mails = _make_mails(context, facts)
    result: StepResult = {"sent": 0}
    if mails:
        try:
            result = deliver(context, mails, ())
        except StepError as error:
            # One of the two ways is enough; a temporary failure is tried again.
            if not (error.permanent and answer and failure is None):
                raise
            failure = error
    if failure is not None and (not failure.permanent or not result["sent"]):
        raise failure
    warning = None if failure is None else str(failure)
    return {"webhook": answer, **result, "warnings": [warning] if warning else []}


def _post(
    context: StepContext, facts: Mapping[str, Any]
) -> tuple[str | None, StepError | None]:
    """Return the answer to the request, or its error."""
    url = facts["webhook"]
    if url is None:
        return None, None
    known = context.memo.get(MEMO_KEY)
    if known is not None:
        return str(known), None
    request = make_request(facts, operation_id=context.operation_id)
    sending = context.ports.webhooks.post(request, now=context.now)
    if sending.outcome is Fate.SENT:
        context.say(f"the request was accepted: {sending.detail}")
        context.remember(MEMO_KEY, sending.detail)
        return sending.detail, None
    msg = f"the request was not accepted: {sending.detail}"
    return None, StepError(msg, permanent=sending.outcome is Fate.REFUSED)


def _make_mails(
    context: StepContext, facts: Mapping[str, Any]
) -> list[tuple[User, Mail]]:
    """Return the mail to each address, in the language of the user who has it."""
    locales: Mapping[str, str] = {}
    if facts["app"] is not None:
        directory = context.ports.directory
        locales = directory.fetch_locales(facts["app"], facts["mail"])
    mails = []
    for address in facts["mail"]:
        words = find_words(locales.get(address, ""), zone=UTC)
        mail = Mail(
            message_id=compute_message_id(context.operation_id, "notify", address),
            address=address,
            name="",
            subject=wording.make_subject(facts, words),
            text=wording.make_text(facts, words),
        )
        mails.append((User(id=address, email=address), mail))
    return mails


_LONGEST_SUMMARY = 1024


def make_request(facts: Mapping[str, Any], *, operation_id: UUID) -> WebhookRequest:
    """Return what is posted of a notice: the same bytes in every attempt."""
    message_id = str(str_to_uuid(f"{operation_id} | notify | {facts['webhook']}"))
    parts = urlsplit(facts["webhook"])
    form = find_form(facts["webhook"])
    url = urlunsplit(parts._replace(fragment=""))
    if form is NoticeForm.OWN:
        event = wording.make_event(facts, operation_id=operation_id)
        return WebhookRequest(url, message_id, event)
    if form is NoticeForm.PAGERDUTY:
        url = urlunsplit(parts._replace(fragment="", query=""))
    body = _BODIES[form](facts, operation_id)
    told = json.dumps(body, ensure_ascii=False).encode()
    return WebhookRequest(url, message_id, told, signed=False)


def _make_slack(facts: Mapping[str, Any], _operation_id: UUID) -> dict[str, Any]:
    lines = [f"*{_escape(wording.make_headline(facts))}*"]
    lines += [f"`{_escape(command)}`" for command in wording.find_commands(facts)]
    return {"text": "\n".join(lines)}


def _escape(text: str) -> str:
    """Return *text* without what Slack takes for a mention or a link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _make_teams(facts: Mapping[str, Any], _operation_id: UUID) -> dict[str, Any]:
    headline = {"text": wording.make_headline(facts), "weight": "Bolder"}
    told = wording.find_commands(facts)
    commands = [{"text": each, "fontType": "Monospace"} for each in told]
    # A TextBlock would take what stands in an error for Markdown, and link it.
    blocks = [
        {"type": "RichTextBlock", "inlines": [{"type": "TextRun", **each}]}
        for each in (headline, *commands)
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
    event = json.loads(wording.make_event(facts, operation_id=operation_id))
    is_test = facts["kind"] == NoticeKind.TEST
    return {
        "routing_key": key,
        "event_action": "resolve" if is_over else "trigger",
        "dedup_key": str(str_to_uuid(f"notice | {json.dumps(cause)}")),
        "payload": {
            "summary": wording.make_headline(facts)[:_LONGEST_SUMMARY],
            "source": facts["app"] or "minutehand",
            "severity": "info" if is_test else "error",
            "timestamp": facts["last_at"],
            "class": event["type"],
            "custom_details": event["data"],
        },
    }


_BODIES: Mapping[NoticeForm, Callable[[Mapping[str, Any], UUID], dict[str, Any]]] = {
    NoticeForm.SLACK: _make_slack,
    NoticeForm.TEAMS: _make_teams,
    NoticeForm.PAGERDUTY: _make_pagerduty,
}
