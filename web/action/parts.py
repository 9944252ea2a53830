"""What the page of one scheduled action shows, part by part."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.explaining.why import WhyAnswer
from actions.posting.edit import fetch_document
from actions.previews.preview import Preview
from actions.read_actions import RevisionNote
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    RuleError,
)
from models.operation_state import OperationState
from models.paging import Page
from models.revision import OF_DOCUMENT
from operations.operation_filter import OperationFilter
from overview.actions.recent_runs import RecentRuns
from overview.actions.shown import DetailedAction
from overview.operations import ShownOperation, fetch_shown_part
from overview.recipients import Recipient, foresee_stored
from overview.why.instant import explain_instant, read_asked
from web.action.days_chart import (
    DayMap,
    Trend,
    count_weeks,
    draw_days,
    draw_spark,
    draw_trend,
)
from web.action.fetch_days import ActionDays
from web.action.fetch_preview import preview_stored
from web.action.revisions import TextLine, compare_texts

#: Runs in the table, in the strip, and in the picture of durations.
TABLED, STRIPPED, DRAWN = 5, 20, 30


@dataclass(frozen=True, slots=True)
class NextRuns:
    """When it runs next. *problem*: why that cannot be told."""

    preview: Preview | None
    problem: str = ""


def foresee(connection: sa.Connection, uid: str, zone: ZoneInfo) -> NextRuns:
    """Return the next runs, in the zone of whoever looks, too."""
    try:
        return NextRuns(preview_stored(connection, uid, count=10, viewer_zone=zone))
    except InvalidDocumentError as error:
        return NextRuns(None, str(error))


def fetch_runs(connection: sa.Connection, uid: str) -> Sequence[ShownOperation]:
    """Return the last runs, newest first, each with why it did not run."""
    wanted = OperationFilter(action_uid=uid)
    part = fetch_shown_part(connection, wanted, Page(TABLED), with_steps=False)
    return part.entries


@dataclass(frozen=True, slots=True)
class ReachedRecipients:
    """
    Who gets the mails, and who of those named does not.

    Args:
        count: How many are in.
        inside: Some of them.
        outside: How many of the others, why, and some of them; a row for each reason.
        unknown: Names that the small app does not have.
    """

    count: int
    on_event: bool
    inside: Sequence[Recipient]
    outside: Sequence[tuple[int, str, Sequence[Recipient]]]
    unknown: Sequence[str]


def fetch_reached(connection: sa.Connection, uid: str) -> ReachedRecipients:
    """Return who gets the mails, and who of those named does not."""
    found, unknown = foresee_stored(connection, uid)
    outside = [
        (
            left.count,
            left.reason,
            [one for one in found.first_left_out if one.standing is left.standing],
        )
        for left in found.left_out
    ]
    return ReachedRecipients(
        found.count,
        found.on_event,
        found.first,
        outside,
        [each.message for each in unknown],
    )


@dataclass(frozen=True, slots=True)
class Difference:
    """How two documents differ, line by line."""

    old: RevisionNote | None
    new: RevisionNote
    lines: Sequence[TextLine]


def fetch_difference(connection: sa.Connection, found: DetailedAction) -> Difference:
    """Return how the document differs from the one before, if that is still there."""
    changes = [each for each in found.revisions if each.change in OF_DOCUMENT]
    document = found.document
    newest = changes[0] if changes else found.revisions[0]
    older = [each for each in changes[1:] if each.revision < newest.revision]
    for old in older[:1]:
        try:
            before = fetch_document(connection, found.uid, old.revision)
        except NotFoundError:  # pruned since
            break
        return Difference(old, newest, compare_texts(_write(before), _write(document)))
    return Difference(None, newest, compare_texts(_write(document), _write(document)))


def _write(document: Mapping[str, Any]) -> list[str]:
    return json.dumps(document, indent=2, ensure_ascii=False).splitlines()


@dataclass(frozen=True, slots=True)
class Drawn:
    """The pictures of how long the last runs took."""

    trend: Trend | None
    spark: str


def draw_durations(recent: RecentRuns) -> Drawn:
    """Return the pictures of how long the last runs took, oldest first."""
    took = [
        (each.took_s, each.state is OperationState.FAILED, str(each.state))
        for each in reversed(recent.runs)
        if each.took_s is not None
    ][-DRAWN:]
    trend = draw_trend(took, recent.median_s)
    return Drawn(trend, draw_spark([each for each, _, _ in took]))


@dataclass(frozen=True, slots=True)
class Weeks:
    """The days as a map, and as a table of weeks."""

    map: DayMap
    table: Sequence[tuple[Any, Mapping[str, int]]]
    days: ActionDays


def draw_weeks(days: ActionDays) -> Weeks:
    """Return the days as a map, and as a table of weeks."""
    counts = [(each.date, _name(each.counts)) for each in days.days]
    return Weeks(draw_days(counts), count_weeks(counts), days)


def _name(counts: Mapping[OperationState, int]) -> dict[str, int]:
    return {state.value: counts[state] for state in OperationState if counts.get(state)}


@dataclass(frozen=True, slots=True)
class AskedInstant:
    """
    An instant that was asked about, as it was typed.

    Args:
        answers: Why the action ran then, or did not.
        problem: What is wrong with what was typed.
    """

    text: str
    at: datetime | None = None
    answers: Sequence[WhyAnswer] = ()
    problem: str = ""


def ask_why(connection: sa.Connection, uid: str, text: str | None) -> AskedInstant:
    """Return why an action ran at an instant, as it was typed."""
    if text is None:
        return AskedInstant("")
    try:
        at = read_asked(connection, uid, text)
        return AskedInstant(text, at, explain_instant(connection, uid, at))
    except (RuleError, MinutehandError) as error:
        return AskedInstant(text, problem=str(error))
