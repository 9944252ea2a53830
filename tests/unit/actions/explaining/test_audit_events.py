"""What events should have led to, against the record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from actions.explaining.audit import Fault, audit_event_action, audit_following
from actions.explaining.recorded import (
    ActionHistory,
    RecordedEvent,
    RecordedOperation,
    Revision,
)
from models.operation import RecipientFilterModel
from tests.scheduling import DAY, MINUTE
from tests.unit.actions.explaining import recording

START = datetime(2026, 11, 1, tzinfo=UTC)
END = START + 20 * DAY

#: A day after each of three users was seen, on three days.
SEEN = [
    RecordedEvent("app.seen", user, START + n * DAY, START + n * DAY)
    for n, user in enumerate(["ann", "bob", "cem"])
]
DUE = [event.at + DAY for event in SEEN]


make_revision = partial(recording.make_reminder, START - 30 * DAY)


def decide(
    number: int, occurrence: datetime, user: str, **changes: Any
) -> RecordedOperation:
    """Return a decision that is as it should be, with *changes*."""
    ended = {"finished_at": occurrence, **changes}
    known = {"trigger": "event", "user_id": user, **ended}
    return recording.make_operation(occurrence, number, **known)


DECIDED = [decide(n, DUE[n], event.user_id) for n, event in enumerate(SEEN)]


def make_history(
    revisions: Sequence[Revision],
    events: Sequence[RecordedEvent],
    decided: Sequence[RecordedOperation],
) -> ActionHistory:
    return ActionHistory("action", "app", revisions, decided, events, catches_up=False)


def find(
    decided: Sequence[RecordedOperation],
    *revisions: Revision,
    events: Sequence[RecordedEvent] = SEEN,
    since: datetime = START,
    until: datetime = END,
    keeps: Callable[[RecipientFilterModel | None, str], bool] = lambda *_: True,
) -> list[tuple[Fault, datetime]]:
    """Return fault and occurrence of each finding."""
    history = make_history(revisions or [make_revision()], events, decided)
    findings = audit_event_action(history, since=since, until=until, keeps=keeps)
    return [(finding.fault, finding.occurrence) for finding in findings]


def test_one_decision_for_each_event_is_right():
    """Nothing is missing, and nothing is early."""
    assert [] == find(DECIDED)


def test_another_users_decision_is_no_decision():
    """At the same instant, for somebody else."""
    decided = [replace(DECIDED[0], user_id="eve"), *DECIDED[1:]]

    assert [(Fault.MISS, DUE[0])] == find(decided)


def test_a_decision_before_its_time_is_early():
    """The delay had not passed."""
    early = replace(DECIDED[1], recorded_at=DUE[1] - MINUTE)

    assert [(Fault.EARLY, DUE[1])] == find([DECIDED[0], early, DECIDED[2]])


def test_a_missed_range_covers_the_occurrences_within():
    """One row for an outage, whoever the users were."""
    details = {"first": DUE[0].isoformat(), "last": DUE[1].isoformat(), "count": 2}
    missed = decide(9, DUE[0], "", user_id=None, state="missed", details=details)

    assert [] == find([missed, DECIDED[2]])


def test_months_step_the_local_calendar():
    """A month after 31 January is the last of February."""
    at = datetime(2026, 1, 31, 12, tzinfo=UTC)
    monthly = make_revision(
        when={"after": "app.seen", "delay": "P1M", "timezone": "Europe/Paris"},
        effective_from=at,
        recorded_at=at,
    )
    seen = [RecordedEvent("app.seen", "ann", at, at)]

    found = find([], monthly, events=seen, since=at, until=at + 60 * DAY)

    assert [(Fault.MISS, datetime(2026, 2, 28, 12, tzinfo=UTC))] == found


@pytest.mark.parametrize(
    ("changes", "due"),
    [
        ({"when": {"on": "app.other"}}, 0),
        ({"starts_at": DUE[1].isoformat()}, 2),
        ({"ends_at": DUE[1].isoformat()}, 1),
        ({"effective_from": DUE[1]}, 2),
        ({"active": False}, 0),
        ({"document": {"name": "cannot be read"}}, 0),
    ],
)
def test_what_is_not_waited_for_is_not_missed(changes: dict[str, Any], due: int):
    """Other events, what lies outside the bounds, what an action is not asked for."""
    assert due == len(find([], make_revision(**changes)))


def test_an_event_that_was_recorded_late_is_due_when_it_was():
    """The action was posted after the occurrence, and before the event was known."""
    late = replace(SEEN[0], recorded_at=DUE[1] + MINUTE)
    posted = make_revision(effective_from=DUE[1], recorded_at=DUE[1])

    assert [(Fault.MISS, DUE[0])] == find([], posted, events=[late])


def test_what_the_last_tick_may_not_have_seen_is_not_missed():
    """An event may be recorded, and not committed, while a tick looks."""
    assert [] == find(DECIDED[:2], until=DUE[2] + MINUTE)
    assert [(Fault.MISS, DUE[2])] == find(DECIDED[:2], until=DUE[2] + 2 * MINUTE)


@pytest.mark.parametrize(
    ("undecided_from", "misses"), [(DUE[1], []), (DUE[2], [(Fault.MISS, DUE[1])])]
)
@pytest.mark.parametrize("change", ["replaced", "paused", "deleted", "quarantined"])
def test_what_an_edit_overtakes_is_superseded(
    change: str, undecided_from: datetime, misses: list[tuple[Fault, datetime]]
):
    """Due while nobody led, and then edited: not missed, unless it was passed over."""
    first, at = make_revision(), DUE[1] + MINUTE
    edit = recording.edit(
        first, at, change, effective_from=at, undecided_from=undecided_from
    )
    after = DECIDED[2:] if change == "replaced" else []

    assert misses == find([DECIDED[0], *after], first, edit)


def test_users_whom_the_recipients_leave_out_are_not_missed():
    """The filter is asked about each user, with the recipients of that revision."""
    asked: list[tuple[object, str]] = []

    def keep_ann(who: RecipientFilterModel | None, user_id: str) -> bool:
        asked.append((who, user_id))
        return user_id == "ann"

    recipients = {"groups": ["all"]}

    found = find([], make_revision(recipients=recipients), keeps=keep_ann)

    assert [(Fault.MISS, DUE[0])] == found
    who = RecipientFilterModel.model_validate(recipients)
    assert [(who, "ann"), (who, "bob"), (who, "cem")] == asked


#: Of the action after which another one starts.
ENDED = decide(9, START + DAY, "")


def find_missing(
    *revisions: Revision, until: datetime = END, **changes: Any
) -> list[datetime]:
    """Return when something should have followed ENDED, with *changes*."""
    history = replace(
        make_history(revisions, [], []), unfollowed=[replace(ENDED, **changes)]
    )
    found = audit_following(history, since=START, until=until)
    assert {(Fault.MISS, "action")} >= {(e.fault, e.action_uid) for e in found}
    return [each.occurrence for each in found]


def after(on: str = "success", **changes: Any) -> Revision:
    """Return a revision of an action that starts ten minutes after another one."""
    when = {"after_action": "first", "on": on, "delay": "PT10M"}
    return make_revision(when=when, **changes)


@pytest.mark.parametrize(
    ("on", "state", "is_missing"),
    [
        ("success", "succeeded", True),
        ("success", "failed", False),
        ("failure", "failed", True),
        ("failure", "canceled", False),
        ("end", "canceled", True),
        ("end", "skipped", False),
        ("end", "running", False),
    ],
)
def test_end_that_nothing_follows_is_a_miss(on: str, state: str, *, is_missing: bool):
    """If it is such an end as its action waits for."""
    expected = [START + DAY + 10 * MINUTE] if is_missing else []

    assert expected == find_missing(after(on), state=state)


@pytest.mark.parametrize(
    "revisions",
    [
        (after(active=False),),
        (after(ends_at="2026-11-02T00:10:00Z"),),
        (after(starts_at="2026-11-02T00:11:00Z"),),
        (after(effective_from=START + DAY + MINUTE),),
        (after(), after(change="paused", recorded_at=START)),
        # at the moment of an edit either revision may have decided
        (after(), after(number=2, recorded_at=START + DAY)),
        (after(), make_revision(2, recorded_at=START + 2 * DAY)),
        (make_revision(), after(number=2, recorded_at=START + 2 * DAY)),
    ],
)
def test_end_that_nobody_waited_for_is_none(revisions: tuple[Revision, ...]):
    """An action that was out, or started otherwise then, or does now."""
    assert [] == find_missing(*revisions)


def test_end_that_may_be_followed_later_is_none():
    """A backfill repeats the past; what is due after the last tick is not judged."""
    assert [] == find_missing(after(), trigger="backfill")
    assert [] == find_missing(after(), until=START + DAY + MINUTE)
    assert [] == find_missing(after(), finished_at=None)
