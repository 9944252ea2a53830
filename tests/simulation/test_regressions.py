"""What the simulation found, each as a test of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa

from actions.lease import Leader, LeadershipLostError
from actions.tick import Dispatched, run_tick
from dispatch.dispatcher import Dispatcher
from dispatch.foresee import NoFlights
from models.database.engine import make_engine
from models.database.journal import GENESIS
from models.database.tables import change_head, metadata
from models.decision import Decision
from tests.scheduling import (
    MONDAY,
    FakeSender,
    Hooked,
    add_app,
    fetch_action,
    make_outbox,
    post_at,
    tick,
)

MINUTE = timedelta(minutes=1)


class Clock:
    """A clock that stands until it is moved, for the database and for trust."""

    def __init__(self) -> None:
        """Show seven o'clock."""
        self.now = MONDAY + timedelta(hours=7)

    def read(self) -> datetime:
        """Return the database's time."""
        return self.now

    def monotonic(self) -> float:
        """Return seconds."""
        return self.now.timestamp()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def engine(clock: Clock) -> Iterator[sa.Engine]:
    """Give a database that reads *clock*."""
    engine = make_engine("sqlite://", clock=clock.read)
    with engine.begin() as connection:
        metadata.create_all(connection)
        # which the migration makes, and nobody can change anything without
        head = {"id": 1, "number": 0, "hash": GENESIS}
        connection.execute(sa.insert(change_head).values(head))
    yield engine
    engine.dispose()


def make_scheduler(
    engine: sa.Engine, clock: Clock, sender: FakeSender | None = None
) -> Dispatcher:
    """Return the writing half of one of several schedulers."""
    leader = Leader(engine, monotonic=clock.monotonic)
    sender = sender or FakeSender()
    outbox = make_outbox(engine, sender, monotonic=clock.monotonic)
    return Dispatcher(engine, leader, outbox)


def test_decisions_do_not_outlive_the_leadership_they_were_made_under(
    engine: sa.Engine, clock: Clock
) -> None:
    """
    A leader that froze between reading and recording, and leads again when it wakes,
    throws away what it had decided: another may have decided more meanwhile.
    """
    add_app(engine)
    uid = post_at(engine, clock.now, when={"cron_rule": "* * * * *"})
    frozen, other = make_scheduler(engine, clock), make_scheduler(engine, clock)
    assert frozen.leader.hold()

    def freeze_first(decisions: Sequence[Decision]) -> Dispatched:
        clock.now += 10 * MINUTE
        assert other.leader.hold()
        tick(other, clock.now)
        other.leader.release()
        return frozen.dispatch(decisions)

    freezing = NoFlights(freeze_first, frozen.quarantine)
    with pytest.raises(LeadershipLostError):
        run_tick(clock.now, engine=engine, dispatcher=freezing)

    assert clock.now + MINUTE == fetch_action(engine, uid).next_due_at


def test_flights_do_not_outlive_the_leadership_they_were_made_under(
    engine: sa.Engine, clock: Clock
) -> None:
    """
    The same between two chunks: neither are its decisions launched, nor does it send
    what landed before it froze, then or when it leads again.
    """
    add_app(engine)
    rule = {"cron_rule": "* * * * *"}
    uids = [post_at(engine, clock.now, name=str(n), when=rule) for n in range(3)]
    sender = FakeSender()
    frozen = make_scheduler(engine, clock, sender)
    other = make_scheduler(engine, clock)
    assert frozen.leader.hold()
    freezing = Hooked(frozen)

    def freeze() -> None:
        """Let another one lead before the second launch."""
        if freezing.launches == 1:
            clock.now += 10 * MINUTE
            assert other.leader.hold()
            tick(other, clock.now)
            other.leader.release()

    freezing.before_launch = freeze

    with pytest.raises(LeadershipLostError):
        run_tick(clock.now, engine=engine, dispatcher=freezing, chunk=1)

    assert 1 == len(sender.ids)
    assert {clock.now + MINUTE} == {
        fetch_action(engine, uid).next_due_at for uid in uids
    }
    assert frozen.leader.hold()
    run_tick(clock.now, engine=engine, dispatcher=frozen)
    assert 1 == len(sender.ids)
