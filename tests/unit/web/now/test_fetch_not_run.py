"""What held up an operation is the longest of its waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from web.now.fetch_not_run import explain_delay

DUE = datetime(2026, 10, 20, 2, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("recorded", "sent", "started", "text"),
    [
        (180, 181, 182, "no scheduler ticked when it was due; it was recorded 3 min"),
        (1, 181, 182, "it was recorded in time, and sent 3 min later: another run"),
        (1, 2, 182, "it was sent in time, and no worker took it for 3 min"),
        (2, None, 182, "it waited 3 min for its turn or for a worker"),
        # sent again after its start
        (2, 900, 182, "it waited 3 min for its turn or for a worker"),
    ],
)
def test_longest_wait_is_told(recorded: int, sent: int | None, started: int, text: str):
    """In seconds after it was due."""
    at = [
        None if each is None else DUE + timedelta(seconds=each)
        for each in (recorded, sent, started)
    ]
    assert at[0] is not None
    assert at[2] is not None
    _key, found = explain_delay(DUE, at[0], at[1], at[2])

    assert found.startswith(text)
