"""Ranges, the look-back and dispatches all follow from one question."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actions.occurrences import (
    PARSED_LONG_TIMINGS,
    Due,
    Schedule,
    find_due,
    get_scheduled_action_last_occurrence,
    make_schedule,
    next_due,
    parse_timing,
)
from actions.when.excluding import DaysOff
from actions.when.searching import count_occurrences, find_last, find_occurrences
from models.timing import timing_text
from models.when import CronModel, TimingModel
from tests.unit.actions.rules import CountingRule, GridRule, make_action

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
PARIS = ZoneInfo("Europe/Paris")
TOKYO = ZoneInfo("Asia/Tokyo")

HOURLY = Schedule((GridRule(3600),))

rules = st.builds(
    GridRule,
    every=st.integers(1, 20_000),
    offset=st.integers(0, 20_000),
    zone=st.sampled_from([ZoneInfo("UTC"), PARIS, TOKYO]),
)
day_ranges = st.tuples(st.integers(-2, 3), st.integers(0, 1)).map(
    lambda pair: (NOON.date() + pair[0] * DAY, NOON.date() + (pair[0] + pair[1]) * DAY)
)
instants = st.integers(-100_000, 100_000).map(lambda n: NOON + n * SECOND)
bounds = st.none() | instants


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Return schedules of up to three rules with everything that bounds them."""
    made = make_schedule(
        TimingModel(
            when=(CronModel(cron_rule="* * * * *"),),
            starts_at=draw(bounds),
            ends_at=draw(bounds),
            excluded=tuple(draw(st.lists(day_ranges, max_size=2))),
        )
    )
    return Schedule(
        tuple(draw(st.lists(rules, min_size=1, max_size=3))),
        made.starts_at,
        made.ends_at,
        made.excluded,
        timedelta(minutes=draw(st.integers(0, 90))),
    )


def is_due(schedule: Schedule, instant: datetime) -> bool:
    """Say by the definition, without any search, if *schedule* is due."""
    if schedule.starts_at and instant < schedule.starts_at:
        return False
    if schedule.ends_at and instant >= schedule.ends_at:
        return False
    for rule in schedule.rules:
        day = instant.astimezone(rule.zone).date()
        excluded = schedule.excluded.covers(day)
        if rule.next_from(instant) == instant and not excluded:
            return True
    return False


def test_range_includes_its_start_and_not_its_end() -> None:
    """An occurrence at the start of a range belongs to it, one at the end does not."""
    found = find_occurrences(HOURLY, NOON, NOON + 2 * HOUR)

    assert [NOON, NOON + HOUR] == found


def test_range_can_be_cut_short() -> None:
    """No more than the limit is returned, and counted."""
    assert [NOON] == find_occurrences(HOURLY, NOON, NOON + DAY, limit=1)
    assert 24 == count_occurrences(HOURLY, NOON, NOON + DAY)
    assert 3 == count_occurrences(HOURLY, NOON, NOON + DAY, limit=3)


def test_long_exclusion_costs_one_question() -> None:
    """A rule due every minute jumps over an excluded century at once."""
    rule = CountingRule(GridRule(60))
    schedule = Schedule(
        (rule,), excluded=DaysOff(((date(2000, 1, 1), date(2099, 12, 31)),))
    )

    assert datetime(2100, 1, 1, tzinfo=UTC) == schedule.next_from(NOON)
    assert 2 == rule.asked


def test_last_occurrence_is_found_in_few_questions() -> None:
    """A century of a rule due every second is searched in some forty questions."""
    rule = CountingRule(GridRule(1))

    last = find_last(rule, NOON - 36_500 * DAY, NOON)

    assert NOON == last
    assert rule.asked < 45


def test_nothing_due_in_the_window_costs_one_question() -> None:
    """The usual case of a tick is the cheapest."""
    rule = CountingRule(GridRule(86_400))

    assert None is find_last(rule, NOON - 5 * MINUTE, NOON)
    assert 1 == rule.asked


@pytest.mark.parametrize(
    ("after", "until", "last"),
    [
        (NOON - SECOND, NOON, NOON),
        (NOON, NOON + HOUR - SECOND, None),
        (NOON, NOON + HOUR, NOON + HOUR),
        (NOON - timedelta(microseconds=1), NOON, NOON),
        (NOON, NOON, None),
        (NOON, NOON - DAY, None),
        (NOON - DAY, NOON + timedelta(microseconds=1), NOON),
    ],
)
def test_look_back_excludes_its_start_and_includes_its_end(
    after: datetime, until: datetime, last: datetime | None
) -> None:
    """The window is ``(after, until]``."""
    assert last == find_last(HOURLY, after, until)


