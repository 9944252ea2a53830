"""What the mails of a step are about, and the envelope that all of them have. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID
from zoneinfo import ZoneInfo

from operations.mail.message import (
    Attachment,
    Mail,
    MailingApp,
    Rendered,
    compute_message_id,
)
from operations.ports import Directory, StepContext
from operations.recipients import User


@dataclass(frozen=True, slots=True)
class Occasion:
    """
    What mails are about; the arguments are those of ``StepContext``.

    Args:
        operation_id: Their Message-IDs are derived from it.
    """

    operation_id: UUID
    app: str
    action_uid: str
    action_name: str
    now: datetime
    occurrence: datetime | None = None
    event: str | None = None
    event_at: datetime | None = None


def read_occasion(context: StepContext) -> Occasion:
    """Return what the mails of a step are about."""
    return Occasion(
        operation_id=context.operation_id,
        app=context.app,
        action_uid=context.action_uid,
        action_name=context.action_name,
        now=context.now,
        occurrence=context.occurrence,
        event=context.event,
        event_at=context.event_at,
    )


def get_mailing_app(directory: Directory, app: str) -> MailingApp:
    """Return *app* as its mails show it, also if it was deleted meanwhile."""
    return directory.get_app(app) or MailingApp(app, ZoneInfo("UTC"))


def make_mail(
    occasion: Occasion,
    step: str,
    user: User,
    app: MailingApp,
    parts: Rendered,
    *attachments: Attachment,
) -> Mail:
    """Return *parts* as the mail of *step* to *user*."""
    return Mail(
        message_id=compute_message_id(occasion.operation_id, step, user.id),
        address=user.email,
        name=user.name,
        subject=parts.subject,
        text=parts.text,
        html=parts.html,
        attachments=attachments,
        letterhead=app.letterhead,
    )
