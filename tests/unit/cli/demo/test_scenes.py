"""What the demo says of the worker that it kills."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from cli.demo.scenes import KilledWorker
from models.operation_state import OperationState
from tests.shown import make_shown_operation

KILLED_AT = datetime(2026, 11, 23, 6, 0, 5, tzinfo=UTC)


@pytest.mark.parametrize(
    ("state", "attempt", "said"),
    [
        ("running", 1, "Nobody renews its claim"),
        ("pending", 1, "its claim ran out, and another attempt is next"),
        ("queued", 1, "its claim ran out, and another attempt is next"),
        ("running", 2, "another one runs attempt 2"),
        ("succeeded", 2, "attempt 2 succeeded at 06:00:30Z"),
    ],
)
def test_row_tells_what_became_of_the_report(state: str, attempt: int, said: str):
    """From the kill to the success, the demo says what the row says."""
    worker = KilledWorker(_begun_at=KILLED_AT, killed_at=KILLED_AT)
    shown = make_shown_operation(
        state=OperationState(state),
        attempt=attempt,
        finished_at=KILLED_AT + timedelta(seconds=25),
    )

    told = worker.describe(shown)

    assert "was killed (SIGKILL) at 06:00:05Z" in told
    assert said in told


def test_nothing_is_promised_that_did_not_begin():
    """If another worker was faster, nobody is killed."""
    worker = KilledWorker()

    worker.look(KILLED_AT)

    assert worker.killed_at is None
    assert "will be killed" in worker.describe(None)