def test_naive_instants_are_refused() -> None:
    """Python would read a naive instant in the zone of the host."""
    naive = NOON.replace(tzinfo=None)

    with pytest.raises(ValueError, match="no UTC offset"):
        HOURLY.next_from(naive)


def test_years_beyond_the_calendar_have_no_occurrence() -> None:
    """Rules are only asked about years they can answer for."""
    assert None is HOURLY.next_from(datetime(9995, 1, 1, tzinfo=UTC))
    assert HOURLY.next_from(datetime(1, 1, 1, tzinfo=UTC)) is not None


@given(schedules(), instants)
def test_next_occurrence_is_the_first_by_definition(
    schedule: Schedule, instant: datetime
) -> None:
    """Nothing is due from an instant to its next occurrence, which itself is due."""
    found = schedule.next_from(instant)
    if found is not None:
        assert found >= instant
        assert is_due(schedule, found)
    end = min(found or instant + DAY, instant + timedelta(seconds=2000))

    seconds = range((end - instant) // SECOND)

    assert not any(is_due(schedule, instant + second * SECOND) for second in seconds)


@given(schedules(), instants, st.integers(0, 50_000))
def test_occurrences_increase_and_their_last_is_found(
    schedule: Schedule, start: datetime, length: int
) -> None:
    """Occurrences are strictly ordered, and looking back finds the last of them."""
    end = start + length * SECOND

    found = find_occurrences(schedule, start, end, limit=2000)

    assert sorted(set(found)) == found
    if len(found) < 2000:
        last = find_last(schedule, start - SECOND, end - SECOND)
        assert (found[-1] if found else None) == last


@given(schedules(), instants, st.sampled_from([PARIS, TOKYO]))
def test_zone_of_the_question_does_not_matter(
    schedule: Schedule, instant: datetime, zone: ZoneInfo
) -> None:
    """The same instant gives the same answer, in whatever zone it is written."""
    local = instant.astimezone(zone)

    assert schedule.next_from(instant) == schedule.next_from(local)
    assert next_due(schedule, "a", after=instant) == next_due(
        schedule, "a", after=local
    )


@given(schedules(), instants, st.text(max_size=5))
def test_dispatch_is_late_by_whole_minutes_and_never_overtaken(
    schedule: Schedule, start: datetime, uid: str
) -> None:
    """Jitter delays by whole minutes, at most the jitter, and keeps the order."""
    found = find_occurrences(schedule, start, start + DAY, limit=20)
    for occurrence in found:
        due_at = schedule.due_at(occurrence, uid)
        following = schedule.next_from(occurrence + SECOND)

        assert occurrence <= due_at <= occurrence + schedule.jitter
        assert not (due_at - occurrence) % MINUTE
        assert following is None or due_at < following


@pytest.mark.slow
@given(schedules(), instants, st.integers(0, 3), bounds)
def test_next_dispatch_is_the_first_of_all(
    schedule: Schedule, after: datetime, uid: int, effective_from: datetime | None
) -> None:
    """next_due and find_due give what a look at every occurrence gives."""
    end = after + 3 * HOUR
    occurrences = find_occurrences(schedule, after - 3 * HOUR, end + SECOND)
    every = [Due(at, schedule.due_at(at, str(uid))) for at in occurrences]
    expected = [
        due
        for due in every
        if after < due.due_at <= end
        and (effective_from is None or due.occurrence >= effective_from)
    ]

    found = find_due(
        schedule, str(uid), start=after + SECOND, now=end, effective_from=effective_from
    )
    first = next_due(schedule, str(uid), after=after, effective_from=effective_from)

    assert expected == found
    if expected:
        assert expected[0] == first
    else:
        assert first is None or first.due_at > end


def test_dispatches_can_be_limited() -> None:
    """At most the limit is returned, oldest first; what comes after now is not due."""
    found = find_due(HOURLY, "a", start=NOON, now=NOON + DAY, limit=2)

    assert [Due(NOON, NOON), Due(NOON + HOUR, NOON + HOUR)] == found
    assert [] == find_due(HOURLY, "a", start=NOON + SECOND, now=NOON + MINUTE)


def test_dispatches_end_with_the_schedule() -> None:
    """After the last occurrence nothing is due any more."""
    ending = Schedule((GridRule(3600),), ends_at=NOON + SECOND)

    assert [Due(NOON, NOON)] == find_due(ending, "a", start=NOON, now=NOON + DAY)
    assert None is next_due(ending, "a", after=NOON)


def test_jitter_spreads_actions_evenly() -> None:
    """A thousand actions of the same hour are spread over all its minutes."""
    schedule = Schedule((GridRule(86_400),), jitter=timedelta(minutes=9))
    midnight = NOON - 12 * HOUR
    minutes = [
        (schedule.due_at(midnight, f"action-{n}") - midnight) // MINUTE
        for n in range(1000)
    ]

    counts = [minutes.count(minute) for minute in range(10)]

    assert 1000 == sum(counts)
    assert min(counts) > 60


def test_jitter_is_the_same_every_day() -> None:
    """Each action keeps its minute."""
    schedule = Schedule((GridRule(86_400),), jitter=timedelta(minutes=59))
    found = find_occurrences(schedule, NOON, NOON + 30 * DAY)

    delays = {schedule.due_at(at, "weekly") - at for at in found}

    assert 1 == len(delays)


def test_same_timing_is_parsed_once() -> None:
    """Actions with the same timing share one parsed schedule."""
    text = timing_text(TimingModel(when=(CronModel(cron_rule="0 7 * * 1"),)))

    assert parse_timing(text) is parse_timing(text)


def test_few_long_timings_are_kept() -> None:
    """A thousand days off take much memory; they push out no short timing, either."""
    short = timing_text(TimingModel(when=(CronModel(cron_rule="0 7 * * 1"),)))
    kept, first = parse_timing(short), parse_timing(short.ljust(2_000))

    for length in range(2_001, 2_001 + PARSED_LONG_TIMINGS):
        parse_timing(short.ljust(length))

    assert first is not parse_timing(short.ljust(2_000))
    assert kept is parse_timing(short)


def test_stored_timing_reads_back() -> None:
    """What is stored means the same as what was posted."""
    timing = TimingModel(
        when=(CronModel(cron_rule="0 7 * * *", timezone="Europe/Paris"),),
        starts_at=NOON,
        ends_at=NOON + 9 * DAY,
        excluded=((date(2026, 11, 24), date(2026, 11, 25)),),
        jitter="PT5M",
    )

    schedule = parse_timing(timing_text(timing))

    assert make_schedule(timing) == schedule
    assert [22, 23, 26, 27, 28, 29, 30] == [
        at.day for at in find_occurrences(schedule, NOON, NOON + 30 * DAY)
    ]


@pytest.mark.parametrize(
    ("now", "last"),
    [
        ("2026-11-23T05:59:59+00:00", None),
        ("2026-11-23T06:00:00+00:00", "2026-11-23T06:00:00+00:00"),
        ("2026-11-23T06:04:59+00:00", "2026-11-23T06:00:00+00:00"),
        ("2026-11-23T06:05:00+00:00", None),
        # in summer time
        ("2026-03-30T05:01:00+00:00", "2026-03-30T05:00:00+00:00"),
        # the day after the clocks went back
        ("2026-10-26T06:01:00+00:00", "2026-10-26T06:00:00+00:00"),
    ],
)
def test_last_occurrence_looks_back_five_minutes(now: str, last: str | None) -> None:
    """Mondays at 07:00 in Paris are found for five minutes, summer and winter."""
    action = make_action({"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"})

    found = get_scheduled_action_last_occurrence(
        action, now=datetime.fromisoformat(now)
    )

    assert (None if last is None else datetime.fromisoformat(last)) == found


def test_look_back_is_elapsed_time_in_the_zone_of_now() -> None:
    """Just after clocks were set back, five minutes are not an hour and five."""
    action = make_action({"cron_rule": "58 0 * * *", "timezone": "UTC"})
    now = datetime(2026, 10, 25, 1, 2, tzinfo=UTC)
    due_at = datetime(2026, 10, 25, 0, 58, tzinfo=UTC)

    found = get_scheduled_action_last_occurrence(action, now=now.astimezone(PARIS))
    later = get_scheduled_action_last_occurrence(
        action, now=(now + 3 * MINUTE).astimezone(PARIS)
    )

    assert (due_at, None) == (found, later)


def test_event_action_has_no_last_occurrence() -> None:
    """What waits for events is due for users, not by itself."""
    action = make_action({"on": "instance.user.created"})

    assert None is get_scheduled_action_last_occurrence(action, now=NOON)
