"""
Store the actions that admins post: post, replace and delete them.

The columns that a tick needs are derived from the document here, once. Each change is a
new revision; a decision about an older revision writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from actions.occurrences import find_due, parse_timing, read_timing
from actions.pausing.pause_and_resume import pause_posted
from actions.pausing.pause_state import Pause
from actions.posting.bounds import find_excess, hold_bounds
from actions.posting.refusals import (
    Formers,
    GivenAction,
    Taken,
    find_other_uid,
    find_passed_due_date,
    make_given,
    refuse_repeated,
)
from actions.posting.revisions import (
    change_action,
    log_posted,
    note_deleted,
    note_posted,
    note_replaced,
    refuse_action,
    refuse_stale,
    require_action,
    start_from,
)
from actions.small_apps.export import fetch_holidays
from actions.zone_changes import get_zone_names_of, remember_zones
from models.back_off import ATTEMPTS
from models.database.engine import read_clock
from models.database.tables import scheduled_actions
from models.door.documents import action_document
from models.errors import ConflictError, InvalidDocumentError, Problem
from models.expectations import read_expectation
from models.fields.app_bounds import AppBounds
from models.fields.delay import join_delay
from models.fields.strict_model import MOST_PROBLEMS
from models.occurrence import LOOKBACK
from models.operation_state import Overlap, Queue
from models.revision import Change
from models.scheduled_action import ScheduledActionModel
from models.timing import make_timing, timing_text
from models.when import AfterActionModel, AfterEventModel, OnEventModel

#: The most actions in one statement; far fewer than either database has parameters for.
_CHUNK = 500

#: The most superseded occurrences that are listed.
SUPERSEDED_SHOWN = 100

#: The derived columns that say when an action is due. If one of them changes, the
#: schedule takes effect anew.
_SCHEDULE = (
    *("timing", "event", "follows", "follows_on"),
    *("delay", "zone", "starts_at", "ends_at"),
)


@dataclass(frozen=True, slots=True)
class Posting:
    """
    How actions are posted.

    Args:
        replace: Whether an action with the same uid, or else the same name, is
            replaced; otherwise it is a conflict.
        lookback: The look-back of the installation: due dates that are older have
            passed.
        bounds: Of small apps, by their uids: what is more is refused.
        by: Who posts them, and why.
    """

    replace: bool = False
    lookback: timedelta = LOOKBACK
    by: str | None = None
    note: str | None = None
    bounds: Mapping[str, AppBounds] = field(default_factory=dict)


#: For actions that nobody in particular posts.
_PLAIN = Posting()


@dataclass(frozen=True, slots=True)
class SeenAction:
    """
    A stored action as its author has seen it.

    Args:
        app: The only small app whose actions the author may change. None: any.
        revision: The ``document_revision`` that was read. None: whatever it is.
    """

    uid: str
    app: str | None = None
    revision: int | None = None


@dataclass(frozen=True, slots=True)
class Posted:
    """
    The result of a post.

    Args:
        created: False: it replaced an action.
        superseded: Occurrences that were due under the old rule, but not decided when
            the new one took over; they will not run. Aware UTC.
    """

    uid: str
    revision: int
    created: bool
    superseded: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class _Change:
    """One action to be stored: its columns, and the row that it replaces."""

    uid: str
    old: sa.Row[Any] | None
    values: dict[str, Any]
    zones: set[str] = field(default_factory=set)
    superseded: tuple[datetime, ...] = ()


@dataclass(frozen=True, slots=True)
class _Moment:
    """What is the same for all actions of a post; *pause* is that of the app."""

    app: str
    now: datetime
    holidays: Mapping[str, list[tuple[date, date]]]
    how: Posting
    pause: Pause | None


def post_action(
    connection: sa.Connection,
    app: str,
    action: ScheduledActionModel,
    how: Posting = _PLAIN,
) -> Posted:
    """
    Store *action* in *app*.

    Raises:
        NotFoundError: No such small app.
        ConflictError: The name or uid is taken.
        InvalidDocumentError: A due date has passed, or a calendar is unknown.
    """
    pause = hold_bounds(connection, app, how.bounds)
    taken = Taken(connection, app, [action])
    moment = _begin(connection, app, how, pause)
    old = taken.find_old(action, replace=how.replace)
    (posted,) = _store(connection, moment, [make_given(action, old)])
    return posted


def replace_action(
    connection: sa.Connection,
    seen: SeenAction,
    action: ScheduledActionModel,
    how: Posting,
    change: Change = Change.REPLACED,
) -> Posted:
    """
    Put *action* in the place of a stored one, as its next revision.

    Args:
        change: What the revision says.

    Raises:
        NotFoundError: There is no such action, or it is deleted.
        StaleError: Its document is another one by now.
        ConflictError: The name is taken.
        InvalidDocumentError: It has another uid; or as ``post_action``.
    """
    other = find_other_uid(action, seen.uid)
    if other is not None:
        raise InvalidDocumentError((other,))
    named = action.model_copy(update={"uid": seen.uid})
    owner = require_action(connection, seen.uid, app=seen.app).app
    pause = hold_bounds(connection, owner, how.bounds)
    taken = Taken(connection, owner, [named])
    if not taken.has(seen.uid):  # it was deleted since we looked
        refuse_action(seen.uid)
    refuse_stale(connection, seen.uid, seen.revision)
    old = taken.find_old(named, replace=True)
    moment = _begin(connection, owner, how, pause)
    (posted,) = _store(connection, moment, [make_given(action, old)], change)
    return posted


def post_actions(
    connection: sa.Connection,
    app: str,
    actions: Sequence[ScheduledActionModel],
    how: Posting = _PLAIN,
) -> list[Posted]:
    """
    Store many actions in *app*: all of them, or none if one is refused.

    Raises:
        InvalidDocumentError: As ``post_action``, or two have the same name or uid;
            pointers begin with the place in the list.
        NotFoundError, ConflictError: As ``post_action``.
    """
    refuse_repeated(actions)
    pause = hold_bounds(connection, app, how.bounds)
    taken = Taken(connection, app, actions)
    moment = _begin(connection, app, how, pause)
    given = [
        make_given(action, taken.find_old(action, replace=how.replace))
        for action in actions
    ]
    return _store(connection, moment, given, is_list=True)


def find_refusals(
    connection: sa.Connection, app: str, given: GivenAction, how: Posting
) -> list[Problem]:
    """
    Return why a post of an action would be refused now; nothing is locked or stored.

    Raises:
        NotFoundError: No such small app.
    """
    found: list[Problem | None] = []
    if given.old is not None:
        uid = given.old.uid
        found.append(find_other_uid(given.action, uid))
        named = given.action.model_copy(update={"uid": uid})
        given = GivenAction(uid, named, given.old)
    taken = Taken(connection, app, [given.action], lock=False)
    found.append(taken.find_conflict(given.action, replace=given.old is not None))
    moment = _begin(connection, app, how, None)
    try:
        _prepare_all(connection, moment, [given], is_list=False, lock=False)
    except InvalidDocumentError as error:
        found += error.problems
    return [each for each in found if each is not None]


def _begin(
    connection: sa.Connection, app: str, how: Posting, pause: Pause | None
) -> _Moment:
    now = read_clock(connection)
    return _Moment(app, now, fetch_holidays(connection, app), how, pause)


def _prepare(moment: _Moment, given: GivenAction, formers: Formers) -> _Change:
    """Return how the action is to be stored, in place of the old one if there is."""
    uid, action, old = given
    problem = formers.get_problem(uid)
    if problem is not None:
        raise InvalidDocumentError((problem,))
    created_at = moment.now if old is None else old.created_at
    timing = make_timing(action, created_at=created_at, holidays=moment.holidays)
    text = None if timing is None else timing_text(timing)
    derived = derive(moment.app, action, text, formers.get(uid))
    # An action in quarantine takes effect anew, even with the same rule.
    changed = (
        old is None
        or old.quarantined_at is not None
        or any(getattr(old, name) != derived[name] for name in _SCHEDULE)
    )
    schedule = None if text is None else parse_timing(text)
    if changed and timing is not None and schedule is not None:
        oldest = moment.now - moment.how.lookback
        passed = find_passed_due_date(timing, schedule, oldest)
        if passed is not None:
            raise InvalidDocumentError((passed,))
    zones = {str(derived["zone"])} if timing is None else get_zone_names_of(timing)
    values = {"document": action_document(action), "active": action.active, **derived}
    superseded: tuple[datetime, ...] = ()
    if old is not None and (changed or action.active != old.active):
        superseded = _find_superseded(old, moment.now)
    if old is None or changed or (action.active and not old.active):
        is_ticked = derived["follows"] is None
        values |= start_from(
            uid, schedule, moment.now, moment.how.lookback, is_ticked=is_ticked
        )
    return _Change(uid, old, values, zones, superseded)


def _prepare_all(
    connection: sa.Connection,
    moment: _Moment,
    given: Sequence[GivenAction],
    *,
    is_list: bool,
    lock: bool = True,
) -> list[_Change]:
    """Return how all are to be stored; see ``_store``, and for *lock* ``Formers``."""
    changes: list[_Change] = []
    refused: list[tuple[int, Problem]] = []
    formers = Formers(connection, moment.app, given, lock=lock)
    for index, each in enumerate(given):
        try:
            changes.append(_prepare(moment, each, formers))
        except InvalidDocumentError as error:
            refused += [(index, problem) for problem in error.problems]
    if not refused:
        pairs = [(each.old, each.values) for each in changes]
        found = find_excess(connection, moment.app, moment.how.bounds, pairs)
        refused += found.items()
    if refused:
        problems = (
            replace(problem, pointer=f"/{place}{problem.pointer}")
            if is_list
            else problem
            for place, problem in refused[:MOST_PROBLEMS]
        )
        raise InvalidDocumentError(tuple(problems))
    return changes


def _store(
    connection: sa.Connection,
    moment: _Moment,
    given: Sequence[GivenAction],
    replaced: Change = Change.REPLACED,
    *,
    is_list: bool = False,
) -> list[Posted]:
    """Store all that is *given*; of a list, pointers begin with the place in it."""
    changes = _prepare_all(connection, moment, given, is_list=is_list)
    remember_zones(connection, {zone for each in changes for zone in each.zones})
    new = [each for each in changes if each.old is None]
    for start in range(0, len(new), _CHUNK):
        _insert(connection, moment, new[start : start + _CHUNK])
    for each in changes:
        if each.old is not None:
            says = {"by": moment.how.by, "note": moment.how.note}
            change_action(connection, each.uid, replaced, **says, **each.values)
    # the scheduler's own are not in the record of changes
    for each in changes if moment.app != SYSTEM_APP else ():
        document, note = each.values["document"], moment.how.note
        if each.old is None:
            note_posted(connection, moment.app, each.uid, document, note=note)
        else:
            note_replaced(connection, each.old, document, replaced, note=note)
    # In a paused app a new action is paused at once, which is a second revision.
    first = 1 if moment.pause is None else 2
    return [
        Posted(
            uid=each.uid,
            revision=first if each.old is None else each.old.revision + 1,
            created=each.old is None,
            superseded=each.superseded,
        )
        for each in changes
    ]


def _insert(connection: sa.Connection, moment: _Moment, new: Sequence[_Change]) -> None:
    given = {"app": moment.app, "revision": 1}
    given |= {"created_at": moment.now, "updated_at": moment.now}
    rows = [{"uid": each.uid, **given, **each.values} for each in new]
    try:
        connection.execute(sa.insert(scheduled_actions), rows)
    except sa.exc.IntegrityError:
        # Another post was faster, after we had looked for taken names.
        taken = f"the name {new[0].values['name']!r} or the uid {new[0].uid!r}"
        if len(new) > 1:
            taken = f"a name or uid of these {len(new):,} actions"
        msg = f"{taken} was taken by another post at the same moment. Post again."
        raise ConflictError(msg) from None
    uids = [each.uid for each in new]
    log_posted(connection, uids, by=moment.how.by, note=moment.how.note)
    if moment.pause is not None:
        pause_posted(connection, uids, moment.pause)


def derive(
    app: str,
    action: ScheduledActionModel,
    timing: str | None,
    follows: str | None = None,
) -> dict[str, object]:
    """
    Return the columns that a tick reads instead of the document.

    Args:
        timing: The canonical text of its timing. None: it is not driven by time.
        follows: Uid of the action that it follows. None: it follows none.
    """
    event, delay, zone, follows_on = None, None, "UTC", None
    when = action.when
    if isinstance(when, OnEventModel):
        event, delay, zone = when.on, join_delay(None, when.at), when.timezone
    elif isinstance(when, AfterEventModel):
        event, delay, zone = when.after, join_delay(when.delay, when.at), when.timezone
    elif isinstance(when, AfterActionModel):
        follows_on, delay, zone = when.on, when.delay, when.timezone
    expected = action.model_dump(include={"expect"})
    queue = action.operations.queue
    skips = timing is not None and (queue is Queue.HEAVY or action.is_below_minute)
    return {
        "name": action.name,
        "queue": Queue.DEFAULT if app == SYSTEM_APP else queue,
        "overlap": action.overlap or (Overlap.SKIP if skips else Overlap.ALLOW),
        "attempts_allowed": ATTEMPTS if action.retries is None else action.retries + 1,
        "rest_after": action.rest_after,
        "pings": action.ping is not None,
        "expected_after_s": read_expectation(expected).first_look_s,
        "timing": timing,
        "event": event,
        "follows": follows,
        "follows_on": follows_on,
        "delay": delay,
        "zone": zone,
        # The bounds of a time-driven action are in its timing.
        "starts_at": None if timing is not None else action.starts_at,
        "ends_at": None if timing is not None else action.ends_at,
        "catch_up": action.catch_up.runs,
        "catch_up_within": action.catch_up.within,
    }


def delete_action(
    connection: sa.Connection,
    uid: str,
    *,
    app: str | None = None,
    expected_revision: int | None = None,
    by: str | None = None,
    note: str | None = None,
) -> None:
    """
    Delete an action; its operations and revisions stay, and its uid stays taken.

    Args:
        app: Uid of a small app; other apps' actions are unknown. None: of any app.
        expected_revision: As for ``refuse_stale``.
        by: Who deletes it.

    Raises:
        NotFoundError: There is no such action, or it was deleted before.
        StaleError: Its document was changed since the caller read it.
    """
    row = require_action(connection, uid, app=app, lock=True)
    refuse_stale(connection, uid, expected_revision)
    gone = {"deleted_at": read_clock(connection), "next_due_at": None}
    change_action(connection, uid, Change.DELETED, by=by, note=note, **gone)
    note_deleted(connection, row, note=note)


def _find_superseded(old: sa.Row[Any], now: datetime) -> tuple[datetime, ...]:
    """Return the occurrences that were due under *old* and never decided."""
    out = old.paused_at is not None or old.quarantined_at is not None
    idle = out or not old.active
    schedule = None if idle else read_timing(old.timing)
    if schedule is None or old.next_due_at is None or old.next_due_at > now:
        return ()
    due = find_due(
        schedule,
        old.uid,
        start=old.next_due_at,
        now=now,
        limit=SUPERSEDED_SHOWN,
        effective_from=old.effective_from,
    )
    return tuple(each.occurrence for each in due)
