"""The occurrences of an action in a period agree with what ``why`` says of each."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from actions.explaining.recorded import RecordedEvent, Revision
from actions.explaining.why import History, Verdict, explain
from models.revision import Change
from overview.why.occurrence_list import Moment, list_moments
from tests.scheduling import DAY, MINUTE
from tests.unit.actions.explaining import recording
from tests.unit.actions.explaining.recording import (
    REMINDER,
    make_operation,
    make_range,
    make_revision,
)

CREATED = datetime(2026, 11, 2, 9, tzinfo=UTC)
SEVEN = datetime(2026, 11, 9, 7, tzinfo=UTC)
NOW = datetime(2026, 11, 12, 12, tzinfo=UTC)
DAILY = '{"when":[{"cron_rule":"0 7 * * *","timezone":"UTC"}]}'
NOON = '{"when":[{"cron_rule":"0 12 * * *","timezone":"UTC"}]}'
SPREAD = '{"jitter":"PT2H","when":[{"cron_rule":"0 7 * * *","timezone":"UTC"}]}'

FIRST = make_revision(CREATED, DAILY)


make_history = partial(
    recording.make_history,
    revisions=(FIRST,),
    last_tick_at=NOW,
    now=NOW,
    next_due_at=SEVEN + 4 * DAY,
)


def ask(
    history: History,
    since: datetime = SEVEN,
    until: datetime = SEVEN + 6 * DAY,
    *,
    after: tuple[datetime, str] | None = None,
    limit: int = 1000,
) -> list[Moment]:
    return list_moments(history, since=since, until=until, after=after, limit=limit)


def change(at: datetime, what: Change, **changes: Any) -> Revision:
    """Return a later revision, made *at* an instant."""
    return recording.edit(FIRST, at, what, undecided_from=at, **changes)


def revise(*later: Revision, **known: Any) -> History:
    """Return what is known of an action with later revisions."""
    return make_history(revisions=(FIRST, *later), **known)


RESUMED, EDITED = SEVEN + 2 * DAY + MINUTE, SEVEN + DAY + 2 * MINUTE
NEW = replace(FIRST, recorded_at=SEVEN + 2 * DAY - MINUTE, effective_from=RESUMED)

HISTORIES = {
    "ran": make_history(*(make_operation(SEVEN + n * DAY, n) for n in range(4))),
    "missed": make_history(
        make_operation(SEVEN + DAY, 2),
        make_range(SEVEN + 2 * DAY, SEVEN + 3 * DAY, number=3, recorded_at=NOW),
    ),
    "paused": revise(
        change(SEVEN + DAY - MINUTE, Change.PAUSED, note="import"),
        change(RESUMED, Change.RESUMED, number=3, effective_from=RESUMED),
    ),
    "paused until": revise(
        change(SEVEN - MINUTE, Change.PAUSED), paused_until=SEVEN + 5 * DAY
    ),
    "edited": revise(
        change(EDITED, Change.REPLACED, timing=NOON, effective_from=EDITED)
    ),
    "deleted": revise(change(SEVEN + DAY + MINUTE, Change.DELETED)),
    "inactive": revise(change(SEVEN + MINUTE, Change.REPLACED, active=False)),
    "spread": make_history(revisions=(replace(FIRST, timing=SPREAD),)),
    "new": make_history(revisions=(NEW,)),
}


@pytest.mark.parametrize("name", HISTORIES)
def test_list_agrees_with_why(name: str):
    """Every occurrence of the list has the answer that a question about it gets."""
    history = HISTORIES[name]
    found = ask(history)

    assert found
    for moment in found:
        (answer,) = explain(history, moment.at)
        assert (answer.verdict, answer.text, answer.operation_id) == (
            moment.verdict,
            moment.text,
            moment.operation_id,
        )


@pytest.mark.parametrize("name", HISTORIES)
def test_list_leaves_out_nothing(name: str):
    """Whatever minute is not in the list was not due."""
    history = HISTORIES[name]
    listed = {moment.at for moment in ask(history)}
    never = {Verdict.NOT_DUE, Verdict.DELETED, Verdict.NOT_EFFECTIVE}

    for hour in range(6 * 24):
        at = SEVEN + timedelta(hours=hour)
        if at not in listed:
            assert {answer.verdict for answer in explain(history, at)} <= never


def test_verdicts_of_a_pause():
    """Before, during and after it; what is to come will run."""
    verdicts = [moment.verdict for moment in ask(HISTORIES["paused"])]

    assert [Verdict.PAUSED, Verdict.PAUSED] == verdicts[1:3]
    assert [Verdict.WILL_RUN, Verdict.WILL_RUN] == verdicts[4:]


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("limit", [1, 2, 5])
def test_parts_are_the_whole(name: str, limit: int):
    """A part goes on after the last occurrence of the one before."""
    history = HISTORIES[name]
    found: list[Moment] = []
    while part := ask(history, after=found[-1].key if found else None, limit=limit):
        found += part

    assert ask(history) == found


def test_events_tell_what_is_to_come():
    """Of an event-driven action: what was decided, and what events so far lead to."""
    done = make_operation(NOW - DAY, trigger="event", user_id="ann")
    history = make_history(
        done,
        revisions=(replace(FIRST, timing=None, document=REMINDER),),
        events=(
            RecordedEvent("app.seen", "ann", NOW - 2 * DAY, NOW - 2 * DAY),
            # Its recipients do not include bob, so nothing was recorded.
            RecordedEvent("app.seen", "bob", NOW - 2 * DAY, NOW - 2 * DAY),
            RecordedEvent("app.seen", "ann", NOW - MINUTE, NOW - MINUTE),
            RecordedEvent("app.other", "cleo", NOW - MINUTE, NOW - MINUTE),
        ),
    )

    found = ask(history)

    assert [
        (NOW - DAY, "ann", Verdict.RAN),
        (NOW + DAY - MINUTE, "ann", Verdict.WILL_RUN),
    ] == [(each.at, each.user_id, each.verdict) for each in found]


def test_a_rule_of_every_minute_is_bounded():
    """No more than was asked for is looked at, however long the period."""
    each = FIRST.timing and FIRST.timing.replace("0 7 * * *", "* * * * *")
    history = make_history(revisions=(replace(FIRST, timing=each),))

    found = ask(history, until=SEVEN + 400 * DAY, limit=1000)

    assert 1000 == len(found)
    assert SEVEN + 999 * MINUTE == found[-1].at
