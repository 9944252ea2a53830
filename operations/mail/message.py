"""
A mail, whom it comes from, and the outcome of handing it over. Pure.

Webhook requests have the same outcomes as mails.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.errors import MessageError
from email.headerregistry import Address
from email.utils import parseaddr
from enum import StrEnum
from uuid import UUID
from zoneinfo import ZoneInfo

from models.occurrence import str_to_uuid


def compute_message_id(operation_id: UUID, step: str, recipient: str) -> str:
    """Return the Message-ID, without brackets: the same in every attempt."""
    return f"{str_to_uuid(f'{operation_id} | {step} | {recipient}')}@minutehand"


@dataclass(frozen=True, slots=True)
class Letterhead:
    """
    What a small app writes on its mails; a text that is empty is not written.

    It was checked when the app was applied, but a tenant wrote it: whoever makes
    headers of it takes nothing for granted.

    Args:
        name: Shown as the sender instead of the installation's.
        address: The sender, where the operator allows its domain.
        reply_to: Where answers go.
        unsubscribe: An https or mailto address.
    """

    name: str = ""
    address: str = ""
    reply_to: str = ""
    unsubscribe: str = ""


def make_letterhead(stored: Mapping[str, str] | None) -> Letterhead:
    """Return the letterhead of an app whose ``mail`` is *stored*; None: it has none."""
    names = "from_name", "from_address", "reply_to", "unsubscribe"
    return Letterhead(*((stored or {}).get(name, "") for name in names))


@dataclass(frozen=True, slots=True)
class MailingApp:
    """
    A small app, as its mails show it.

    Args:
        zone: For dates and times.
        locale: The language for people who have none of their own; may be empty.
    """

    name: str
    zone: ZoneInfo
    locale: str = ""
    letterhead: Letterhead = Letterhead()


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
        letterhead: What the small app writes on it.
    """

    message_id: str
    address: str
    name: str
    subject: str
    text: str | None
    html: str | None = None
    attachments: tuple[Attachment, ...] = ()
    letterhead: Letterhead = Letterhead()


class Fate(StrEnum):
    """What became of a mail or a request that was sent."""

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

    outcome: Fate
    detail: str = ""
    blames_server: bool = False
    retry_in: timedelta | None = None


@dataclass(frozen=True, slots=True)
class WebhookRequest:
    """
    What is posted to a foreign URL.

    Args:
        message_id: The ``webhook-id``, the same in every attempt.
        signed: False: whoever it is for knows no signature; without these headers.
    """

    url: str
    message_id: str
    body: bytes
    signed: bool = True


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


@dataclass(frozen=True, slots=True)
class Senders:
    """
    Whom mails may come from.

    Args:
        default: The From address of the installation, such as "Reports <r@x.org>".
        hosts: What may stand behind the @ of a sender that a small app chose, in lower
            case.
    """

    default: str
    hosts: frozenset[str] = frozenset()

    def choose(self, letterhead: Letterhead) -> str | Address:
        """
        Return who sends a mail with *letterhead*.

        An address that the operator does not allow is not used: mail servers trust
        ours, and a tenant could write anybody's.

        Raises:
            ValueError: The default is no address.
        """
        if not (letterhead.name or letterhead.address):
            return self.default
        name, address = parseaddr(self.default)
        host = letterhead.address.rpartition("@")[2].lower()
        if host in self.hosts:
            address = letterhead.address
        return make_address(letterhead.name or name, address)


def make_address(name: str, address: str) -> Address:
    """
    Return an address for a header; *name* becomes one line.

    Raises:
        ValueError: *address* is none.
    """
    shown = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    try:
        return Address(display_name=shown, addr_spec=address)
    # The parser of addresses also stumbles with an IndexError over some texts.
    except (ValueError, IndexError, MessageError) as error:
        raise ValueError(f"{address!r} is not a mail address.") from error
