"""How it is, in one sentence, follows from the findings and the figures of a day."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from models.operation_state import Queue
from overview.doctor.finding import Finding, Health
from web.now.verdict import DayCounts, judge

NOON = datetime(2026, 10, 20, 12, tzinfo=UTC)

WELL = Finding("tick", Health.GOOD, "the last one was 3 s ago")
UNLED = Finding("leader", Health.BAD, "start one", "no scheduler leads", NOON)
DYING = Finding("leader", Health.DOUBTFUL, "b takes over", "the leader is dead", NOON)
FULL = Finding("space", Health.BAD, "12 B free", "the workspace is full")
STUCK = Finding(
    "queue quick", Health.BAD, "14 wait", "no worker takes quick", NOON, Queue.QUICK
)
BEHIND = Finding("queue heavy", Health.DOUBTFUL, "2 wait", "heavy is behind", NOON)
PAUSED = Finding("pause", Health.DOUBTFUL, "everything", "everything is paused", NOON)
AWAY = Finding("broker", Health.BAD, "start it", "the broker does not answer")
SLOW = Finding("lag", Health.DOUBTFUL, "5 of 100", "operations begin late")
SILENT = Finding("worker", Health.DOUBTFUL, "celery@a", "a worker is silent")
UNTITLED = Finding("tzdata", Health.DOUBTFUL, "it moves hello")
FAILED = DayCounts(failed=55, causes=4, missed=5)


@pytest.mark.parametrize(
    ("findings", "day", "health", "headline"),
    [
        ([], DayCounts(), "ok", "On time, and nothing went wrong since yesterday."),
        ([], DayCounts(skipped=3, late=2), "ok", "On time, and nothing went wrong"),
        ([], FAILED, "look", "On time, but 55 runs failed, of 4 causes."),
        (
            [],
            DayCounts(failed=1, causes=1),
            "look",
            "On time, but 1 run failed, of 1 cause.",
        ),
        ([], DayCounts(missed=1), "look", "On time, but 1 occurrence was missed."),
        ([], DayCounts(uncertain=2), "look", "On time, but 2 mails are uncertain."),
        ([], None, "look", "On time, but what went wrong cannot be read."),
        ([SILENT], DayCounts(), "look", "On time, but a worker is silent."),
        ([UNTITLED], DayCounts(), "look", "On time, but tzdata needs a look."),
        ([SILENT], FAILED, "look", "On time, but 55 runs failed"),
        ([SLOW], FAILED, "look", "Ticking, but operations begin late."),
        ([PAUSED], DayCounts(), "look", "Everything is paused."),
        ([BEHIND], DayCounts(), "look", "Ticking, but heavy is behind."),
        ([DYING], DayCounts(), "look", "The leader is dead."),
        ([FULL], DayCounts(), "bad", "Ticking, but the workspace is full."),
        ([FULL, STUCK], FAILED, "bad", "Ticking, but the workspace is full."),
        ([FULL, STUCK, UNLED], FAILED, "bad", "No scheduler leads."),
    ],
)
def test_headline_names_the_gravest(
    findings: list[Finding], day: DayCounts | None, health: str, headline: str
):
    """One thing, so that somebody who was woken knows where to begin."""
    verdict = judge([WELL, *findings], day)

    assert health == verdict.health
    assert verdict.headline.startswith(headline)


def test_nothing_is_called_recorded_while_all_rests():
    """The sentence below the headline does not contradict it."""
    assert "records everything" in judge([WELL], FAILED).text
    assert "records" not in judge([WELL, PAUSED], FAILED).text


def test_whatever_is_bad_is_an_alarm():
    """The scheduler first; of what only needs a look, what concerns every run."""
    verdict = judge([SILENT, BEHIND, FULL, STUCK, WELL, UNLED], DayCounts())

    assert [UNLED, FULL, STUCK, BEHIND] == verdict.alarms
    assert [SILENT] == verdict.doubts


def test_worker_that_its_broker_keeps_silent_is_no_alarm():
    """Or people would start one where the broker is what must be started."""
    verdict = judge([AWAY, STUCK, SILENT], DayCounts())

    assert ([AWAY], [SILENT, STUCK]) == (verdict.alarms, verdict.doubts)


def test_text_has_all_figures():
    """The gravest first, and that the rest works."""
    day = DayCounts(failed=55, causes=4, missed=5, skipped=1, uncertain=1, late=12)

    assert (
        "The scheduler ticks and records everything. Since yesterday at this time 55"
        " runs failed, of 4 causes; 5 occurrences were missed; 1 mail is uncertain; 1"
        " was skipped; 12 began late."
    ) == judge([WELL], day).text


def test_nothing_fine_is_said_of_what_is_not():
    """Nobody leads, so nobody ticks; and what is unknown is not called fine."""
    unread = judge([WELL], None).text

    assert "ticks" not in judge([UNLED], DayCounts()).text
    assert "could not be read" in unread
    assert "nothing failed" not in unread


def test_new_installation_has_nothing_scheduled():
    """Nothing is due, and that is well."""
    verdict = judge([WELL], DayCounts(), has_actions=False)

    assert ("ok", "Ticking. Nothing is scheduled yet.") == (
        verdict.health,
        verdict.headline,
    )
    assert verdict.text.endswith("Nothing is due, for nobody has posted an action yet.")
