"""
What would happen, before it does: a new action, an edit, a run.

When an action would run that is not stored, what an edit of one changes in its near
future, and what a run would do that somebody asked for now.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.explaining.history import fetch_rule_events
from actions.explaining.recorded import EventRule, read_event_rule
from actions.lease import fetch_leader
from actions.lookup import fetch_app, find_action, get_action, refuse_unknown_user
from actions.occurrences import make_schedule
from actions.posting.changes import COMPARED, ForeseenRuns, RunChanges, compare_runs
from actions.posting.doubts import find_doubts
from actions.posting.edit import Terms
from actions.posting.post import Posting, find_refusals, post_action
from actions.posting.references import fetch_references
from actions.posting.refusals import make_given, name_former
from actions.posting.revisions import refuse_action
from actions.previews.preview import Preview, make_preview
from actions.read_rules import find_zone, read_schedule, runs_when_resumed
from actions.small_apps.export import fetch_holidays
from dispatch.manual_runs import choose_steps, refuse_user
from models.database.engine import read_clock
from models.database.journal import rolled_back
from models.door.documents import read_action_object
from models.door.json_text import decode_json
from models.door.places import Places
from models.errors import NotFoundError, Problem
from models.json_form import ASIDE, get_members
from models.operation import order_steps
from models.operation_state import Overlap, Queue, StepState
from models.scheduled_action import ScheduledActionModel
from models.timing import DayRange, make_timing
from models.when import EventModel
from operations.adapters.app_users import fetch_users
from operations.list_operations import fetch_live_ids
from operations.recipients import keeps_triggering_user
from overview.recipients import (
    ForeseenRecipients,
    count_inside,
    foresee_recipients,
    read_stored,
)

#: Events that are looked at for each rule; what they lead to is compared up to the last
#: of them. Looking up their users takes a tenth of a second.
MOST_EVENTS = 2000

#: Users in one statement.
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class ForetoldPost(RunChanges):
    """
    What a post would change; times are aware UTC.

    Args:
        uid: Null: it would be new.
        superseded: As of ``Posted``.
        old: The row that it would replace.
        zone: In which the rule is read.
        doubts: What may be a mistake.
    """

    uid: str | None
    revision: int
    superseded: tuple[datetime, ...]
    old: sa.Row[Any] | None = field(metadata=ASIDE)
    zone: ZoneInfo = field(metadata=ASIDE)
    doubts: list[Problem] = field(metadata=ASIDE)


def foretell_post(
    connection: sa.Connection, app: str, action: ScheduledActionModel, how: Posting
) -> ForetoldPost:
    """
    Return what storing *action* would change, without storing it.

    Args:
        replace: As for ``post_action``.
        lookback: As for ``post_action``.

    Raises:
        NotFoundError, ConflictError, InvalidDocumentError: As ``post_action``.
    """
    old = _find_old(connection, app, action)
    now = read_clock(connection)
    holidays = fetch_holidays(connection, app)
    with rolled_back(connection):
        posted = post_action(connection, app, action, how)
        zone = find_zone(get_action(connection, posted.uid))
    action = action.model_copy(update={"uid": posted.uid})
    changes = foretell_edit(connection, app, old, action, now=now, holidays=holidays)
    known = fetch_references(connection, app, [action])
    return ForetoldPost(
        **get_members(changes),
        uid=None if posted.created else posted.uid,
        revision=posted.revision,
        superseded=posted.superseded,
        old=old,
        zone=zone,
        doubts=find_doubts(known, action),
    )


def foretell_edit(
    connection: sa.Connection,
    app: str,
    old: sa.Row[Any] | None,
    action: ScheduledActionModel,
    *,
    now: datetime,
    holidays: Mapping[str, Sequence[DayRange]],
) -> RunChanges:
    """
    Return how the runs of the near future would change if *action* were stored.

    Of an event-driven action: the runs to which the events so far lead, for the users
    whom its recipients keep now.

    Args:
        old: The row that it would replace. None: it is new.
        action: As the door read it, with its uid.
        now: Aware UTC; what is compared begins here and lasts for COMPARED.
        holidays: The days of each holiday calendar of the app.
    """
    created_at = now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=holidays)
    after = ForeseenRuns(None if timing is None else make_schedule(timing))
    if isinstance(action.when, EventModel):
        rule = EventRule(action, action.when)
        after = _foresee_events(connection, app, rule, now)
    before = ForeseenRuns(read_schedule(old))
    if before.schedule is None and runs_when_resumed(old):
        old_rule = read_event_rule(None if old is None else old.document)
        if old_rule is not None:
            before = _foresee_events(connection, app, old_rule, now)
    runs = before, after if action.active else ForeseenRuns()
    return compare_runs(*runs, action.uid or "", start=now, end=now + COMPARED)


def _find_old(
    connection: sa.Connection, app: str, action: ScheduledActionModel
) -> sa.Row[Any] | None:
    try:
        if action.uid is not None:
            return get_action(connection, action.uid, app=app)
        return find_action(connection, action.name, app=app)
    except NotFoundError:
        return None


def _foresee_events(
    connection: sa.Connection, app: str, rule: EventRule, now: datetime
) -> ForeseenRuns:
    """Return the runs to which the events so far will lead."""
    found = fetch_rule_events(
        connection, app, [rule], now, now + COMPARED, limit=MOST_EVENTS
    )
    due: defaultdict[str, set[datetime]] = defaultdict(set)
    last = None
    for event in found:
        occurrence = rule.get_occurrence(event)
        if occurrence is None:
            continue
        last = occurrence
        if now <= occurrence < now + COMPARED:
            due[event.user_id].add(occurrence)
    users = sorted(due)
    who = rule.action.recipients
    kept = {
        user.id
        for start in range(0, len(users), _CHUNK)
        for user in fetch_users(connection, app, users[start : start + _CHUNK])
        if keeps_triggering_user(who, user, now=now)
    }
    return ForeseenRuns(
        by_user={user: due[user] for user in users if user in kept},
        complete_until=last if len(found) == MOST_EVENTS else None,
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
        terms.make_reading(app, calendar.timezone),
    )
    now = read_clock(connection)
    named = action
    if old is not None:
        named = action.model_copy(update={"uid": old.uid})
    told, given = named, make_given(action, old)
    if app is not None:
        told = name_former(connection, app, given._replace(action=named))
    shown = replace(asked, count=min(asked.count, MOST_SHOWN))
    made_at = None if old is None else old.created_at
    preview = preview_action(told, calendar, shown, now=now, created_at=made_at)
    changes = None
    if old is not None:
        changes = foretell_edit(
            connection, old.app, old, named, now=now, holidays=calendar.holidays
        )
    recipients: ForeseenRecipients | None = None
    refusals, warnings = list[Problem](), list[Problem]()
    if is_whole and app is not None:
        recipients = foresee_recipients(connection, app, action)
        refusals = find_refusals(connection, app, given, terms)
        warnings = find_doubts(fetch_references(connection, app, [action]), action)
    return FullPreview(
        **get_members(preview),
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


@dataclass(frozen=True, slots=True)
class ForeseenStep:
    """A step of the run: pending if it would run, else skipped."""

    name: str
    state: StepState


@dataclass(frozen=True, slots=True)
class RecipientCount:
    """
    How many users would get the mails.

    ``on_event``: each only when an event of theirs triggers the action.
    """

    count: int
    on_event: bool


@dataclass(frozen=True, slots=True)
class RunPreview:
    """
    What a run would do; nothing is recorded.

    ``refused_by`` are the operations that keep it from being recorded; ``leads`` is
    whether a scheduler is there to send it.
    """

    action_uid: str
    queue: Queue
    user: str | None
    steps: tuple[ForeseenStep, ...]
    recipients: RecipientCount
    refused_by: tuple[UUID, ...]
    leads: bool

    @property
    def chosen(self) -> list[str]:
        """The steps that would run, in order."""
        return [each.name for each in self.steps if each.state is StepState.PENDING]

    @property
    def skipped(self) -> list[str]:
        """Those that would not."""
        return [each.name for each in self.steps if each.state is StepState.SKIPPED]


def preview_run(
    connection: sa.Connection,
    uid: str,
    *,
    user_id: str | None = None,
    steps: Sequence[str] | None = None,
    app: str | None = None,
) -> RunPreview:
    """
    Return what a run of an action would do now.

    Args:
        uid: Of an action that is not deleted.
        user_id: The user who would trigger it.
        steps: Of the action, those that would run. None: all.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError, UsageError, InvalidDocumentError: As ``run_now``; or the document
            of the action can no longer be read.
    """
    row = get_action(connection, uid, app=app)
    if row.deleted_at is not None:
        refuse_action(uid)
    if user_id is not None:
        refuse_user(row, user_id)
        refuse_unknown_user(connection, row.app, user_id)
    action = read_stored(uid, row.document)
    names = action.operations.step_names
    chosen = names if steps is None else choose_steps(row.document, steps)
    is_alone = row.overlap == Overlap.SKIP
    states = dict.fromkeys(names, StepState.SKIPPED)
    states |= dict.fromkeys(chosen, StepState.PENDING)
    # a run without a user is for all
    on_event, count = user_id is not None, count_inside(connection, row.app, action)
    return RunPreview(
        uid,
        Queue(row.queue),
        user_id,
        tuple(ForeseenStep(name, states[name]) for name in order_steps(states)),
        RecipientCount(count, on_event),
        fetch_live_ids(connection, uid, user_id) if is_alone else (),
        fetch_leader(connection) is not None,
    )
