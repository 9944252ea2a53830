"""
A mail, and what became of it once it was handed over. Pure.

Webhooks are handed over to others as mails are, so they have the same outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


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
            that a mail server or a person can spot a repetition.

        address: The recipient's.

        name: The recipient's, for the To header; may be empty.

        subject: One line.

        text: Plain text part. None: an HTML part alone.

        html: None: no HTML part. One of the two is there.

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
    """What became of a mail or of a request."""

    SENT = "sent"
    #: Refused for good, and nothing left: a wrong address.
    REFUSED = "refused"
    #: Refused for now, and nothing left: the mailbox is full.
    DEFERRED = "deferred"
    #: The server could not be talked to, and nothing left.
    UNREACHABLE = "unreachable"
    #: The connection broke while the content was on its way.
    UNCERTAIN = "uncertain"


@dataclass(frozen=True, slots=True)
class Sending:
    """
    The outcome of handing over a mail; *detail* is for the operator.

    Args:
        blames_server: Whether the server would do the same with any other mail: it
            cannot be connected to, or it hangs.

        retry_in: When to try again, if the server is known not to serve, with *detail*
            as a whole sentence. None: nobody knows.
    """

    outcome: Outcome
    detail: str = ""
    blames_server: bool = False
    retry_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Template:
    """A mail template of a small app; all three are Jinja2, one part is there."""

    name: str
    subject: str
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True)
class Rendered:
    """A mail's parts; the subject is one line, at least one body part is there."""

    subject: str
    text: str | None
    html: str | None
