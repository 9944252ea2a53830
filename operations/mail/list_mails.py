"""
Read mails back: which there are, how many, and what they said.

A mark is the row of ``deliveries`` for one step and recipient; delivery_marks.py writes
them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from models.database.engine import read_clock
from models.database.lists import Key, belongs_to, cut_part, select_latest
from models.database.tables import (
    FAILED_MAILS,
    SENDING_MAILS,
    UNCERTAIN,
    deliveries,
    mail_contents,
    operations,
    small_apps,
    users,
)
from models.decision import get_action_name
from models.errors import NotFoundError
from models.json_form import ASIDE
from models.operation_state import MailState
from models.paging import Page, Part
from operations.list_operations import PATIENT, find_few
from operations.mail.delivery_marks import TOO_LARGE
from operations.mail.message import (
    Letterhead,
    Senders,
    compute_message_id,
    make_letterhead,
)
from operations.operation_filter import OperationFilter

#: What partial indexes serve, by state.
INDEXED = {
    MailState.UNCERTAIN: UNCERTAIN,
    MailState.FAILED: FAILED_MAILS,
    MailState.SENDING: SENDING_MAILS,
}

#: How far back mails that were sent are counted, unless somebody says otherwise.
COUNTED_WITHIN = timedelta(hours=24)

#: Mails that are counted at most, which takes some 15 ms.
COUNTED = 20_000


class KeptContent(StrEnum):
    """Whether what a mail said can be read."""

    YES = "yes"
    #: Beyond the bound of delivery_marks.py.
    TOO_LARGE = "too_large"
    #: The settings keep none, or it was never rendered.
    NO = "no"


@dataclass(frozen=True, slots=True)
class MailFilter:
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
    state: MailState | None = MailState.UNCERTAIN
    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_open(self) -> bool:
        """Whether it matches every mail in its state."""
        return self == MailFilter(state=self.state)

    def match(self) -> Iterator[sa.ColumnElement[bool]]:
        """Yield its conditions, on deliveries joined with operations."""
        if self.state in INDEXED:
            yield INDEXED[self.state].of("deliveries")  # type: ignore[misc]  # a text is a condition
        elif self.state is not None:
            yield _MARKS.state == self.state
        for column, value in (
            (_MARKS.app, self.app),
            (_OPERATIONS.action_uid, self.action_uid),
            (_MARKS.operation_id, self.operation_id),
        ):
            if value is not None:
                yield column == value
        if self.recipients:
            yield _MARKS.recipient.in_(sorted(self.recipients))
        if self.since is not None:
            yield _MARKS.updated_at >= self.since
        if self.until is not None:
            yield _MARKS.updated_at < self.until


@dataclass(frozen=True, slots=True)
class ListedMail:
    """
    A mail to one recipient, as its delivery mark shows it.

    ``recipient`` is the id of a user, or the address of a notice; ``error`` the answer
    of the server, or what is unknown; ``resolved_by`` who decided about it when it was
    uncertain. ``content`` tells whether what it said can be read.
    """

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
    content: KeptContent
    action_name: str = field(metadata=ASIDE)


@dataclass(frozen=True, slots=True)
class MailHeader:
    """A header of a mail."""

    name: str
    value: str


@dataclass(frozen=True, slots=True)
class ReadMail(ListedMail):
    """
    A mail with what it said, as it was handed over. Null: that part is not there.

    ``headers`` are those that Minutehand writes, but for the date; the addresses in
    them are those of now.
    """

    headers: list[MailHeader]
    subject: str | None
    text: str | None
    html: str | None

    @property
    def address(self) -> str | None:
        """Where it goes now. None: the recipient is not known any more."""
        return next((each.value for each in self.headers if each.name == "To"), None)


@dataclass(frozen=True, slots=True)
class MailCounts:
    """
    How many mails there are, as far as was counted.

    Args:
        by_state: A state without any is left out.
        since: From when on mails were counted that were sent, aware UTC.
        is_whole: Whether all that were meant were counted.
    """

    by_state: Mapping[str, int]
    since: datetime
    is_whole: bool


_MARKS = deliveries.c
_OPERATIONS = operations.c

#: The latest first; the rest of the key orders those of the same instant.
_ORDER = (_MARKS.updated_at, _MARKS.operation_id, _MARKS.step, _MARKS.recipient)

_SHOWN = (
    *(_MARKS.operation_id, _OPERATIONS.app, _OPERATIONS.action_uid, _MARKS.step),
    *(_MARKS.recipient, _MARKS.state, _MARKS.error, _MARKS.updated_at),
    *(_MARKS.resolved_by, _MARKS.resolved_at, _OPERATIONS.occurrence, _MARKS.content),
)


def fetch_mails(
    connection: sa.Connection, wanted: MailFilter, page: Page, *, most: int = COUNTED
) -> Part[ListedMail]:
    """
    Return a part of the mails, the latest change first.

    Args:
        most: If those of an action are no more, all of them are read, and sorted.
    """
    query = sa.select(*_SHOWN, _OPERATIONS.triggered_by)
    query = query.join_from(deliveries, operations).where(*wanted.match())
    key: Key = _ORDER
    if _has_few(connection, wanted, most):
        # Or all mails would be walked, in the hope to meet some of its few.
        mails = query.cte("mails").prefix_with("MATERIALIZED")
        query, key = sa.select(mails), [mails.c[each.name] for each in _ORDER]
    found: Any = connection.execute(select_latest(query, page, key)).all()
    part = cut_part(found, page, _ORDER)
    return Part([ListedMail(**_read_row(row)) for row in part.entries], part.following)


def _has_few(connection: sa.Connection, wanted: MailFilter, most: int) -> bool:
    """Tell whether mails of an action are meant, with few runs, and *most* mails."""
    of_action = OperationFilter(action_uid=wanted.action_uid)
    if not (runs := find_few(connection, of_action, PATIENT)):
        return False
    mails = sa.select(_MARKS.operation_id).join_from(deliveries, operations)
    some = mails.where(*runs).limit(most + 1).subquery()
    count = sa.select(sa.func.count()).select_from(some)
    return connection.execute(count).scalar_one() <= most


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
            *(*_SHOWN, _OPERATIONS.triggered_by, users.c.email, small_apps.c.mail),
            *(mail_contents.c.subject, mail_contents.c.text, mail_contents.c.html),
        )
        .join_from(deliveries, operations)
        .join(small_apps, small_apps.c.uid == _OPERATIONS.app)
        .outerjoin(mail_contents, mail_contents.c.digest == _MARKS.content)
        .outerjoin(
            users, (users.c.app == _OPERATIONS.app) & (users.c.id == _MARKS.recipient)
        )
        .where(
            _MARKS.operation_id == operation_id,
            _MARKS.step == step,
            _MARKS.recipient == recipient,
            *belongs_to(app, _OPERATIONS.app),
        )
    )
    row: Any = connection.execute(query).one_or_none()
    if row is None:
        raise NotFoundError(
            f"operation {operation_id} has no mail of the step {step} to {recipient!r}"
        )
    return ReadMail(
        **_read_row(row),
        headers=[*_find_headers(row, senders)],
        subject=row.subject,
        text=row.text,
        html=row.html,
    )


def _read_row(row: sa.Row[Any]) -> dict[str, Any]:
    """Return the members of a mail."""
    values = {column.name: getattr(row, column.name) for column in _SHOWN}
    if row.content is None:
        kept = KeptContent.NO
    else:
        kept = KeptContent.TOO_LARGE if row.content == TOO_LARGE else KeptContent.YES
    message_id = compute_message_id(row.operation_id, row.step, row.recipient)
    return {
        **values,
        "state": MailState(row.state),
        "message_id": message_id,
        "content": kept,
        "action_name": get_action_name(row.triggered_by),
    }


def _find_headers(row: Any, senders: Senders | None) -> Iterator[MailHeader]:
    """Yield those that operations/adapters/smtp.py writes, as far as they are known."""
    # Notices are the installation's own.
    letterhead = Letterhead() if row.step == "notify" else make_letterhead(row.mail)
    message_id = compute_message_id(row.operation_id, row.step, row.recipient)
    unsubscribe = letterhead.unsubscribe
    values: dict[str, str | None] = {
        "From": None if senders is None else str(senders.choose(letterhead)),
        # A notice is addressed to an address, and to no user.
        "To": row.email or (row.recipient if "@" in row.recipient else None),
        "Reply-To": letterhead.reply_to or None,
        "Subject": row.subject,
        "Message-ID": f"<{message_id}>",
        "Auto-Submitted": "auto-generated",
        "List-Unsubscribe": f"<{unsubscribe}>" if unsubscribe else None,
    }
    for name, value in values.items():
        if value is not None:
            yield MailHeader(name, value)


def count_mails(connection: sa.Connection, wanted: MailFilter) -> Counter[str]:
    """Return how many mails are meant, by state."""
    query = _select(wanted, _MARKS.state, sa.func.count()).group_by(_MARKS.state)
    return Counter(dict(connection.execute(query).all()))


def _select(wanted: MailFilter, *columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    """Return what selects *columns* of the mails that are meant."""
    query = sa.select(*columns).where(*wanted.match())
    if wanted.action_uid is None:
        # To look up the operation of each mail takes ten times as long as to count the
        # mails.
        return query.select_from(deliveries)
    return query.join_from(deliveries, operations)


def count_lately(
    connection: sa.Connection, wanted: MailFilter, *, most: int = COUNTED
) -> MailCounts:
    """
    Count mails by state, within bounds that keep it cheap.

    Args:
        wanted: Which. Without *since* and *until*, mails that were sent are counted if
            they changed within ``COUNTED_WITHIN``.
        most: How many to look at for each state that an index serves, and of all.
    """
    since = wanted.since
    if since is None:
        since = (wanted.until or read_clock(connection)) - COUNTED_WITHIN
    counts: Counter[str] = Counter()
    for state in INDEXED:
        if wanted.state in {None, state}:
            counts += _count_latest(connection, replace(wanted, state=state), most)
    is_whole = all(count < most for count in counts.values())
    if wanted.state not in INDEXED:
        latest = _count_latest(connection, replace(wanted, since=since), most)
        is_whole &= latest.total() < most
        counts |= {each: n for each, n in latest.items() if each not in INDEXED}
    return MailCounts(dict(counts), since, is_whole)


def _count_latest(
    connection: sa.Connection, wanted: MailFilter, most: int
) -> Counter[str]:
    """Count the latest *most* mails that are meant, by state."""
    latest = _select(wanted, _MARKS.state).order_by(_MARKS.updated_at.desc())
    some = latest.limit(most).subquery()
    query = sa.select(some.c.state, sa.func.count()).group_by(some.c.state)
    return Counter(dict(connection.execute(query).all()))


def count_operations(connection: sa.Connection, wanted: MailFilter) -> int:
    """Return how many operations have mails that are meant."""
    query = _select(wanted, sa.func.count(_MARKS.operation_id.distinct()))
    return int(connection.execute(query).scalar_one())
