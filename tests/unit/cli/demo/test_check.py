"""What the check at the end of the demo believes, and what it does not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.demo.check import check, find_minutes
from cli.demo.data import EVERY_MINUTE, WEEKLY_UPDATE
from models.operation_state import OperationState, StepState, Trigger
from overview.operations.shown import ShownOperation, ShownStep
from tests.shown import make_shown_operation

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
) -> ShownOperation:
    return make_shown_operation(
        action_uid=uid,
        trigger=Trigger(trigger),
        occurrence=occurrence,
        state=OperationState(state),
        steps=(
            ShownStep("send_execsum", StepState.SUCCEEDED, result={"sent": 1}),
            ShownStep("refresh", StepState.SUCCEEDED),
        ),
    )


MANUAL = _make(START, uid=WEEKLY_UPDATE, trigger="manual")
EVENT = _make(FIRST, uid="bring-back", trigger="event")
GOOD = [MANUAL, EVENT, _make(FIRST), _make(SECOND)]


@pytest.mark.parametrize(
    ("operations", "mails", "holds"),
    [
        (GOOD, 4, [True] * 6),
        ([*GOOD, _make(THIRD, state="running")], 5, [True] * 6),
        (GOOD[:3], 3, [True, False, False, True, True, True]),
        ([*GOOD, _make(SECOND)], 5, [True, False, False, True, True, True]),
        (
            [*GOOD[:3], _make(SECOND, state="failed")],
            4,
            [True, True, False, True, True, True],
        ),
        ([*GOOD[1:]], 3, [True, True, True, False, True, True]),
        (GOOD, 3, [True, True, True, True, True, False]),
    ],
    ids=["good", "later", "lost", "doubled", "failed", "no-run", "mail-lost"],
)
def test_each_claim_holds_or_not(
    operations: list[ShownOperation], mails: int, holds: list[bool]
):
    """
    A lost, doubled or failed minute, or a mail too few, is found.
    """
    findings = check(operations, start=START, end=END, mails=mails)

    assert holds == [finding.holds for finding in findings]


def test_one_minute_is_not_enough():
    """
    A demo that saw one tick proves nothing.
    """
    findings = check(GOOD[:3], start=START, end=FIRST, mails=3)

    assert not findings[0].holds


def test_minute_of_the_start_itself_counts():
    """
    Both ends belong to the period.
    """
    assert [FIRST, SECOND] == find_minutes(FIRST, SECOND)


def test_no_minute_passes_within_one():
    """
    Between two minutes there is none.
    """
    assert [] == find_minutes(START, START + timedelta(seconds=30))
