"""When an action that is not stored would run in its small app."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import fetch_app, get_action
from actions.posting.changes import RunChanges
from actions.posting.doubts import find_doubts
from actions.posting.edit import Terms
from actions.posting.formers import make_given
from actions.posting.post import fetch_holidays
from actions.posting.references import fetch_references
from actions.posting.refusals import find_refusals
from actions.previews.preview import Preview, make_preview
from models.database.engine import read_clock
from models.door.documents import read_action_object
from models.door.json_text import decode_json
from models.door.places import Places
from models.errors import Problem
from models.json_form import ASIDE
from models.operation_state import Queue
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing
from overview.previews.edits import foretell_edit
from overview.recipients import (
    ForeseenRecipients,
    foresee_recipients,
)

#: The most occurrences that a preview shows.
MOST_SHOWN = 1000

#: What is previewed if only ``when`` is given, so that the door can read the whole.
_STUB = {"name": "preview", "operations": {"maintenance": True}}


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """A problem with its place in the text, and what was probably meant."""

    pointer: str
    message: str
    hint: str
    line: int | None
    column: int | None
    instead: str | None


@dataclass(frozen=True, slots=True)
class FullPreview(Preview):
    """
    What an action would do if it were posted now.

    Args:
        queue: Null, as are recipients, if only ``when`` was given; the lists are empty.
        recipients: Who would get its mails now. Null, too: no app was named.
        refusals: Why a post would be refused, such as a name that is taken.
        warnings: What would be accepted, but may be a mistake.
        changes: What the edit of an existing action would change. Null: it is no edit.
    """

    queue: Queue | None
    steps: Sequence[str]
    recipients: ForeseenRecipients | None
    refusals: Sequence[PlacedProblem]
    warnings: Sequence[PlacedProblem]
    changes: RunChanges | None
    action: ScheduledActionModel | None = field(metadata=ASIDE)


def place_problems(
    problems: Iterable[Problem], text: str | bytes
) -> tuple[PlacedProblem, ...]:
    """Return *problems* with their places in *text*."""
    places, found = Places(text), []
    for each in problems:
        told = (each.pointer, each.message, each.hint)
        line, column = places.locate(each) or (None, None)
        found.append(PlacedProblem(*told, line, column, each.instead))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class PreviewTerms:
    """
    What of a preview is asked for.

    Args:
        start: Aware, inclusive. None: everything from now on.
        end: Aware, exclusive. None: no end.
        count: The most occurrences to show, up to MOST_SHOWN.
        viewer_zone: In which times are shown to the caller.
        uid: Of an existing action, whose edit this would be. None: it is no edit.
    """

    viewer_zone: ZoneInfo
    start: datetime | None = None
    end: datetime | None = None
    count: int = 10
    uid: str | None = None


@dataclass(frozen=True, slots=True)
class AppCalendar:
    """
    The time zone and holidays that a small app gives the rules of its actions.

    Args:
        timezone: IANA name, for rules that do not name a zone.
        holidays: The day ranges of each of its holiday calendars.
    """

    timezone: str
    holidays: Mapping[str, Sequence[DayRange]] = field(default_factory=dict)


def fetch_app_calendar(
    connection: sa.Connection, app: str, *, default_timezone: str
) -> AppCalendar:
    """
    Return the zone and the holidays of *app*.

    Args:
        default_timezone: IANA name, for an app that has no zone of its own.

    Raises:
        NotFoundError: No such small app.
    """
    zone = fetch_app(connection, app).timezone or default_timezone
    return AppCalendar(zone, fetch_holidays(connection, app))


def preview_text(
    connection: sa.Connection,
    app: str | None,
    text: str | bytes,
    *,
    terms: Terms,
    asked: PreviewTerms,
) -> FullPreview:
    """
    Return what the action in *text* would do in *app*; nothing is stored.

    Args:
        app: Uid of a small app, whose zone and holidays apply, and in which names are
            looked up. None: that of ``asked.uid``; else the zone of the installation,
            no holidays, no names.
        text: A scheduled action; or an object with its ``when``, and perhaps bounds and
            exceptions, but with neither name nor operations.
        asked: Which occurrences, and how they are shown.

    Raises:
        NotFoundError: There is no such app, or no action ``asked.uid`` in it.
        InvalidDocumentError: The door refuses *text*.
    """
    old = None if asked.uid is None else get_action(connection, asked.uid, app=app)
    app = app if old is None else old.app
    calendar = AppCalendar(terms.timezone)
    if app is not None:
        calendar = fetch_app_calendar(connection, app, default_timezone=terms.timezone)
    value = decode_json(text)
    is_whole = not isinstance(value, dict) or bool(_STUB.keys() & value.keys())
    action = read_action_object(
        value if is_whole else {**_STUB, **value},  # type: ignore[dict-item]  # see above
        default_timezone=calendar.timezone,
        task_rules=terms.get_rules(app),
    )
    now = read_clock(connection)
    named = action
    if old is not None:
        named = action.model_copy(update={"uid": old.uid})
    preview = preview_action(
        named,
        calendar,
        replace(asked, count=min(asked.count, MOST_SHOWN)),
        now=now,
        created_at=None if old is None else old.created_at,
    )
    changes = None
    if old is not None:
        changes = foretell_edit(
            connection, old.app, old, named, now=now, holidays=calendar.holidays
        )
    recipients: ForeseenRecipients | None = None
    refusals: list[Problem] = []
    warnings: list[Problem] = []
    if is_whole and app is not None:
        recipients = foresee_recipients(connection, app, action)
        oldest = now - terms.lookback
        created_at = oldest if old is None else old.created_at
        timing = make_timing(action, created_at=created_at, holidays=calendar.holidays)
        given, bounds = make_given(action, old), terms.bounds
        refusals = find_refusals(
            connection, app, given, timing, oldest=oldest, bounds=bounds
        )
        warnings = find_doubts(fetch_references(connection, app, [action]), action)
    return FullPreview(
        **{each.name: getattr(preview, each.name) for each in fields(Preview)},
        queue=action.operations.queue if is_whole else None,
        steps=action.operations.step_names if is_whole else (),
        recipients=recipients,
        refusals=place_problems(refusals, text),
        warnings=place_problems(warnings, text),
        changes=changes,
        action=action if is_whole else None,
    )


def preview_action(
    action: ScheduledActionModel,
    calendar: AppCalendar,
    asked: PreviewTerms,
    *,
    now: datetime,
    created_at: datetime | None = None,
) -> Preview:
    """
    Return what *action* would do if it were posted now; nothing is stored.

    Args:
        action: As the door read it, in the zone of *calendar*.
        calendar: Of its small app; without one, the zone of the installation.
        asked: Which occurrences, and how they are shown.
        now: Aware UTC.
        created_at: Of the stored action that this would replace: intervals without an
            anchor count from it. None: it is new, and they count from ``asked.start``.
    """
    start = asked.start
    created_at = created_at or start or now
    timing = make_timing(action, holidays=calendar.holidays, created_at=created_at)
    return make_preview(
        action,
        timing,
        start=now + timedelta.resolution if start is None else start,
        end=asked.end,
        count=asked.count,
        viewer_zone=asked.viewer_zone,
    )
