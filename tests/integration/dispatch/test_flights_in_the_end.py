"""Whether chunks fly or are waited for: it comes to the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from actions.tick import run_tick
from dispatch.foresee import NoFlights
from dispatch.outbox import SILENCE_S
from dispatch.upkeep import do_all
from models.database.engine import make_engine
from models.database.journal import GENESIS
from models.database.tables import change_head, metadata
from operations.sending.order import Message
from tests.database import EMPTYING, write_by
from tests.flying import NOW
from tests.scheduling import (
    BROKER_DOWN,
    MINUTELY,
    FakeSender,
    add_app,
    copy_action,
    edit_action,
    fetch_all,
    make_dispatcher,
    post_at,
)


@dataclass
class Ticking:
    """A monotonic clock on which a second passes each time that it is read."""

    now: float = 0.0

    def __call__(self) -> float:
        """Return the seconds."""
        self.now += 1
        return self.now


@dataclass
class Shaky(FakeSender):
    """A broker that fails as told, and then works."""

    failures: tuple[bool, ...] = ()

    def send(self, messages: Sequence[Message]) -> None:
        """Take *messages*, or fail."""
        failing = self.failures[self.attempts : self.attempts + 1] == (True,)
        self.error = BROKER_DOWN if failing else None
        super().send(messages)


_ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["app", "other"]),
        st.sampled_from(["allow", "skip", "queue"]),
        st.sampled_from(["quick", "heavy"]),
        st.integers(min_value=0, max_value=3),  # minutes since it was due first
    ),
    min_size=1,
    max_size=9,
    # Of two heavy ones of an app one waits, and nobody says which.
    unique_by=lambda each: each[0] if each[2] == "heavy" else object(),
)


@cache
def make_tables() -> sa.Engine:
    """Make a database in memory, once for all examples."""
    engine = make_engine("sqlite://")
    write_by(engine, metadata.create_all)
    return engine


def fill(actions: Sequence[tuple[str, str, str, int]]) -> sa.Engine:
    """Give it these actions alone."""
    engine = make_tables()
    with engine.begin() as connection:
        for each in EMPTYING:
            connection.exec_driver_sql(each)
        head = {"id": 1, "number": 0, "hash": GENESIS}
        connection.execute(sa.insert(change_head).values(head))
    for app in ("app", "other"):
        add_app(engine, app)
    first = post_at(engine, NOW, when=MINUTELY)
    edit_action(engine, first, next_due_at=None)
    uids = copy_action(engine, first, len(actions))
    for uid, (app, overlap, queue, minutes) in zip(uids, actions, strict=True):
        due_at = NOW - timedelta(minutes=minutes)
        row = {"app": app, "overlap": overlap, "queue": queue, "next_due_at": due_at}
        edit_action(engine, uid, **row)
    return engine


def tick_all(
    engine: sa.Engine, failures: tuple[bool, ...], chunk: int, *, flies: bool
) -> tuple[object, ...]:
    """Tick with a broker that fails, and let it work; return what came of it."""
    sender, clock = Shaky(failures=failures), Ticking()
    real = make_dispatcher(engine, sender, monotonic=clock)
    report = run_tick(
        NOW,
        engine=engine,
        dispatcher=real if flies else NoFlights(real.dispatch, real.quarantine),
        chunk=chunk,
    )
    sender.failures = ()
    clock.now += SILENCE_S
    do_all(real.send_waiting)
    rows = {row.id: (row.state, row.reason, row.sends) for row in fetch_all(engine)}
    taken = set(sender.ids)
    assert len(taken) == len(sender.ids)
    return report.due, report.recorded, rows, taken


@settings(max_examples=20)
@given(
    actions=_ACTIONS,
    failures=st.lists(st.booleans(), max_size=6).map(tuple),
    chunk=st.integers(min_value=1, max_value=5),
)
def test_flying_changes_nothing_in_the_end(
    actions: list[tuple[str, str, str, int]], failures: tuple[bool, ...], chunk: int
) -> None:
    """The same operations in the same states, and the same messages, once each."""
    flown = tick_all(fill(actions), failures, chunk, flies=True)
    waited = tick_all(fill(actions), failures, chunk, flies=False)

    assert waited == flown
