"""What is late, by what its action expects, and when that is looked at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.expectations import (
    Expectation,
    Judgement,
    RunTimes,
    expect_at,
    judge,
    read_expectation,
)

#: In the night in which the clocks of Paris go back, at 01:00Z.
DUE = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)

MINUTE = timedelta(minutes=1)
WITHIN = "not ended within 1 h of its time"
TAKES = "took more than 10 min"
BOTH = Expectation(within=60 * MINUTE, takes=10 * MINUTE)


def make_run(
    state: str = "running",
    *,
    started: float | None = 0,
    ended: float | None = None,
    trigger: str = "schedule",
) -> RunTimes:
    """Return a run by the minutes since it was due."""
    started_at, ended_at = (
        None if each is None else DUE + each * MINUTE for each in (started, ended)
    )
    return RunTimes(trigger, state, DUE, started_at, ended_at)


@pytest.mark.parametrize(
    ("run", "now", "expected"),
    [
        (make_run(), 9, Judgement(look_at=DUE + 10 * MINUTE)),
        (make_run(), 10, Judgement(late=TAKES)),
        (make_run(started=55), 60, Judgement(late=WITHIN)),
        (make_run(started=45), 90, Judgement(late=TAKES)),
        (make_run("pending", started=None), 20, Judgement(look_at=DUE + 30 * MINUTE)),
        (make_run("queued", started=None), 55, Judgement(look_at=DUE + 60 * MINUTE)),
        (make_run("queued", started=None), 60, Judgement(late=WITHIN)),
        (make_run("succeeded", ended=10), 90, Judgement()),
        (make_run("succeeded", ended=11), 90, Judgement(late=TAKES)),
        (make_run("failed", started=55, ended=61), 90, Judgement(late=WITHIN)),
        # by hand: nobody waits for it, but it may take too long
        (make_run("pending", started=None, trigger="manual"), 90, None),
        (make_run(trigger="backfill"), 90, Judgement(late=TAKES)),
        (make_run(trigger="event"), 5, Judgement(look_at=DUE + 10 * MINUTE)),
        (make_run(trigger="action"), 5, Judgement(look_at=DUE + 10 * MINUTE)),
        *(
            (make_run(state, ended=99), 99, Judgement())
            for state in ("skipped", "missed", "canceled")
        ),
    ],
)
def test_runs_are_judged(run: RunTimes, now: int, expected: Judgement | None):
    """By time that passes, whatever the clocks show that night."""
    at = DUE + now * MINUTE

    assert (expected or Judgement(look_at=at + 10 * MINUTE)) == judge(BOTH, run, now=at)


@pytest.mark.parametrize(
    ("document", "seconds"),
    [
        ({}, None),
        ({"expect": None}, None),
        ({"expect": {"within": "PT30M", "takes": None}}, 1800),
        ({"expect": {"within": "PT30M", "takes": "PT10M"}}, 600),
        ({"expect": {"within": "PT30M", "takes": "P1D"}}, 1800),
        ({"expect": {"within": "PT30M", "of_next_year": "PT1M"}}, 1800),
    ],
)
def test_first_look_is_at_the_first_bound(document: dict[str, object], seconds: float):
    """Before, there is nothing to see; what a newer version says ends no leader."""
    assert seconds == read_expectation(document).first_look_s


SPANS = st.integers(1, 7200).map(lambda n: timedelta(seconds=n))


@given(
    expected=st.builds(Expectation, within=SPANS, takes=SPANS | st.none())
    | st.builds(Expectation, takes=SPANS),
    waits=SPANS,
    took=SPANS,
    slips=st.lists(SPANS, min_size=1),
)
def test_each_run_is_judged_once_and_truly(
    expected: Expectation, waits: timedelta, took: timedelta, slips: list[timedelta]
):
    """
    However long the leader's looks take, a run is late once if it is, else never.

    The last look is after the end of the run, and there are few.
    """
    started_at, ended_at = DUE + waits, DUE + waits + took
    look_at = expect_at(DUE, expected.first_look_s)
    found = []
    looks = 0
    while look_at is not None:
        now = look_at + slips[looks % len(slips)]
        state = "running" if now < ended_at else "succeeded"
        run = RunTimes(
            "schedule",
            state if now >= started_at else "queued",
            DUE,
            started_at if now >= started_at else None,
            ended_at if now >= ended_at else None,
        )
        judged = judge(expected, run, now=now)
        assert judged.late is None or judged.look_at is None
        assert judged.look_at is None or judged.look_at > now
        found += [judged.late] if judged.late else []
        look_at = judged.look_at
        looks += 1

    is_late = (expected.within is not None and ended_at > DUE + expected.within) or (
        expected.takes is not None and took > expected.takes
    )
    assert len(found) == is_late
    assert looks <= 3 + waits / timedelta(seconds=10)
