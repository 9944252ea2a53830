"""Read mails back: their marks, and what they said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.lists import cut_part, select_latest
from models.database.tables import (
    FAILED_MAILS,
    UNCERTAIN,
    deliveries,
    mail_contents,
    operations,
    small_apps,
    users,
)
from models.errors import NotFoundError
from models.operation_state import DeliveryState
from models.paging import Page, Part
from operations.mail.contents import TOO_LARGE
from operations.mail.message import (
    Letterhead,
    compute_message_id,
    make_letterhead,
)
from operations.mail.senders import Senders

#: What partial indexes serve, by state.
INDEXED = {
    DeliveryState.UNCERTAIN: UNCERTAIN,
    DeliveryState.FAILED: FAILED_MAILS,
}


class Kept(StrEnum):
    """Whether what a mail said can be read."""

    YES = "yes"
    #: Beyond the bound of contents.py.
    TOO_LARGE = "too_large"
    #: The settings keep none, or it was never rendered, or sent by an older version.
    NO = "no"


class MailState(StrEnum):
    """The states in which a mail is found."""

    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNCERTAIN = "uncertain"


class MailJson(TypedDict):
    """A mail to one recipient; ``content`` tells whether it can be read."""

    operation_id: UUID
    app: str
    action_uid: str
    step: str
    recipient: str
    state: MailState
    error: str | None
    updated_at: datetime
    resolved_by: str | None
    resolved_at: datetime | None
    occurrence: datetime | None
    message_id: str
    content: Kept


class HeaderJson(TypedDict):
    """A header of a mail."""

    name: str
    value: str


class ReadMailJson(MailJson):
    """
    A mail with what it said, as it was handed over. Null: that part is not there.

    ``headers`` are those that Minutehand writes, but for the date; the addresses in
    them are those of now.
    """

    headers: list[HeaderJson]

    subject: str | None
    text: str | None
    html: str | None


@dataclass(frozen=True, slots=True)
class MailSelection:
    """
    Which mails are meant; None, or an empty set, matches everything.

    Args:
        since: Compared with the last change of the mark, inclusive.
        until: Compared with the last change of the mark, exclusive.
    """

    app: str | None = None
    action_uid: str | None = None
    operation_id: UUID | None = None
    recipients: frozenset[str] = frozenset()
    state: DeliveryState | None = DeliveryState.UNCERTAIN
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it matches every mail in its state."""
        return self == MailSelection(state=self.state)


@dataclass(frozen=True, slots=True)
class Mail:
    """
    A mail to one recipient, as its delivery mark shows it; instants are aware UTC.

    Args:
        step: The step of the operation that sends it.
        recipient: Id of a user, or the address of a notice.
        error: The answer of the server, or what is unknown.
        updated_at: When the mark last changed.
        resolved_by: Who decided about the mail when it was uncertain. None: nobody.
        occurrence: The occurrence of the operation.
        kept: Whether what it said can be read.
    """

    operation_id: UUID
    app: str
    action_uid: str
    step: str
    recipient: str
    state: DeliveryState
    error: str | None
    updated_at: datetime
    resolved_by: str | None
    resolved_at: datetime | None
    occurrence: datetime | None
    kept: Kept

    def as_json(self) -> MailJson:
        """Return the documented object; keys are only added."""
        return {
            "operation_id": self.operation_id,
            "app": self.app,
            "action_uid": self.action_uid,
            "step": self.step,
            "recipient": self.recipient,
            "state": MailState(self.state.value),
            "error": self.error,
            "updated_at": self.updated_at,
            "resolved_by": self.resolved_by,
            "resolved_at": self.resolved_at,
            "occurrence": self.occurrence,
            "message_id": compute_message_id(
                self.operation_id, self.step, self.recipient
            ),
            "content": self.kept,
        }


@dataclass(frozen=True, slots=True)
class ReadMail:
    """
    A mail with what it said; all None if that is not kept.

    Args:
        text: The plain text part. None: there was none.
        html: The HTML part. None: there was none.
        address: Of the recipient, as it is now. None: it is not known any more.
        letterhead: What the app writes on its mails, as it is now.
        senders: Whom mails come from now. None: nobody asked for it.
    """

    mail: Mail
    subject: str | None
    text: str | None
    html: str | None
    address: str | None
    letterhead: Letterhead
    senders: Senders | None

    @property
    def headers(self) -> list[HeaderJson]:
        """Those that operations/adapters/smtp.py writes, as far as they are known."""
        mail = self.mail
        message_id = compute_message_id(mail.operation_id, mail.step, mail.recipient)
        letterhead = self.letterhead
        sender = None if self.senders is None else str(self.senders.choose(letterhead))
        values: dict[str, str | None] = {
            "From": sender,
            "To": self.address,
            "Reply-To": letterhead.reply_to or None,
            "Subject": self.subject,
            "Message-ID": f"<{message_id}>",
            "Auto-Submitted": "auto-generated",
            "List-Unsubscribe": (
                f"<{letterhead.unsubscribe}>" if letterhead.unsubscribe else None
            ),
        }
        return [
            {"name": name, "value": value}
            for name, value in values.items()
            if value is not None
        ]

    def as_json(self) -> ReadMailJson:
        """Return the documented object; keys are only added."""
        return {
            **self.mail.as_json(),
            "headers": self.headers,
            "subject": self.subject,
            "text": self.text,
            "html": self.html,
        }


