"""
call_webhook: post to a foreign URL that the operation runs.

The request is signed as in Standard Webhooks (standardwebhooks.com). ``webhook-id`` is
the operation's id: a receiver that remembers ids does nothing twice.
"""

from __future__ import annotations

import json

from models.errors import StepError
from models.occurrence import format_occurrence
from models.operation import CallWebhookModel
from operations.mail.message import Fate, WebhookRequest
from operations.ports import StepContext, StepResult

#: The ``type`` of the payload.
EVENT_TYPE = "operation.step"


def make_body(context: StepContext) -> bytes:
    """Return the payload: the same bytes in every attempt."""
    occurrence = context.occurrence
    data = {
        "operation_id": str(context.operation_id),
        "app": context.app,
        "action": {"uid": context.action_uid, "name": context.action_name},
        "occurrence": None if occurrence is None else format_occurrence(occurrence),
        "user": context.user_id,
        "trigger": str(context.trigger),
        "event": context.event,
    }
    return json.dumps({"type": EVENT_TYPE, "data": data}, ensure_ascii=False).encode()


def call_webhook(context: StepContext, asked: CallWebhookModel) -> StepResult:
    """
    POST the operation to the URL *asked* for, at least once.

    Returns:
        ``webhook_id`` and ``answer``, such as "204 No Content".

    Raises:
        StepError: Permanent for a forbidden URL, a redirect, and 4xx except 408, 425
            and 429; temporary otherwise.
    """
    message_id = str(context.operation_id)
    request = WebhookRequest(asked.url, message_id, make_body(context))
    sending = context.ports.webhooks.post(request, now=context.now)
    if sending.outcome is not Fate.SENT:
        msg = f"the request was not accepted: {sending.detail}"
        raise StepError(msg, permanent=sending.outcome is Fate.REFUSED)

    context.say(f"the request was accepted: {sending.detail}")
    return {"webhook_id": message_id, "answer": sending.detail}
