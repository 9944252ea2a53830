"""The steps of an operation over time, as geometry."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from web.operations.fetch_account import StepAttempt
from web.operations.gantt import Gantt, draw_gantt

SIX = datetime(2026, 10, 20, 6, tzinfo=UTC)
LEFT, RIGHT = 176, 1100


def after(seconds: float) -> datetime:
    """Return the instant so long after SIX."""
    return SIX + timedelta(seconds=seconds)


def make(
    step: str,
    begin: float | None,
    end: float | None,
    *,
    attempt: int = 1,
    state: str = "succeeded",
) -> StepAttempt:
    """Return an attempt at a step, in seconds after SIX."""
    return StepAttempt(
        step,
        attempt,
        state,
        None if begin is None else after(begin),
        None if end is None else after(end),
        None,
    )


def draw(*stretches: StepAttempt, started: float = 1) -> Gantt:
    """Return the drawing, a day after SIX."""
    return draw_gantt(
        stretches, due_at=SIX, started_at=after(started), now=after(86_400)
    )


def test_steps_follow_each_other():
    """Each in its lane, in proportion to what it took, from left to right."""
    drawn = draw(make("refresh", 1, 31), make("publish", 31, 41))
    _wait, refresh, publish = drawn.bars

    assert ["until it started", "refresh", "publish"] == [x.name for x in drawn.lanes]
    assert refresh.x + refresh.width <= publish.x + 0.2
    assert 2.5 < refresh.width / publish.width < 3.5
    assert publish.x + publish.width <= RIGHT + 0.2
    assert not drawn.brackets
    assert not drawn.pauses


def test_attempts_have_brackets_and_the_wait_between_them_is_told():
    """A step that is tried again has one lane."""
    drawn = draw(
        make("refresh", 1, 41, state="failed"), make("refresh", 71, 171, attempt=2)
    )

    assert [1, 2] == [each.number for each in drawn.brackets]
    assert 2 == len(drawn.lanes)
    assert ["waits 30 s"] == [each.label for each in drawn.pauses]
    assert ["bad", "ok"] == [each.kind for each in drawn.bars[1:]]


def test_retry_days_later_leaves_the_runs_to_be_seen():
    """The wait is drawn short, and says how long it was."""
    drawn = draw(
        make("refresh", 1, 41, state="failed"),
        make("refresh", 3 * 86_400, 3 * 86_400 + 40, attempt=2),
    )
    (pause,) = drawn.pauses

    assert pause.is_short
    assert "waits 2 d 23 h" == pause.label
    assert all(each.width > 300 for each in drawn.bars[1:])


def test_what_runs_is_open_and_what_has_not_begun_says_so():
    """A bar ends at now, and a lane without a bar has a word."""
    drawn = draw(
        make("refresh", 1, None, state="running"),
        make("publish", None, None, attempt=0, state="pending"),
    )

    assert "now" == drawn.bars[1].kind
    assert ["", "", "to come"] == [each.note for each in drawn.lanes]


def test_attempts_that_are_not_known_are_not_made_up():
    """Those whose worker was lost left nothing but their number."""
    drawn = draw(make("refresh", 120, 500, attempt=3), started=1)

    assert [] == [each for each in drawn.pauses if each.label.startswith("waits")]
    assert any("not known" in each.label for each in drawn.pauses)


@given(
    lengths=st.lists(
        st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), min_size=1, max_size=30
    )
)
def test_nothing_leaves_the_drawing(lengths: list[tuple[float, float]]):
    """However long or short the runs and waits, bars and ticks stay within it."""
    at, stretches = 1.0, []
    for number, (wait, took) in enumerate(lengths, start=1):
        begin = at + wait
        at = begin + took
        stretches.append(make("s", begin, at, attempt=number, state="failed"))
    drawn = draw(*stretches)

    assert all(LEFT - 0.1 <= each.x <= RIGHT + 0.1 for each in drawn.bars)
    assert all(each.x + each.width <= RIGHT + 4.2 for each in drawn.bars)
    assert all(LEFT - 0.1 <= each.x <= RIGHT + 0.1 for each in drawn.ticks)
    assert 40 > len(drawn.ticks)
