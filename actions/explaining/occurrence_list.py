"""The occurrences of an action as faces show them: past and planned in one list."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.expected_events import read_event_rule
from actions.explaining.history import fetch_bounded_history
from actions.explaining.timeline import Moment, list_moments
from actions.explaining.why import Verdict
from actions.occurrences import parse_timing
from actions.previews.preview import place_occurrence
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.zone import load_zone
from models.json_form import ASIDE, LocalTimeJson, make_local_time
from models.operation_state import OperationState
from models.paging import Page, Part

#: The period that is listed unless the caller says otherwise, before and after now.
AROUND = timedelta(days=7)

#: The longest period: the rules of a year and a day are quickly searched.
LONGEST = timedelta(days=400)


@dataclass(frozen=True, slots=True)
class ShownOccurrence:
    """
    An occurrence of an action, and what was decided of it; aware UTC.

    Args:
        occurrence: With what the clocks of its rule's zone show.
        due_at: The same, and jitter.
        user: Whose event it follows. Null: it is of a rule of time.
        text: Why, in a sentence.
        operation: What was recorded. Null: nothing was, or not yet.
        notes: What the clocks and the calendar do to it.
        moment: What it was made from.
    """

    occurrence: LocalTimeJson
    due_at: datetime
    user: str | None
    verdict: Verdict
    text: str
    operation: UUID | None
    state: OperationState | None
    reason: str | None
    notes: tuple[str, ...]
    moment: Moment = field(metadata=ASIDE)


def fetch_occurrence_part(
    connection: sa.Connection,
    uid: str,
    page: Page,
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    app: str | None = None,
) -> Part[ShownOccurrence]:
    """
    Return a part of the occurrences of an action, oldest first, each with its decision.

    Of an event-driven action: those that were decided, and those to which the events so
    far will lead.

    Args:
        uid: Of an action, deleted or not.
        page: Its position is that of ``Part.following``: occurrence and user.
        since: Aware, inclusive. None: AROUND before *until*, or before now.
        until: Aware, exclusive. None: AROUND after *since*, or after now.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
        UsageError: *since* is not before *until*, or longer than LONGEST before.
    """
    now = read_clock(connection)
    begin = since or min(now, until or now) - AROUND
    end = until or max(now, since or now) + AROUND
    if begin >= end:
        msg = "from is not before until. Write an earlier from, or a later until."
        raise UsageError(msg)
    if end - begin > LONGEST:
        msg = f"from and until are more than {LONGEST.days} days apart. Ask in parts."
        raise UsageError(msg)
    after = page.read_after(datetime, str)
    history = fetch_bounded_history(
        connection,
        uid,
        app=app,
        within=(begin, end),
        after=after,
        limit=page.limit + 1,
    )
    found = list_moments(
        history, since=begin, until=end, after=after, limit=page.limit + 1
    )
    shown = [_place(each) for each in found[: page.limit]]
    if len(found) <= page.limit:
        return Part(shown, None)
    return Part(shown, shown[-1].moment.key)


def _place(moment: Moment) -> ShownOccurrence:
    revision = moment.revision
    notes: tuple[str, ...] = ()
    if revision is not None and revision.timing is not None:
        placed = place_occurrence(parse_timing(revision.timing), moment.at)
        zone, notes = placed.zone, tuple(placed.notes)
    else:
        rule = None if revision is None else read_event_rule(revision.document)
        zone = load_zone("UTC" if rule is None else rule.when.timezone)
    occurrence = make_local_time(moment.at, zone)
    return ShownOccurrence(occurrence, *moment[1:8], notes, moment)
