"""Whenever ticks come, each occurrence is decided exactly once."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from actions.decide import CATCH_UP_LIMIT
from actions.occurrences import parse_timing
from actions.when.searching import find_occurrences
from models.occurrence import LOOKBACK
from models.operation_state import OperationState, Queue
from tests.scheduling import MINUTELY, MONDAY, SECOND
from tests.unit.actions.deciding import Ticks, make_action, missed, ran

WHENS = st.sampled_from(
    [
        MINUTELY,
        {"cron_rule": "*/7 * * * *"},
        {"cron_rule": "0 2 * * *", "timezone": "Europe/Paris"},
        {"cron_rule": "30 * * * *", "timezone": "Australia/Lord_Howe"},
        {"every": "PT11M", "anchor": "2026-01-01T00:00:30Z"},
        {"calendar": "*-*-* *:*:00,20"},
        [{"cron_rule": "*/5 * * * *"}, {"every": "PT4M"}],
        {"due_date": "2026-03-29T02:00:00"},
    ]
)
#: Around the clock changes of Europe and Lord Howe.
STARTS = st.sampled_from(
    [
        datetime(2026, 3, 29, tzinfo=MONDAY.tzinfo),
        datetime(2026, 4, 4, 14, tzinfo=MONDAY.tzinfo),
    ]
)
JITTERS = st.sampled_from([None, "PT1M", "PT9M", "PT3H"])
SHORT_GAPS = st.lists(
    st.floats(min_value=0.5, max_value=LOOKBACK.total_seconds()), max_size=60
)
LONG_GAPS = st.lists(
    st.one_of(
        st.floats(min_value=0.5, max_value=300),
        st.floats(min_value=300, max_value=90000),
    ),
    max_size=12,
)
CATCH_UPS = st.sampled_from(
    [
        {"runs": runs, **within}
        for runs in ("none", "latest", "all")
        for within in ({}, {"within": "PT1H"}, {"within": "P1D"})
    ]
)


def make_instants(start: datetime, gaps: list[float]) -> list[datetime]:
    instants = [start]
    for gap in gaps:
        instants.append(instants[-1] + timedelta(seconds=gap))
    return instants


def find_all(ticks: Ticks, start: datetime, until: datetime) -> list[datetime]:
    """Return what is to be dispatched by *until*, by brute force."""
    assert ticks.action is not None
    schedule = parse_timing(ticks.action.timing or "")
    found = find_occurrences(schedule, start, until + SECOND)
    return [each for each in found if schedule.due_at(each, ticks.action.uid) <= until]


@given(WHENS, STARTS, JITTERS, CATCH_UPS, SHORT_GAPS)
def test_any_ticks_decide_each_occurrence_once(
    when: object,
    start: datetime,
    jitter: str | None,
    catch_up: dict[str, str],
    gaps: list[float],
):
    """However often the scheduler wakes, as long as it wakes within the window."""
    ticks = Ticks(
        make_action(when, next_due_at=start, jitter=jitter, catch_up=catch_up)
    )
    instants = make_instants(start, gaps)
    expected = find_all(ticks, start, instants[-1])

    operations = ticks.run(instants)

    assert expected == ran(operations)
    assert [] == missed(operations)


@given(WHENS, STARTS, JITTERS, CATCH_UPS, LONG_GAPS)
def test_any_outage_runs_or_misses_each_occurrence_once(
    when: object,
    start: datetime,
    jitter: str | None,
    catch_up: dict[str, str],
    gaps: list[float],
):
    """What does not run lies in exactly one range, and the ranges count it."""
    ticks = Ticks(
        make_action(when, next_due_at=start, jitter=jitter, catch_up=catch_up)
    )
    instants = make_instants(start, gaps)
    expected = find_all(ticks, start, instants[-1])

    operations = ticks.run(instants)

    ranges = missed(operations)
    runs = Counter(ran(operations))
    for occurrence in expected:
        inside = [r for r in ranges if r[0] <= occurrence <= r[1]]
        assert 1 == runs[occurrence] + len(inside), occurrence
    assert set(runs) <= set(expected)
    for first, last, count, more in ranges:
        exact = sum(1 for each in expected if first <= each <= last)
        assert (min(exact, CATCH_UP_LIMIT), exact > CATCH_UP_LIMIT) == (count, more)
    assert len(operations) == len({each.id for each in operations})


BELOW_MINUTE = st.sampled_from(
    [
        {"every": "PT1S"},
        {"every": "PT7S", "anchor": "2026-03-01T00:00:03Z"},
        {"calendar": "*-*-* *:*:0/20", "timezone": "Europe/Paris"},
        {"calendar": "*-*-* 02:30..40:05,35", "timezone": "Europe/Paris"},
        [{"every": "PT40S"}, {"cron_rule": "* * * * *"}],
    ]
)
LOOKS = st.lists(st.floats(min_value=0.2, max_value=900), max_size=12)


@given(BELOW_MINUTE, STARTS, st.sampled_from([None, "PT1M"]), LOOKS)
def test_of_seconds_the_latest_of_each_look_runs(
    when: object, start: datetime, jitter: str | None, gaps: list[float]
):
    """Each other occurrence lies in exactly one range: overtaken, or of an outage."""
    action = make_action(when, next_due_at=start, jitter=jitter)
    ticks = Ticks(action._replace(queue=Queue.TASKS))
    instants = make_instants(start, gaps)
    expected = find_all(ticks, start, instants[-1])
    runs: list[datetime] = []

    for now in instants:
        before = len(ticks.operations)
        ticks.tick(now)
        found = ran(ticks.operations[before:])
        assert len(found) <= 1
        runs += found

    ranges = missed(ticks.operations) + missed(ticks.operations, OperationState.SKIPPED)
    for occurrence in expected:
        inside = [r for r in ranges if r[0] <= occurrence <= r[1]]
        assert 1 == runs.count(occurrence) + len(inside), occurrence
    assert set(runs) <= set(expected)
    assert len(expected) == len(runs) + sum(r[2] for r in ranges)
    assert len(ticks.operations) == len({each.id for each in ticks.operations})
