"""
A mail, and the outcome of handing it over. Pure.

Webhook requests have the same outcomes as mails.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from uuid import UUID

from models.occurrence import str_to_uuid


def compute_message_id(operation_id: UUID, step: str, recipient: str) -> str:
    """Return the Message-ID, without brackets: the same in every attempt."""
    return f"{str_to_uuid(f'{operation_id} | {step} | {recipient}')}@minutehand"


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file in a mail; *subtype* of "application", such as "pdf"."""

    name: str
    subtype: str
    content: bytes


@dataclass(frozen=True, slots=True)
class Mail:
    """
    One mail to one recipient, rendered.

    Args:
        message_id: Without angle brackets; derived from operation and recipient, so
            that a mail server or a person can recognize a repetition.

        address: The recipient's address.

        name: The recipient's name, for the To header; may be empty.

        subject: One line.

        text: The plain text part. None: there is only an HTML part.

        html: The HTML part. None: there is only a plain text part.

        attachments: In order.
    """

    message_id: str
    address: str
    name: str
    subject: str
    text: str | None
    html: str | None = None
    attachments: tuple[Attachment, ...] = ()


class Outcome(StrEnum):
    """The outcome of sending a mail or a request."""

    SENT = "sent"
    #: Refused for good, and nothing left: a wrong address.
    REFUSED = "refused"
    #: Refused for now, and nothing left: the mailbox is full.
    DEFERRED = "deferred"
    #: The server could not be reached, and nothing left.
    UNREACHABLE = "unreachable"
    #: The connection broke while the content was on its way.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Sending:
    """
    The outcome of handing over a mail; *detail* is for the operator.

    Args:
        blames_server: Whether the same would happen to any other mail: nobody can
            connect to the server, or the server hangs.

        retry_in: How long to wait if the server is known to be unavailable; then
            *detail* is a whole sentence. None: unknown.
    """

    outcome: Outcome
    detail: str = ""
    blames_server: bool = False
    retry_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A mail template of a small app, in Jinja2; it has a text part, HTML, or both."""

    name: str
    subject: str
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A rendered mail: the subject is one line; it has a text part, HTML, or both."""

    subject: str
    text: str | None
    html: str | None
