"""What is wrong and what is fine follows from the figures alone."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from models.operation_state import Queue
from overview.doctor.finding import Health
from overview.now.verdict import Figures, QueueFigures, judge

NOW = datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

#: Nothing is wrong.
CALM = Figures(now=NOW, last_tick_at=NOW - timedelta(seconds=37))

STUCK = QueueFigures(Queue.QUICK, waiting=14, since=NOW - 4 * MINUTE)
SLOW = QueueFigures(Queue.HEAVY, waiting=2, since=NOW - 6 * MINUTE, workers=1)
FRESH = QueueFigures(Queue.HEAVY, waiting=2, since=NOW - timedelta(seconds=3))


@pytest.mark.parametrize(
    ("changes", "health", "headline"),
    [
        ({}, Health.GOOD, "On time, and nothing went wrong since yesterday."),
        ({"queues": [FRESH]}, Health.GOOD, "On time, and nothing went wrong"),
        ({"has_actions": False}, Health.GOOD, "Ticking. Nothing is scheduled yet."),
        ({"skipped": 3, "late": 2}, Health.GOOD, "On time, and nothing went wrong"),
        (
            {"failed": 55, "causes": 4, "missed": 5},
            Health.DOUBTFUL,
            "On time, but 55 runs failed, of 4 causes.",
        ),
        (
            {"failed": 1, "causes": 1},
            Health.DOUBTFUL,
            "On time, but 1 run failed, of 1 cause.",
        ),
        ({"missed": 1}, Health.DOUBTFUL, "On time, but 1 occurrence was missed."),
        ({"uncertain": 2}, Health.DOUBTFUL, "On time, but 2 mails are uncertain."),
        ({"quarantined": 1}, Health.DOUBTFUL, "On time, but 1 action is quarantined."),
        ({"silent": 1}, Health.DOUBTFUL, "On time, but 1 worker is silent."),
        ({"failed": None}, Health.DOUBTFUL, "On time, but what went wrong cannot be"),
        ({"paused_since": NOW}, Health.DOUBTFUL, "Everything is paused."),
        ({"queues": [SLOW]}, Health.BAD, "On time, but heavy is behind."),
        (
            {"queues": [STUCK], "failed": 55, "causes": 4},
            Health.BAD,
            "On time, but quick stands still.",
        ),
        (
            {"queues": [STUCK], "send_failing_since": NOW - MINUTE},
            Health.BAD,
            "Ticking, but the broker takes nothing.",
        ),
        (
            {"last_tick_at": NOW - 3 * MINUTE},
            Health.BAD,
            "The scheduler does not tick.",
        ),
        (
            {"is_led": False, "queues": [STUCK], "last_tick_at": NOW - 9 * MINUTE},
            Health.BAD,
            "Nobody leads: nothing is scheduled or sent.",
        ),
    ],
)
def test_headline_names_the_gravest(
    changes: dict[str, Any], health: Health, headline: str
):
    """
    One thing, so that somebody who was woken knows where to begin.
    """
    verdict = judge(replace(CALM, **changes))

    assert health is verdict.health
    assert verdict.headline.startswith(headline)


def test_text_has_all_figures():
    """
    The gravest first, and that the rest works.
    """
    figures = replace(
        CALM, failed=55, causes=4, missed=5, uncertain=1, skipped=1, late=12
    )

    assert (
        "The scheduler ticks and records everything. Since yesterday at this time 55"
        " runs failed, of 4 causes; 5 occurrences were missed; 1 mail is uncertain; 1"
        " was skipped; 12 began late."
    ) == judge(figures).text


def test_nothing_fine_is_said_of_what_is_not():
    """
    Nobody leads, so nobody ticks.
    """
    verdict = judge(replace(CALM, is_led=False, unled_since=NOW - MINUTE))

    assert "ticks" not in verdict.text
    assert [("leader", NOW - MINUTE)] == [(e.kind, e.since) for e in verdict.alarms]


def test_alarm_of_a_queue_says_how_much_waits():
    """
    And since when, and that nothing is lost.
    """
    (alarm,) = judge(replace(CALM, queues=[STUCK, FRESH])).alarms

    assert (Queue.QUICK, "No worker takes anything from quick") == (
        alarm.queue,
        alarm.title,
    )
    assert alarm.text.startswith("14 wait, the oldest for 4 min. Nothing is lost")


def test_queue_that_stands_still_comes_before_one_that_is_behind():
    """
    In the headline and in the alarms, whatever the order of the queues.
    """
    slow, stuck = replace(SLOW, queue=Queue.QUICK), replace(STUCK, queue=Queue.HEAVY)
    verdict = judge(replace(CALM, queues=[slow, stuck]))

    assert "On time, but heavy stands still." == verdict.headline
    assert [Queue.HEAVY, Queue.QUICK] == [each.queue for each in verdict.alarms]


def test_new_leader_is_given_time_to_tick():
    """
    The last tick was that of the one before it.
    """
    figures = replace(
        CALM, last_tick_at=NOW - 20 * MINUTE, leads_since=NOW - timedelta(seconds=20)
    )

    assert judge(figures).health is Health.GOOD


def test_unread_part_is_said():
    """
    What is unknown is not called fine.
    """
    verdict = judge(replace(CALM, failed=None, missed=None))

    assert "could not be read" in verdict.text
    assert "nothing failed" not in verdict.text
