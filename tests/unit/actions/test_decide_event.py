"""What a tick decides about event-driven actions: a run for each user and event."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.decide import CATCH_UP_LIMIT, EventCandidate
from actions.when.event import (
    earliest_occurrence,
    event_due_at,
    event_occurrence,
    event_window,
)
from models.decision import Decision
from models.fields.delay import Delay, split_delay
from models.occurrence import LOOKBACK, make_operation_id
from models.operation_state import OperationState, Reason, Trigger
from tests.scheduling import DAY, MINUTE, MONDAY, at
from tests.unit.actions.deciding import decide_on, make_action, missed, ran
from tests.unit.models.fields.moments import zones

RESOLUTION = timedelta.resolution
ON = {"on": "app.x"}
HOURS_LATER = {"after": "app.x", "delay": "PT2H"}


def event(
    user_id: str, instant: datetime, recorded_at: datetime | None = None
) -> EventCandidate:
    return EventCandidate(user_id, instant, recorded_at or instant)


def users(decision: Decision) -> list[str | None]:
    return [
        each.user_id
        for each in decision.operations
        if each.state is OperationState.PENDING
    ]


def test_each_user_gets_an_operation():
    """
    Two users at the same instant are two operations, in the order of their ids, which
    are of the second; the events keep their own instant.
    """
    action = make_action(ON, next_due_at=at("07:00"))
    instant = at("07:00:30") + timedelta(microseconds=700)

    decision = decide_on(
        action, at("07:01"), event("bob", instant), event("ann", instant)
    )

    assert [make_operation_id("uid", at("07:00:30"), u) for u in ("ann", "bob")] == [
        each.id for each in decision.operations
    ]
    first = decision.operations[0]
    assert (Trigger.EVENT, "ann", instant) == (
        first.trigger,
        first.user_id,
        first.event_at,
    )
    assert (None, 4) == (decision.next_due_at, decision.wakes)


def test_delay_ends_before_it_runs():
    """An event that is not due yet tells when to look again."""
    action = make_action(HOURS_LATER, next_due_at=at("07:00"))
    events = [event("ann", at("05:00")), event("bob", at("05:02"))]

    decision = decide_on(action, at("07:01"), *events)

    assert ["ann"] == users(decision)
    assert at("07:02") == decision.next_due_at


def test_later_event_bounds_the_next_look():
    """Of an event that was not fetched only its instant is known: a lower bound."""
    action = make_action(HOURS_LATER, next_due_at=at("07:00"))

    decision = decide_on(action, at("07:01"), next_event_at=at("06:00"))

    assert decision.next_due_at is not None
    assert at("08:00") - timedelta(seconds=1) <= decision.next_due_at <= at("08:00")


def test_next_look_is_never_at_once():
    """A lower bound that has passed is due at the next tick, not in this one again."""
    action = make_action({"after": "app.x", "delay": "P1M"}, next_due_at=at("07:00"))
    instant = at("07:00") - 29 * DAY

    decision = decide_on(action, at("07:00"), next_event_at=instant)

    assert at("07:00") + RESOLUTION == decision.next_due_at


@pytest.mark.parametrize(
    ("behind", "late"), [(DAY, False), (DAY + RESOLUTION, True), (400 * DAY, True)]
)
def test_recorded_more_than_a_day_late_is_missed(behind: timedelta, *, late: bool):
    """History, not news: the user's own row says so."""
    recorded_at = at("12:00:30")
    action = make_action(ON, next_due_at=at("12:00"))
    instant = (recorded_at - behind).replace(microsecond=0)
    recorded_at = instant + behind

    decision = decide_on(action, at("12:01"), event("ann", instant, recorded_at))

    row = decision.operations[0]
    expected = (
        (OperationState.MISSED, Reason.RECORDED_LATE)
        if late
        else (OperationState.PENDING, None)
    )
    assert expected == (row.state, row.reason)
    assert make_operation_id("uid", instant, "ann") == row.id


def test_nothing_before_it_takes_effect():
    """An action that was posted at 07:00 does not run for what was due before."""
    action = make_action(ON, next_due_at=at("06:00"))._replace(
        effective_from=at("07:00")
    )
    events = [event("ann", at("06:59")), event("bob", at("07:00"))]

    assert ["bob"] == users(decide_on(action, at("07:01"), *events))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"starts_at": at("07:02")}, ["bob", "eve"]),
        ({"starts_at": at("07:02:01")}, ["eve"]),
        ({"ends_at": at("07:02")}, ["ann"]),
        ({"ends_at": at("07:02:01")}, ["ann", "bob"]),
    ],
)
def test_bounds_hold_for_the_occurrence(
    bounds: dict[str, datetime], expected: list[str]
):
    """``starts_at`` inclusive, ``ends_at`` exclusive."""
    action = make_action(ON, next_due_at=at("07:00"))._replace(**bounds)  # type: ignore[arg-type]  # times both
    events = [
        event(user, at(f"07:0{n}")) for n, user in enumerate(["ann", "bob", "eve"], 1)
    ]

    assert expected == users(decide_on(action, at("07:04"), *events))


