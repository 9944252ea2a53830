"""Who would get the mails of an action now, and why each user is in or out."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

import sqlalchemy as sa
from pydantic import ValidationError

from actions.lookup import get_action
from actions.posting.references import fetch_references, find_unknown
from models.database.engine import read_clock
from models.errors import InvalidDocumentError, Problem
from models.json_form import ASIDE
from models.operation import EVERYONE, RecipientFilterModel, Standing
from models.paging import Page, Part
from models.scheduled_action import ScheduledActionModel
from models.when import EventModel
from operations.adapters.app_users import count_left_out, fetch_addressed, fetch_judged
from operations.recipients import INSIDE, User, judge

#: Users that are shown of those who get the mails, and of those who are left out.
FIRST_SHOWN = 10

_WORDS = {
    Standing.NOT_NAMED: "neither the user nor any of their groups is named",
    Standing.INACTIVE: "the account is disabled or has expired",
    Standing.INACTIVATED: "the user never activated the account",
    Standing.NOT_ONLY: "the action is only for inactive or inactivated users",
    Standing.NOBODY: "the action names no recipients",
    Standing.TRIGGERS: "if an event of the user triggers the action",
}


@dataclass(frozen=True, slots=True)
class Recipient:
    """A user of the small app, whether they would get the mails now, and why."""

    account: User = field(metadata=ASIDE)
    user: str
    name: str
    email: str
    is_in: bool
    standing: Standing
    reason: str


@dataclass(frozen=True, slots=True)
class LeftOut:
    """How many users the action names and leaves out all the same, and why."""

    standing: Standing
    count: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecipientPart:
    """
    A part of the users of an app, and what is true of all.

    Args:
        count: How many are inside.
        on_event: Whether each gets them only when an event of theirs triggers it.
        unknown: A problem for each user and group that the app does not have.
    """

    part: Part[Recipient]
    count: int
    on_event: bool
    unknown: tuple[Problem, ...]


@dataclass(frozen=True, slots=True)
class ForeseenRecipients:
    """
    Who would get the mails if the action ran now.

    ``on_event``: each only when an event of theirs triggers the action; ``left_out``:
    users whom it names and who get none; ``first`` and ``first_left_out`` are some of
    both, by id.
    """

    count: int
    on_event: bool
    left_out: tuple[LeftOut, ...]
    first: tuple[Recipient, ...]
    first_left_out: tuple[Recipient, ...]


def foresee_recipients(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    *,
    most: int = FIRST_SHOWN,
) -> ForeseenRecipients:
    """
    Return who would get the mails of *action*, stored or not, if it ran now.

    Args:
        most: How many are shown of those who get them, and of those who do not.
    """
    on_event = isinstance(action.when, EventModel)
    who = _get_filter(action)
    if who is None:
        return ForeseenRecipients(0, on_event, (), (), ())
    now = read_clock(connection)
    count, left_out = count_left_out(connection, app, who, now=now, on_event=on_event)

    def find(*, inside: bool) -> tuple[Recipient, ...]:
        found = fetch_addressed(
            connection, app, who, now=now, on_event=on_event, inside=inside, limit=most
        )
        return tuple(judge_recipient(action, user, now=now) for user in found)

    told = (each for each in Standing if each in left_out)
    without = tuple(LeftOut(each, left_out[each], _WORDS[each]) for each in told)
    first = find(inside=True) if count else ()
    first_without = find(inside=False) if left_out else ()
    return ForeseenRecipients(count, on_event, without, first, first_without)


def foresee_stored(
    connection: sa.Connection, uid: str
) -> tuple[ForeseenRecipients, tuple[Problem, ...]]:
    """
    Return who would get the mails of a stored action if it ran now.

    Args:
        uid: Of an action, deleted or not.

    Returns:
        Who; and a problem for each user and group that its app does not have.

    Raises:
        NotFoundError: There has never been such an action.
        InvalidDocumentError: Its document can no longer be read.
    """
    row = get_action(connection, uid)
    action = read_stored(uid, row.document)
    found = foresee_recipients(connection, row.app, action)
    return found, _find_unknown(connection, row.app, action)


def judge_recipient(
    action: ScheduledActionModel, user: User, *, now: datetime
) -> Recipient:
    """Return whether *user* would get the mails of *action* at *now*, and why."""
    who, on_event = action.recipients, isinstance(action.when, EventModel)
    standing = judge(who, user, now=now, on_event=on_event)
    whose = user, user.id, user.name, user.email
    told = _say_standing(standing, who, user)
    return Recipient(*whose, standing in INSIDE, standing, told)


def fetch_recipient_part(
    connection: sa.Connection,
    uid: str,
    page: Page,
    *,
    inside: bool | None = None,
    app: str | None = None,
) -> RecipientPart:
    """
    Return a part of the users of an action's app, by id, and why each is in or out.

    Args:
        uid: Of an action, deleted or not.
        page: Its position is the id of a user.
        inside: Only those who are in (True) or out (False). None: all.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
        InvalidDocumentError: Its document can no longer be read.
    """
    row = get_action(connection, uid, app=app)
    action = read_stored(uid, row.document)
    on_event = isinstance(action.when, EventModel)
    now = read_clock(connection)
    look = partial(judge_recipient, action, now=now)
    is_wanted = None if inside is None else lambda each: each.is_in is inside
    part = fetch_judged(connection, row.app, page, look, is_wanted)
    count = count_inside(connection, row.app, action)
    unknown = _find_unknown(connection, row.app, action)
    return RecipientPart(part, count, on_event, unknown)


def _find_unknown(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> tuple[Problem, ...]:
    """Return a problem for each user and group that the app does not have."""
    known = fetch_references(connection, app, [action])
    return tuple(
        each
        for each in find_unknown(known, action)
        if each.pointer.startswith("/recipients")
    )


def count_inside(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> int:
    """Return how many users of *app* would get the mails of *action* now."""
    who = _get_filter(action)
    if who is None:
        return 0
    on_event = isinstance(action.when, EventModel)
    now = read_clock(connection)
    inside, _ = count_left_out(connection, app, who, now=now, on_event=on_event)
    return inside


def _get_filter(action: ScheduledActionModel) -> RecipientFilterModel | None:
    """Return the filter that decides who gets the mails of *action*; None: nobody."""
    if action.recipients is None and isinstance(action.when, EventModel):
        # Whoever triggers it, unless the account is disabled or has expired.
        return RecipientFilterModel(include_inactivated_users=True)
    return action.recipients


def read_stored(uid: str, document: object) -> ScheduledActionModel:
    """
    Return the stored document of an action.

    Raises:
        InvalidDocumentError: It can no longer be read.
    """
    try:
        return ScheduledActionModel.model_validate(document)
    except ValidationError:
        message = f"The stored document of action {uid!r} can no longer be read."
        raise InvalidDocumentError(
            (Problem("", message, "Replace it, and ask again."),)
        ) from None


def _say_standing(
    standing: Standing, who: RecipientFilterModel | None, user: User
) -> str:
    if who is None or standing in _WORDS:
        return _WORDS[standing]
    if standing is Standing.NAMED:
        given = user.id if user.id in who.users else user.email
        return f"named as {given!r}"
    if EVERYONE in who.groups:
        return f"every user is in group {EVERYONE!r}"
    group = next(each for each in who.groups if each in user.groups)
    return f"in group {group!r}"
