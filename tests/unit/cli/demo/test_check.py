"""What the check at the end of the demo believes, and what it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.demo.check import check, find_minutes
from cli.demo.data import APP, EVERY_MINUTE, MISSED, REPORT
from models.operation_state import OperationState, StepState, Trigger
from overview.operations import ShownOperation
from tests.shown import make_shown_operation, make_shown_step

START = datetime(2026, 11, 23, 6, 0, 10, tzinfo=UTC)
END = datetime(2026, 11, 23, 6, 2, tzinfo=UTC)
FIRST = datetime(2026, 11, 23, 6, 1, tzinfo=UTC)
SECOND = datetime(2026, 11, 23, 6, 2, tzinfo=UTC)
THIRD = datetime(2026, 11, 23, 6, 3, tzinfo=UTC)


def _make(
    occurrence: datetime,
    *,
    uid: str = EVERY_MINUTE,
    trigger: str = "schedule",
    state: str = "succeeded",
    attempt: int = 1,
    sent: int = 1,
    app: str = APP,
) -> ShownOperation:
    return make_shown_operation(
        app=app,
        action_uid=uid,
        trigger=Trigger(trigger),
        occurrence=occurrence,
        state=OperationState(state),
        attempt=attempt,
        steps=(
            make_shown_step("send_execsum", StepState.SUCCEEDED, result={"sent": sent}),
            make_shown_step("refresh", StepState.SUCCEEDED),
        ),
    )


MANUAL = _make(START, uid="weekly-update", trigger="manual")
EVENT = _make(FIRST, uid="bring-back", trigger="event")
KILLED = _make(START, uid=REPORT, trigger="manual", attempt=2, sent=0)
OUTAGE = _make(START, uid=MISSED, state="missed", sent=0)
YOURS = _make(START, uid="yours", trigger="manual", state="canceled", app="yours")
SCENES = [KILLED, OUTAGE]
GOOD = [*SCENES, MANUAL, EVENT, _make(FIRST), _make(SECOND)]


@pytest.mark.parametrize(
    ("operations", "mails", "broken"),
    [
        (GOOD, 4, set()),
        ([*GOOD, YOURS], 5, set()),
        ([*GOOD, _make(THIRD, state="running")], 5, set()),
        (GOOD[:-1], 3, {1, 2}),
        ([*GOOD, _make(SECOND)], 5, {1, 2}),
        ([*GOOD[:-1], _make(SECOND, state="failed")], 4, {2}),
        ([e for e in GOOD if e is not MANUAL], 3, {3}),
        ([e for e in GOOD if e is not KILLED], 4, {5}),
        ([*GOOD[1:], _make(START, uid=REPORT, trigger="manual", sent=0)], 4, {5}),
        ([e for e in GOOD if e is not OUTAGE], 4, {6}),
        (GOOD, 3, {7}),
    ],
    ids=[
        *("good", "yours", "later", "lost", "doubled", "failed", "no-run"),
        *("no-report", "not-killed", "not-missed", "mail-lost"),
    ],
)
def test_each_claim_holds_or_not(
    operations: list[ShownOperation], mails: int, broken: set[int]
):
    findings = check(operations, start=START, end=END, mails=mails)

    assert broken == {n for n, finding in enumerate(findings) if not finding.holds}


def test_one_minute_is_not_enough():
    """A demo that saw one tick proves nothing."""
    findings = check(GOOD[:-1], start=START, end=FIRST, mails=3)

    assert not findings[0].holds


def test_both_ends_belong_to_the_period():
    """Between two minutes there is none."""
    assert [FIRST, SECOND] == find_minutes(FIRST, SECOND)
    assert [] == find_minutes(START, START + timedelta(seconds=30))