def test_outage_is_one_missed_row():
    """What the outage held of all users is counted together; the window runs."""
    action = make_action(ON, next_due_at=at("07:00"))
    events = [event(f"u{n}", at("07:00") + n * MINUTE) for n in range(60)]

    decision = decide_on(action, at("07:59"), *events)

    assert [f"u{n}" for n in range(55, 60)] == users(decision)
    assert [(at("07:00"), at("07:54"), 55, False)] == missed(decision.operations)


@pytest.mark.parametrize(
    ("catch_up", "expected", "lost"),
    [
        ({"runs": "latest"}, ["u2"], 2),
        ({"runs": "latest", "within": "PT1H"}, [], 3),
        ({"runs": "all"}, ["u0", "u1", "u2"], 0),
        ({"runs": "all", "within": "PT2H59M"}, ["u2"], 2),
    ],
)
def test_catch_up_holds_for_events(
    catch_up: dict[str, str], expected: list[str], lost: int
):
    """Three users while nobody led, the last of them two hours and more ago."""
    action = make_action(ON, next_due_at=at("07:00"), catch_up=catch_up)
    events = [event(f"u{n}", at(f"{7 + n}:00")) for n in range(3)]

    decision = decide_on(action, at("11:30"), *events)

    assert expected == users(decision)
    assert lost == sum(count for _, _, count, _ in missed(decision.operations))


def test_a_thousand_users_are_caught_up():
    """The rest is counted, exactly to a thousand."""
    action = make_action(ON, next_due_at=MONDAY, catch_up={"runs": "all"})
    events = [event(f"u{n:04}", MONDAY + n * RESOLUTION) for n in range(2500)]

    decision = decide_on(action, MONDAY + DAY, *events)

    assert CATCH_UP_LIMIT == len(ran(decision.operations))
    assert [(1000, True)] == [row[2:] for row in missed(decision.operations)]


def test_ranges_of_two_outages_are_two_rows():
    """The same first occurrence in two outages is told apart, so neither is lost."""
    action = make_action(ON, next_due_at=at("07:00"))
    first = decide_on(action, at("08:00"), event("ann", at("07:00")))
    action = action._replace(next_due_at=at("08:00") + RESOLUTION)

    second = decide_on(
        action, at("09:00"), event("bob", at("07:00"), recorded_at=at("08:30"))
    )

    assert first.operations[0].id != second.operations[0].id


DELAYS = st.sampled_from(
    [
        *("PT0S", "PT90M", "P1D", "P2WT3H", "P1M", "P1Y2M"),
        *("00:30", "02:30", "P1D 02:30", "P1M 00:30", "PT90M 03:00"),
    ]
)


@given(
    DELAYS,
    zones,
    st.lists(
        st.tuples(
            st.integers(min_value=-3 * 86400, max_value=3 * 86400),
            st.integers(min_value=0, max_value=86400),
        ),
        max_size=12,
    ),
    st.lists(st.integers(min_value=1, max_value=300), min_size=1, max_size=40),
)
def test_any_ticks_decide_each_event_once(
    delay: str, clocks: ZoneInfo, made: list[tuple[int, int]], gaps: list[int]
):
    """Whenever events happen and are recorded, each that falls due runs once."""
    length = Delay.parse(delay)
    start = datetime(2026, 3, 28, 22, tzinfo=UTC)
    first, last = event_window(length, clocks, start, start)
    events = []
    for number, (offset, behind) in enumerate(made):
        instant = first + (last - first) / 2 + timedelta(seconds=offset)
        occurrence = event_occurrence(instant, length, clocks)
        recorded_at = max(instant, occurrence) + timedelta(seconds=behind - 43200)
        events.append(event(f"u{number}", instant, max(recorded_at, instant)))
    duration, time_of_day = split_delay(delay)
    when = {"after": "app.x", "delay": duration or "PT0S", "timezone": clocks.key}
    action = make_action(
        when if time_of_day is None else {**when, "at": time_of_day}, next_due_at=start
    )
    decided: list[str | None] = []
    next_due_at: datetime | None = start
    now = start
    for gap in gaps:
        former, now = now, now + timedelta(seconds=gap)
        for each in events:  # recording lowers the bound
            if former < each.recorded_at <= now:
                bound = earliest_occurrence(each.at, length, clocks)
                bound = max(bound, each.recorded_at)
                next_due_at = min(next_due_at or bound, bound)
        if next_due_at is None or next_due_at > now:
            continue
        first, last = event_window(length, clocks, next_due_at, now)
        known = [each for each in events if each.recorded_at <= now]
        candidates = [
            each
            for each in known
            if each.at <= last and (each.at >= first or each.recorded_at >= next_due_at)
        ]
        later = [each.at for each in known if each.at > last]
        decision = decide_on(
            action._replace(next_due_at=next_due_at),
            now,
            *candidates,
            next_event_at=min(later, default=None),
        )
        decided += [each.user_id for each in decision.operations]
        next_due_at = decision.next_due_at

    expected = []
    for each in events:
        occurrence = event_occurrence(each.at, length, clocks)
        due_at = event_due_at(occurrence, each.recorded_at)
        if start <= due_at <= now:
            expected.append(each.user_id)
    assert sorted(expected) == sorted(map(str, decided))
    assert LOOKBACK >= timedelta(seconds=max(gaps))
