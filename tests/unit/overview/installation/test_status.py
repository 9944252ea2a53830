"""How what is not final is grouped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from models.operation_state import OperationState, Queue
from overview.installation.figures import Backlog
from overview.installation.paused import Paused
from overview.installation.status import Status

SIX = datetime(2026, 11, 23, 6, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def make_status(*backlog: Backlog) -> Status:
    """Return how an installation is of which nothing but its backlog is known."""
    return Status(
        now=SIX,
        app=None,
        findings=(),
        leader=None,
        last_tick_at=None,
        send_failure=None,
        backlog=backlog,
        troubles=(),
        uncertain=0,
        processes=(),
        leaderships=(),
        paused=Paused(None, {}, 0, {}),
        quarantined=(),
        next_due=(),
    )


def make_backlog(
    app: str, state: OperationState, count: int, waiting_since: datetime | None
) -> Backlog:
    """Return what waits on the quick queue."""
    return Backlog(Queue.QUICK, app, state, count, waiting_since)


def test_apps_that_wait_longest_come_first():
    """
    What does not wait, for it runs, comes last.
    """
    status = make_status(
        make_backlog("busy", OperationState.RUNNING, 1, None),
        make_backlog("new", OperationState.PENDING, 1, SIX - MINUTE),
        make_backlog("old", OperationState.PENDING, 2, SIX - 3 * MINUTE),
        make_backlog("old", OperationState.QUEUED, 3, SIX - 2 * MINUTE),
    )

    old, new, busy = status.group_by_app()

    assert ["old", "new", "busy"] == [old.app, new.app, busy.app]
    assert SIX - 3 * MINUTE == old.since
    assert [2, 3, 0] == list(old.counts.values())


def test_queues_without_work_are_there():
    """
    A zero says that somebody looked.
    """
    found = make_status().group_by_queue()

    assert list(Queue) == [each.queue for each in found]
    assert {0} == {count for each in found for count in each.counts.values()}
