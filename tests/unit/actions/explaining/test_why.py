"""There is an answer for every instant, past or future."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from actions.explaining.recorded import RecordedOperation, Revision
from actions.explaining.why import History, Verdict, WhyAnswer, explain
from tests.scheduling import DAY, MINUTE, TASK
from tests.unit.actions.explaining import recording
from tests.unit.actions.explaining.recording import make_range, make_revision

CREATED = datetime(2026, 11, 2, 9, tzinfo=UTC)
MONDAY = datetime(2026, 11, 9, 7, tzinfo=UTC)
MONDAYS = '{"when":[{"cron_rule":"0 7 * * 1","timezone":"UTC"}]}'

FIRST = make_revision(CREATED, MONDAYS)


def make_operation(at: datetime = MONDAY, **changes: Any) -> RecordedOperation:
    """Return the operation of MONDAY, which began two seconds late."""
    started_at = at + timedelta(seconds=2)
    return recording.make_operation(at, **{"started_at": started_at, **changes})


make_history = partial(
    recording.make_history, revisions=(FIRST,), next_due_at=MONDAY + timedelta(days=14)
)


edit = partial(recording.edit, FIRST)


def ask(history: History, at: datetime = MONDAY) -> WhyAnswer:
    """Return the one answer there is."""
    (answer,) = explain(history, at)
    return answer


def test_a_run_is_answered_with_its_operation_and_lag() -> None:
    """What ran is named by its id and its occurrence, and how late it started."""
    answer = ask(make_history(make_operation()))

    expected = (Verdict.RAN, "it succeeded", UUID(int=1), 2.0)
    assert expected == (answer.verdict, answer.text, answer.operation_id, answer.lag_s)
    assert MONDAY == answer.occurrence


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({"state": "failed"}, Verdict.RAN, "it failed"),
        ({"state": "skipped"}, Verdict.SKIPPED, "it was skipped"),
        ({"state": "canceled"}, Verdict.CANCELED, "it was canceled"),
        ({"state": "missed"}, Verdict.MISSED, "it was missed"),
        ({"state": "running"}, Verdict.RUNNING, "now"),
        ({"trigger": "backfill"}, Verdict.RAN, "a backfill recorded it at 2026-11-09"),
        ({"state": "pending"}, Verdict.WAITING, "waits to be sent"),
        ({"state": "queued"}, Verdict.WAITING, "waits for a worker"),
    ],
)
def test_each_state_has_its_answer(
    changes: dict[str, Any], verdict: Verdict, words: str
) -> None:
    """Whatever state an operation is in, the answer says it."""
    answer = ask(make_history(make_operation(**changes)))

    assert verdict == answer.verdict
    assert words in answer.text


def test_an_instant_between_is_not_due_and_names_its_neighbours() -> None:
    """A Tuesday is answered with the Mondays around it."""
    answer = ask(make_history(), MONDAY + timedelta(days=1))

    expected = (Verdict.NOT_DUE, MONDAY, MONDAY + timedelta(days=7))
    assert expected == (answer.verdict, answer.previous, answer.following)


WEEK = 7 * DAY
A_DAY_LATER, SOON = CREATED + DAY, MONDAY + timedelta(seconds=1)
BROKEN = replace(FIRST, timing=MONDAYS.replace("0 7", "61 7"))


def saved(at: datetime) -> Revision:
    """Return the first revision, as if it was saved at this instant."""
    return replace(FIRST, recorded_at=at, effective_from=at)


LONG_AFTER, NEXT = MONDAY + 5 * DAY, MONDAY + WEEK
PAUSED = edit(A_DAY_LATER, "paused")
WHILE_PAUSED = A_DAY_LATER + DAY
CASES = {
    "to come": ((FIRST,), MONDAY + 2 * WEEK, "will run", ""),
    "not decided": ((FIRST,), MONDAY, "unexplained", "audit"),
    "before the post": ((FIRST,), MONDAY - WEEK, "not effective yet", ""),
    # saved at 07:00:01, the occurrence of that minute does not run
    "within the minute of the post": (
        *((saved(SOON),), MONDAY + MINUTE / 2, "not effective yet", ""),
    ),
    **{
        change: ((FIRST, edit(A_DAY_LATER, change)), MONDAY, change, "")
        for change in ("paused", "deleted", "quarantined")
    },
    "off": ((FIRST, edit(A_DAY_LATER, active=False)), MONDAY, "inactive", ""),
    "edited while paused": (
        (FIRST, PAUSED, edit(WHILE_PAUSED, number=3, effective_from=WHILE_PAUSED)),
        *(MONDAY, "paused", f"{A_DAY_LATER:%F %T}Z"),
    ),
    "edited before it was decided": (
        (FIRST, edit(SOON, effective_from=SOON, undecided_from=MONDAY)),
        *(MONDAY, "superseded", "2026-11-09 07:00:01Z (revision 2)"),
    ),
    # a decision that was pruned is not superseded by what came a week later
    "edited long after": (
        (FIRST, edit(LONG_AFTER, effective_from=LONG_AFTER, undecided_from=NEXT)),
        *(MONDAY, "unexplained", ""),
    ),
    "unreadable": ((BROKEN,), MONDAY, "unreadable", "minute 61"),
    "unreadable and in quarantine": (
        (BROKEN, edit(MONDAY, "quarantined", timing=BROKEN.timing)),
        *(MONDAY, "quarantined", "no such zone"),
    ),
}


@pytest.mark.parametrize(
    ("revisions", "at", "verdict", "words"), CASES.values(), ids=CASES
)
def test_what_became_of_the_action_is_the_answer(
    revisions: tuple[Revision, ...], at: datetime, verdict: str, words: str
) -> None:
    """Where no operation is recorded, its revisions say why."""
    answer = ask(make_history(revisions=revisions), at)

    assert verdict == answer.verdict
    assert words in answer.text


@pytest.mark.parametrize("change", ["paused", "deleted", "quarantined"])
def test_what_took_the_action_out_just_after_is_named(change: str) -> None:
    """Due, not decided, and paused: it was paused before anybody looked."""
    out = edit(MONDAY + 20 * MINUTE, change, undecided_from=MONDAY)

    answer = ask(make_history(revisions=(FIRST, out)))

    assert Verdict(change) == answer.verdict
    assert "at 2026-11-09 07:20:00Z" in answer.text
    assert answer.text.endswith("before this occurrence was decided")


def test_ticks_explain_what_no_revision_does() -> None:
    """
    With no tick since, nobody has looked; what was decided before its time ran early;
    what a tick has passed over will not run, even if its record has been pruned; and
    what is due all the same has been left out.
    """
    unseen = ask(replace(make_history(), last_tick_at=MONDAY - MINUTE))
    early = ask(make_history(make_operation(recorded_at=MONDAY - DAY)))
    told = replace(make_history(), next_due_at=MONDAY + 100 * WEEK)
    left = ask(replace(make_history(), next_due_at=MONDAY))

    assert [Verdict.UNDECIDED, Verdict.RAN] == [unseen.verdict, early.verdict]
    assert "decided at 2026-11-08 07:00:00Z by a tick for a later" in early.text
    assert Verdict.MISSED == ask(told, MONDAY + 2 * WEEK).verdict
    assert Verdict.UNDECIDED == left.verdict
    assert "left it out so far: a session may keep the action locked" in left.text


def test_each_user_of_an_event_has_an_answer() -> None:
    """Two users whose events fell in one minute have two answers."""
    event_driven = replace(FIRST, timing=None)
    answers = explain(
        make_history(
            make_operation(user_id="ann"),
            make_operation(number=2, user_id="bob"),
            revisions=(event_driven,),
        ),
        MONDAY,
    )

    assert [UUID(int=1), UUID(int=2)] == [answer.operation_id for answer in answers]


@pytest.mark.parametrize(
    ("operation", "told", "text"),
    [
        (
            make_operation(state="pending"),
            "Waits: nobody leads",
            "it waits: nobody leads",
        ),
        (make_operation(state="failed"), "platform: full", "it failed: platform: full"),
        (make_operation(), "1 mail is uncertain", "it succeeded: 1 mail is uncertain"),
        (make_range(MONDAY - WEEK, MONDAY), "outage: 2", "it was missed: outage: 2"),
    ],
)
def test_what_is_said_of_its_row_is_said_here(
    operation: RecordedOperation, told: str, text: str
) -> None:
    """In the very words that the list of operations has; of a row for several, too."""
    answer = ask(replace(make_history(operation), told={operation.id: told}))

    assert (operation.id, text) == (answer.operation_id, answer.text)


DELETED_AT = MONDAY + timedelta(days=3)
DELETED = edit(DELETED_AT, "deleted")


@pytest.mark.parametrize("minutes", [0, 1, 60 * 24 * 4])
def test_deleted_action_is_never_due_again(minutes: int) -> None:
    """Whatever its rule says of a minute after its end."""
    history = make_history(revisions=(FIRST, DELETED))

    answer = ask(history, DELETED_AT + minutes * MINUTE)

    expected = (Verdict.DELETED, None, None)
    assert expected == (answer.verdict, answer.previous, answer.following)
    assert answer.text.endswith("deleted at 2026-11-12 07:00:00Z")


def test_deletion_to_come_is_told() -> None:
    """Nothing follows where the rule would be due after it."""
    answer = ask(make_history(revisions=(FIRST, DELETED)), MONDAY + MINUTE)

    expected = (Verdict.NOT_DUE, MONDAY, None)
    assert expected == (answer.verdict, answer.previous, answer.following)
    assert answer.text.endswith("the action was deleted at 2026-11-12 07:00:00Z")


MOVED = (
    '{"when":[{"cron_rule":"0 7 * * 0","timezone":"UTC"}],"weekdays":[5,6],'
    '"instead":"%s"}'
)


@pytest.mark.parametrize(
    ("at", "verdict", "day"),
    [
        (MONDAY, Verdict.RAN, "8 November 2026"),
        (MONDAY + 2 * WEEK, Verdict.WILL_RUN, "22 November 2026"),
    ],
)
def test_moved_run_says_from_which_day(
    at: datetime, verdict: Verdict, day: str
) -> None:
    """The operation of Monday stands for the Sunday before it, decided or not."""
    moved = replace(FIRST, timing=MOVED % "after")

    answer = ask(make_history(make_operation(), revisions=(moved,)), at)

    assert verdict == answer.verdict
    assert answer.text.endswith(f"; it was moved from {day} (except)")


@pytest.mark.parametrize(
    ("timing", "became"),
    [
        (MOVED % "before", "is moved to 2026-11-13 07:00:00Z"),
        (MOVED % "after", "is moved to 2026-11-16 07:00:00Z"),
        ((MOVED % "x").replace(',"instead":"x"', ""), "is left out"),
    ],
)
def test_excepted_day_says_what_became_of_its_occurrence(
    timing: str, became: str
) -> None:
    """It was moved to another instant, or left out."""
    history = make_history(revisions=(replace(FIRST, timing=timing),))

    answer = ask(history, MONDAY + 6 * DAY)

    assert answer.verdict is Verdict.NOT_DUE
    expected = f"15 November 2026 is excepted, so its occurrence {became}"
    assert expected == answer.text


@pytest.mark.parametrize(
    ("first", "at", "previous"),
    [
        (FIRST, CREATED + MINUTE, None),
        (FIRST, MONDAY, None),
        (FIRST, MONDAY + MINUTE, MONDAY),
        (FIRST, MONDAY + WEEK, MONDAY),
        # it is in effect from the instant of the post on, that very one included
        (saved(MONDAY), MONDAY + MINUTE, MONDAY),
    ],
)
def test_no_occurrence_before_the_action_existed_is_named(
    first: Revision, at: datetime, previous: datetime | None
) -> None:
    """It was posted on a Monday at nine; that its rule was due at seven is no news."""
    assert previous == ask(make_history(revisions=(first,)), at).previous


PARIS = {"timezone": "Europe/Paris"}
EVENT = {"on": "instance.user.created", **PARIS}


@pytest.mark.parametrize(
    "changes",
    [
        {"timing": MONDAYS.replace("UTC", PARIS["timezone"])},
        {
            "timing": None,
            "document": {"name": "greet", "operations": TASK, "when": EVENT},
        },
    ],
)
def test_instants_are_told_by_the_clock_of_the_action_and_in_utc(
    changes: dict[str, Any],
) -> None:
    """Its people read the one, logs have the other."""
    history = make_history(revisions=(replace(FIRST, **changes),))

    answer = ask(history, CREATED - MINUTE)

    assert answer.text.endswith(" before 2026-11-02 10:00:00 +01:00 (09:00:00Z)")


SECONDS = replace(
    FIRST, timing='{"when":[{"every":"PT5S","anchor":"2026-11-02T09:00Z"}]}'
)


@pytest.mark.parametrize(
    ("seconds", "verdict", "text"),
    [
        (0, Verdict.SKIPPED, "it was skipped"),
        (5, Verdict.SKIPPED, "it was skipped"),
        (10, Verdict.RAN, "it succeeded"),
        (12, Verdict.NOT_DUE, "the rule is not due in this second"),
        (15, Verdict.UNEXPLAINED, "no decision is recorded"),
    ],
)
def test_rule_below_a_minute_is_asked_about_the_second(
    seconds: int, verdict: Verdict, text: str
) -> None:
    """One answer for the second, and none for each of the minute."""
    at = MONDAY + timedelta(seconds=10)
    overtaken = make_range(
        *(MONDAY, MONDAY + timedelta(seconds=5)),
        state="skipped",
        reason="overtaken",
        recorded_at=at,
    )
    history = make_history(overtaken, make_operation(at), revisions=(SECONDS,))

    answer = ask(history, MONDAY + timedelta(seconds=seconds))

    assert verdict == answer.verdict
    assert text in answer.text
