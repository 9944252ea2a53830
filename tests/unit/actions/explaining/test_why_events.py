"""Why an event-driven action ran for nobody in a minute."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from actions.explaining.recorded import RecordedEvent, RecordedOperation, Revision
from actions.explaining.why import Verdict, WhyAnswer, explain
from tests.scheduling import MINUTE
from tests.unit.actions.explaining import recording
from tests.unit.actions.explaining.recording import NOW, make_history, make_range

POSTED = datetime(2026, 11, 1, tzinfo=UTC)
SEEN = datetime(2026, 11, 9, 7, 0, 20, tzinfo=UTC)
DUE = SEEN + timedelta(days=1)

EVENT = RecordedEvent("app.seen", "ann", SEEN, SEEN)


make_revision = partial(recording.make_reminder, POSTED)


def ask(
    *revisions: Revision,
    at: datetime = DUE,
    operations: tuple[RecordedOperation, ...] = (),
    **changes: Any,
) -> WhyAnswer:
    """Return the one answer about the minute of *at*."""
    known = {"events": (EVENT,), **changes}
    revisions = revisions or (make_revision(),)
    (answer,) = explain(make_history(*operations, revisions=revisions, **known), at)
    return answer


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (DUE - MINUTE, "no event led"),
        (DUE + MINUTE, "no event led"),
        (NOW + MINUTE, "no event so far leads"),
    ],
)
def test_without_an_event_nothing_is_due(at: datetime, words: str):
    """Of a minute to come nobody knows yet."""
    answer = ask(at=at)

    assert Verdict.NOT_DUE == answer.verdict
    assert answer.text.startswith(words)


def test_time_of_day_that_events_wait_for_is_named():
    """The event of a day before is due at nine, and at no other minute."""
    when = {"after": "app.seen", "delay": "P1D", "at": "09:00", "timezone": "UTC"}
    revision = make_revision(when=when)

    assert ask(revision, at=DUE + 2 * MINUTE).text.endswith("they wait for 09:00, UTC")
    assert ask(revision, at=DUE.replace(hour=9)).text.startswith("user ann")


def test_an_event_whose_delay_has_not_passed_will_run():
    """The user is named, and so is the condition."""
    answer = ask(now=DUE - MINUTE, last_tick_at=DUE - MINUTE)

    told = "user ann: it is due at 2026-11-10 07:00:20Z, unless the action changes"
    assert (Verdict.WILL_RUN, told) == (answer.verdict, answer.text)


def test_an_event_that_nobody_has_looked_at_is_not_decided_yet():
    """Due since the last tick."""
    assert Verdict.UNDECIDED == ask(last_tick_at=DUE - MINUTE).verdict


def test_a_user_who_is_left_out_is_named():
    """Decided, and no operation: the recipients are a filter on the user."""
    answer = ask()

    assert Verdict.NOT_DUE == answer.verdict
    assert "user ann: the recipients do not include the user" in answer.text


def test_a_missed_range_covers_the_events_within():
    """Nobody led when the delay had passed."""
    missed = make_range(DUE - MINUTE, DUE + MINUTE, reason="outage", recorded_at=NOW)

    answer = ask(operations=(missed,))

    assert (Verdict.MISSED, UUID(int=1)) == (answer.verdict, answer.operation_id)


@pytest.mark.parametrize(
    ("bound", "verdict", "words"),
    [
        ("starts_at", Verdict.NOT_EFFECTIVE, "begins at 2026-11-10 07:01:00Z"),
        ("ends_at", Verdict.NOT_DUE, "ended at 2026-11-10 07:00:00Z"),
    ],
)
def test_outside_its_bounds_an_action_says_so(bound: str, verdict: Verdict, words: str):
    """With the bound, in UTC."""
    minute = DUE.replace(second=0)
    value = minute + MINUTE if bound == "starts_at" else minute
    changes: dict[str, Any] = {bound: value.isoformat()}
    answer = ask(make_revision(**changes))

    assert verdict == answer.verdict
    assert words in answer.text


def test_an_edit_before_the_decision_supersedes():
    """What was due and not decided is not decided under the new rule."""
    first, at = make_revision(), DUE + 20 * MINUTE
    edit = recording.edit(first, at, effective_from=at, undecided_from=DUE)

    assert Verdict.SUPERSEDED == ask(first, edit).verdict
