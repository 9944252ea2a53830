"""Ticks whose chunks fly, and what can happen to them meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import sqlalchemy as sa

from actions.tick import TickReport, run_tick
from dispatch.dispatcher import Dispatcher
from models.database.tables import leases
from tests.database import execute
from tests.scheduling import (
    FakeSender,
    Hooked,
    at,
    copy_action,
    edit_action,
    fetch_all,
    get_now,
    post_at,
)

NOW = at("07:00")
DAILY = {"cron_rule": "0 7 * * *"}


def make_due(
    engine: sa.Engine, count: int, *, when: object = DAILY, **values: object
) -> list[str]:
    """Make actions that are due at NOW, with *values* in their rows."""
    first = post_at(engine, NOW, when=when)
    edit_action(engine, first, **{"next_due_at": NOW, **values})
    return [first, *(copy_action(engine, first, count - 1) if count > 1 else ())]


def once(act: Callable[[], object]) -> Callable[[], None]:
    """Return what does *act* the first time that it is called."""
    todo = [act]

    def do() -> None:
        if todo:
            todo.pop()()

    return do


def fly(
    dispatcher: Dispatcher | Hooked, engine: sa.Engine, *, chunk: int = 2
) -> TickReport:
    """Tick at NOW in chunks, all but the first of which fly."""
    return run_tick(NOW, engine=engine, dispatcher=dispatcher, chunk=chunk)


def assert_all_sent_once(engine: sa.Engine, sender: FakeSender, count: int) -> None:
    """Check that there are *count* operations, each sent and marked once."""
    rows = fetch_all(engine)
    assert count == len(rows)
    assert sorted(row.id for row in rows) == sorted(sender.ids)
    assert {("queued", 1)} == {(row.state, row.sends) for row in rows}
    now = get_now(engine)
    assert all(row.recorded_at <= row.sent_at <= now for row in rows)


def expire(engine: sa.Engine) -> None:
    """Let the lease run out, as if a minute without heartbeat had passed."""
    execute(
        engine,
        sa.update(leases).values(expires_at=get_now(engine) - timedelta(seconds=1)),
    )