_MARKS = deliveries.c
_OPERATIONS = operations.c

#: The latest first; the rest of the key orders those of the same instant.
_ORDER = (_MARKS.updated_at, _MARKS.operation_id, _MARKS.step, _MARKS.recipient)

_SHOWN = (
    _MARKS.operation_id,
    _OPERATIONS.app,
    _OPERATIONS.action_uid,
    _MARKS.step,
    _MARKS.recipient,
    _MARKS.state,
    _MARKS.error,
    _MARKS.updated_at,
    _MARKS.resolved_by,
    _MARKS.resolved_at,
    _OPERATIONS.occurrence,
    _MARKS.content,
)


def fetch_mails(
    connection: sa.Connection, wanted: MailSelection, page: Page
) -> Part[Mail]:
    """Return a part of the mails, the latest change first."""
    query = (
        sa.select(*_SHOWN).join_from(deliveries, operations).where(*match_mails(wanted))
    )
    found: list[sa.Row[Any]] = []
    for owned in own_mails(wanted.app):
        latest = select_latest(query.where(*owned), page, _ORDER)
        found += connection.execute(latest)
    found.sort(key=_position, reverse=True)
    part = cut_part(found, page, _ORDER)
    return Part([_make_mail(row) for row in part.entries], part.following)


def own_mails(app: str | None) -> Iterator[tuple[sa.ColumnElement[bool], ...]]:
    """
    Yield the conditions for the mails of *app*, each served by an index.

    Programs that do not write the app of a mail may run beside this one, and their
    mails stay for as long as their operations do.
    """
    if app is None:
        yield ()
        return
    yield (_MARKS.app == app,)
    yield (_MARKS.app.is_(None), _OPERATIONS.app == app)


def _position(row: sa.Row[Any]) -> tuple[datetime, UUID, str, str]:
    return row.updated_at, row.operation_id, row.step, row.recipient


def fetch_mail(
    connection: sa.Connection,
    operation_id: UUID,
    step: str,
    recipient: str,
    *,
    app: str | None,
    senders: Senders | None = None,
) -> ReadMail:
    """
    Return one mail with what it said.

    Args:
        operation_id: The operation that sent it.
        step: The step of it that did.
        recipient: Id of a user, or the address of a notice.
        app: Uid of the only small app whose mails may be read. None: any.
        senders: Whom mails come from, by the settings, for the headers.

    Raises:
        NotFoundError: There is no such mail.
    """
    query = (
        sa.select(
            *_SHOWN,
            mail_contents.c.digest,
            mail_contents.c.subject,
            mail_contents.c.text,
            mail_contents.c.html,
            users.c.email,
            small_apps.c.mail,
        )
        .join_from(deliveries, operations)
        .join(small_apps, small_apps.c.uid == _OPERATIONS.app)
        .outerjoin(mail_contents, mail_contents.c.digest == _MARKS.content)
        .outerjoin(
            users,
            (users.c.app == _OPERATIONS.app) & (users.c.id == _MARKS.recipient),
        )
        .where(
            _MARKS.operation_id == operation_id,
            _MARKS.step == step,
            _MARKS.recipient == recipient,
            *(() if app is None else (_OPERATIONS.app == app,)),
        )
    )
    row: Any = connection.execute(query).one_or_none()
    if row is None:
        msg = (
            f"operation {operation_id} has no mail of the step {step} to {recipient!r}"
        )
        raise NotFoundError(msg)
    # A notice is addressed to an address, and to no user.
    address = row.email or (recipient if "@" in recipient else None)
    # Notices are the installation's own.
    letterhead = Letterhead() if step == "notify" else make_letterhead(row.mail)
    return ReadMail(
        _make_mail(row),
        row.subject,
        row.text,
        row.html,
        address,
        letterhead,
        senders,
    )


def match_mails(wanted: MailSelection) -> Iterator[sa.ColumnElement[bool]]:
    """Yield the conditions for *wanted*, on deliveries joined with operations."""
    if wanted.state in INDEXED:
        yield INDEXED[wanted.state].of("deliveries")  # type: ignore[misc]  # a text is a condition
    elif wanted.state is not None:
        yield _MARKS.state == wanted.state
    for column, value in (
        (_OPERATIONS.app, wanted.app),
        (_OPERATIONS.action_uid, wanted.action_uid),
        (_MARKS.operation_id, wanted.operation_id),
    ):
        if value is not None:
            yield column == value
    if wanted.recipients:
        yield _MARKS.recipient.in_(sorted(wanted.recipients))
    if wanted.since is not None:
        yield _MARKS.updated_at >= wanted.since
    if wanted.until is not None:
        yield _MARKS.updated_at < wanted.until


def _make_mail(row: sa.Row[Any]) -> Mail:
    if row.content is None:
        kept = Kept.NO
    else:
        kept = Kept.TOO_LARGE if row.content == TOO_LARGE else Kept.YES
    values = {column.name: getattr(row, column.name) for column in _SHOWN}
    del values["content"]
    return Mail(**{**values, "state": DeliveryState(row.state), "kept": kept})
