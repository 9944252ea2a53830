"""What a tick decides about time-driven actions: each occurrence exactly once."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import cast

import pytest

from actions.decide import CATCH_UP_LIMIT, Memo, _sort_out, decide_time
from actions.occurrences import Schedule, parse_timing
from actions.when.rule import Rule
from models.occurrence import LOOKBACK, make_missed_id, make_operation_id
from models.operation_state import OperationState, Queue, Reason, Trigger
from tests.scheduling import DAY, MINUTE, MINUTELY, MONDAY, SECOND, at
from tests.unit.actions.deciding import Ticks, decide, make_action, missed, ran
from tests.unit.actions.rules import CountingRule, GridRule


def every_minute(first: str, last: str) -> list[datetime]:
    count = (at(last) - at(first)) // MINUTE + 1
    return [at(first) + n * MINUTE for n in range(count)]


def test_operation_says_what_it_is():
    """The row carries its identity and all that a worker and a reader need."""
    operation = decide(make_action(MINUTELY), MONDAY).operations[0]

    assert make_operation_id("uid", MONDAY) == operation.id
    assert (Trigger.SCHEDULE, 'Scheduled action "daily"', 3, "app", None, None) == (
        operation.trigger,
        operation.triggered_by,
        operation.action_revision,
        operation.app,
        operation.user_id,
        operation.reason,
    )


@pytest.mark.parametrize(
    ("now", "runs"),
    [
        (at("07:04:59"), True),
        (at("07:05") - timedelta.resolution, True),
        (at("07:05"), False),
        (at("07:05:01"), False),
    ],
)
def test_window_is_open_at_its_old_end(now: datetime, *, runs: bool):
    """Five minutes to the microsecond: what is exactly as old has left the window."""
    action = make_action({"cron_rule": "0 7 * * *"}, next_due_at=at("07:00"))

    operations = decide(action, now).operations

    assert ([at("07:00")] if runs else []) == ran(operations)
    assert ([] if runs else [(at("07:00"), at("07:00"), 1, False)]) == missed(
        operations
    )


def test_missed_range_is_one_row_that_says_all():
    """First, last and count, under an id of its own, final with its reason."""
    action = make_action(MINUTELY, next_due_at=at("10:00"))

    operations = decide(action, at("12:00")).operations

    row = operations[0]
    assert make_missed_id("uid", at("10:00")) == row.id
    assert (OperationState.MISSED, Reason.OUTAGE, at("10:00")) == (
        row.state,
        row.reason,
        row.occurrence,
    )
    assert [(at("10:00"), at("11:55"), 116, False)] == missed(operations)
    assert row.details is not None
    assert "2026-01-05T10:00:00Z" == row.details["first"]
    assert every_minute("11:56", "12:00") == ran(operations)


@pytest.mark.parametrize(
    ("minutes", "count", "more"),
    [(999, 999, False), (1000, 1000, False), (1001, 1000, True)],
)
def test_missed_are_counted_exactly_to_a_thousand(
    minutes: int, count: int, *, more: bool
):
    """Beyond that it is "more", and the range still says from when to when."""
    now = MONDAY + (minutes - 1) * MINUTE + LOOKBACK

    operations = decide(make_action(MINUTELY), now).operations

    last = MONDAY + (minutes - 1) * MINUTE
    assert [(MONDAY, last, count, more)] == missed(operations)


@pytest.mark.parametrize("now", ["09:30", "09:03"], ids=["empty", "holds one"])
def test_latest_runs_alone_whether_or_not_it_is_within_the_window(now: str):
    """What is due now makes up for what was missed; if nothing is, the last run."""
    action = make_action(
        {"cron_rule": "0 7-9 * * *"},
        next_due_at=at("07:00"),
        catch_up={"runs": "latest"},
    )

    operations = decide(action, at(now)).operations

    assert [at("09:00")] == ran(operations)
    assert [(at("07:00"), at("08:00"), 2, False)] == missed(operations)


def test_all_stops_at_a_thousand():
    """The rest is one missed row; what the window holds runs all the same."""
    action = make_action(MINUTELY, catch_up={"runs": "all"})
    now = MONDAY + 1099 * MINUTE + LOOKBACK

    operations = decide(action, now).operations

    assert CATCH_UP_LIMIT + 5 == len(ran(operations))
    first = MONDAY + 1000 * MINUTE
    assert [(first, MONDAY + 1099 * MINUTE, 100, False)] == missed(operations)


@pytest.mark.parametrize(
    ("runs", "within", "expected"),
    [
        ("all", "PT2H", ["08:00", "09:00"]),
        ("all", "PT1H59M", ["09:00"]),
        ("all", "PT30M", []),
        ("latest", "PT1H", ["09:00"]),
        ("latest", "PT59M", []),
        ("all", "P1M", ["07:00", "08:00", "09:00"]),
        ("none", "P1D", []),
    ],
)
def test_catch_up_reaches_back_as_far_as_it_may(
    runs: str, within: str, expected: list[str]
):
    """What is older than ``within`` is missed, exactly as old still runs."""
    action = make_action(
        {"cron_rule": "0 7-9 * * *"},
        next_due_at=at("07:00"),
        catch_up={"runs": runs, "within": within},
    )

    operations = decide(action, at("10:00")).operations

    assert [at(each) for each in expected] == ran(operations)
    assert 3 - len(expected) == sum(count for _, _, count, _ in missed(operations))


def test_ten_years_cost_no_more_than_a_day():
    """Some 5 million missed occurrences are found by search, not one by one."""
    asked = {}
    for days in (1, 3650):
        rule = CountingRule(GridRule(every=60))
        schedule = Schedule((cast("Rule", rule),))
        action = make_action(MINUTELY, catch_up={"runs": "latest"})

        _sort_out(action, schedule, MONDAY + days * DAY, LOOKBACK)

        asked[days] = rule.asked
    assert asked[3650] < asked[1] + 100 < 1300


def test_rule_that_ends_is_never_due_again():
    """After the last occurrence there is no next."""
    action = make_action({"due_date": "2026-01-05T07:00:00"}, next_due_at=at("07:00"))

    decision = decide(action, at("07:00"))

    assert decision.next_due_at is None
    assert [at("07:00")] == ran(decision.operations)


def test_nothing_before_it_takes_effect():
    """With jitter too, the instant of the rule counts, not that of the dispatch."""
    action = make_action(
        {"cron_rule": "*/30 * * * *"}, next_due_at=at("07:02"), jitter="PT20M"
    )
    ticks = Ticks(action)

    operations = ticks.run([at("07:00") + n * MINUTE for n in range(61)])

    assert [at("07:30")] == ran(operations)


def test_jitter_delays_the_dispatch_and_not_the_identity():
    """Each occurrence runs once, under its own id, at its own minute later."""
    action = make_action(
        {"cron_rule": "0 * * * *"}, next_due_at=at("07:00"), jitter="PT30M", uid="a"
    )
    schedule = parse_timing(action.timing or "")
    due_at = schedule.due_at(at("07:00"), "a")
    assert at("07:00") < due_at <= at("07:30")
    ticks = Ticks(action._replace(next_due_at=due_at))

    assert [] == ticks.run([due_at - SECOND])
    operations = ticks.run([due_at, due_at + MINUTE])

    assert [make_operation_id("a", at("07:00"))] == [each.id for each in operations]


def test_actions_with_one_rule_share_the_search():
    """The memo answers for all that are due since the same instant, and only those."""
    memo: Memo = {}
    first = make_action(MINUTELY, next_due_at=at("12:01"), uid="first")
    others = [
        first._replace(uid="second"),
        first._replace(uid="third", next_due_at=at("12:02")),
    ]
    decisions = [
        decide_time(each, now=at("12:03"), lookback=LOOKBACK, memo=memo)
        for each in (first, *others)
    ]

    assert [3, 3, 2] == [len(each.operations) for each in decisions]
    assert 2 == len(memo)
    assert make_operation_id("second", at("12:01")) == decisions[1].operations[0].id


def test_of_seconds_the_latest_runs_and_one_row_tells_of_the_others():
    """The row is skipped, not missed: nothing was wrong."""
    action = make_action({"every": "PT10S"}, next_due_at=at("07:00:10"))

    decision = decide(action._replace(queue=Queue.TASKS), at("07:01:03"))

    row, run = decision.operations
    assert (OperationState.SKIPPED, Reason.OVERTAKEN, at("07:00:10")) == (
        row.state,
        row.reason,
        row.occurrence,
    )
    expected = (at("07:00:10"), at("07:00:50"), 5, False)
    assert [expected] == missed([row], OperationState.SKIPPED)
    assert make_operation_id("uid", at("07:01")) == run.id
    assert at("07:01:10") == decision.next_due_at


def test_what_a_worker_does_is_not_overtaken():
    """
    The same calendar rule of a mail runs for each occurrence, as it always did; the two
    share no answer in one tick.
    """
    memo: Memo = {}
    mail = make_action({"calendar": "*-*-* *:*:0/20"}, next_due_at=at("07:00:20"))
    task = mail._replace(queue=Queue.TASKS)

    runs = [
        ran(decide_time(each, now=at("07:01"), lookback=LOOKBACK, memo=memo).operations)
        for each in (mail, task, mail)
    ]

    assert [3, 1, 3] == [len(each) for each in runs]
