"""The occurrences of an action as faces show them: past and planned in one list."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from typing_extensions import TypedDict

from actions.explaining.expected_events import read_event_rule
from actions.explaining.history import fetch_bounded_history
from actions.explaining.recorded import Revision
from actions.explaining.timeline import Moment, list_moments
from actions.explaining.why import Verdict
from actions.occurrences import parse_timing
from actions.previews.preview import place_occurrence
from models.database.engine import read_clock
from models.errors import UsageError
from models.fields.zone import load_zone
from models.json_form import LocalTimeJson, make_local_time
from models.operation_state import OperationState
from models.paging import Page, Part

#: The period that is listed unless the caller says otherwise, before and after now.
AROUND = timedelta(days=7)

#: The longest period: the rules of a year and a day are quickly searched.
LONGEST = timedelta(days=400)


class OccurrenceJson(TypedDict):
    """
    One occurrence, and what became or will become of it.

    ``due_at`` is when it was to be sent: the occurrence with its jitter. ``state`` and
    ``reason`` are those of ``operation``, if there is one.
    """

    occurrence: LocalTimeJson
    due_at: datetime
    user: str | None
    verdict: Verdict
    text: str
    operation: UUID | None
    state: OperationState | None
    reason: str | None
    notes: list[str]


@dataclass(frozen=True, slots=True)
class ShownOccurrence:
    """
    One occurrence of an action.

    Args:
        zone: In which its rule is read.
        notes: What the clocks and the calendar do to it.
    """

    moment: Moment
    zone: ZoneInfo
    notes: tuple[str, ...]

    def as_json(self) -> OccurrenceJson:
        """Return the documented object; keys are only added."""
        moment = self.moment
        return {
            "occurrence": make_local_time(moment.at, self.zone),
            "due_at": moment.due_at,
            "user": moment.user_id,
            "verdict": moment.verdict,
            "text": moment.text,
            "operation": moment.operation_id,
            "state": moment.state,
            "reason": moment.reason,
            "notes": list(self.notes),
        }


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
    if revision is None or revision.timing is None:
        return ShownOccurrence(moment, _get_zone(revision), ())
    placed = place_occurrence(parse_timing(revision.timing), moment.at)
    return ShownOccurrence(moment, placed.zone, tuple(placed.notes))


def _get_zone(revision: Revision | None) -> ZoneInfo:
    rule = None if revision is None else read_event_rule(revision.document)
    return load_zone("UTC" if rule is None else rule.when.timezone)
