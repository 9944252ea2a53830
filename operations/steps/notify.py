"""
notify: send a notice of failed operations to the addresses in app.json and settings.

Its facts and addresses were recorded with the operation: every attempt uses the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from typing import Any, Literal

from models.errors import StepError
from models.occurrence import str_to_uuid
from operations.mail.deliver import deliver
from operations.mail.message import Fate, Mail, compute_message_id
from operations.mail.words import find_words
from operations.notices.forms import NoticeForm, make_request
from operations.notices.wording import (
    DETAILS_KEY,
    make_subject,
    make_text,
)
from operations.ports import StepContext, StepResult
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
    message_id = str(str_to_uuid(f"{context.operation_id} | notify | {url}"))
    request = make_request(facts, operation_id=context.operation_id)
    sending = context.ports.webhooks.post(
        request.url,
        message_id=message_id,
        body=request.body,
        now=context.now,
        signed=request.form is NoticeForm.OWN,
    )
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
    return [
        (
            User(id=address, email=address),
            _make_mail(context, facts, address, locales.get(address, "")),
        )
        for address in facts["mail"]
    ]


def _make_mail(
    context: StepContext, facts: Mapping[str, Any], address: str, locale: str
) -> Mail:
    words = find_words(locale, zone=UTC)
    return Mail(
        message_id=compute_message_id(context.operation_id, "notify", address),
        address=address,
        name="",
        subject=make_subject(facts, words),
        text=make_text(facts, words),
    )
