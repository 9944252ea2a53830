"""One leader: taken by one, kept by heartbeats, lost by time, fenced for ever."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from actions.lease import (
    Leader,
    LeadershipLostError,
    expire_lease,
    fetch_leaderships,
    fetch_lookback,
    get_holder,
    get_last_tick_at,
    record_tick,
)
from actions.tick import Dispatched, run_tick
from dispatch.dispatcher import Dispatcher
from dispatch.foresee import NoFlights
from dispatch.upkeep import do_all
from models.database.engine import make_engine, writing
from models.database.tables import leases
from models.decision import Decision
from models.errors import UnreachableError
from models.occurrence import LONGEST_LOOKBACK, LOOKBACK
from tests.database import execute, fetch_rows, race, read_by, write_by
from tests.flying import expire
from tests.integration.clocked import World
from tests.scheduling import (
    MINUTE,
    MINUTELY,
    MONDAY,
    SECOND,
    Clock,
    FakeSender,
    Hooked,
    add_app,
    at,
    fetch_action,
    fetch_all,
    get_now,
    make_operation,
    make_outbox,
    post_at,
    record_all,
    tick,
)


def edit_lease(engine: sa.Engine, **values: object) -> None:
    execute(engine, sa.update(leases).values(**values))


def get_lease(engine: sa.Engine) -> sa.Row[tuple[object, ...]]:
    return fetch_rows(engine, sa.select(leases)).one()


def contend(engine: sa.Engine) -> list[int]:
    """Let ten contend at once; return the fences of those who lead."""
    contenders = [Leader(engine) for _ in range(10)]
    race(10, lambda number: contenders[number].hold())
    return [each.fence for each in contenders if each.fence is not None]


def test_ten_contenders_twenty_rounds_one_leader(postgres_engine: sa.Engine):
    for number in range(1, 21):
        assert [number] == contend(postgres_engine)
        expire(postgres_engine)


def test_lease_whose_taker_never_heard_so_is_taken_again(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
):
    """At once, under another fence: nobody else may take it for a minute."""
    leader, dialect = Leader(engine), engine.dialect
    commit = dialect.do_commit

    def lose_answer(connection: Any) -> None:
        commit(connection)
        raise dialect.loaded_dbapi.OperationalError("server closed the connection")

    with monkeypatch.context() as patch:
        patch.setattr(dialect, "do_commit", lose_answer)
        with pytest.raises(UnreachableError):
            leader.hold()
    assert leader.fence is None

    assert leader.hold()
    assert not Leader(engine).hold()
    assert 2 == leader.fence
    with writing(engine) as connection:
        assert 2 == leader.check(connection)


def test_lease_is_taken_over_only_when_it_ran_out(engine: sa.Engine):
    first, second = Leader(engine), Leader(engine)
    assert first.hold()
    assert not second.hold()
    edit_lease(engine, expires_at=get_now(engine) + 30 * SECOND)
    assert not second.hold()
    expire(engine)

    assert second.hold()

    assert (1, 2) == (first.fence, second.fence)
    assert get_holder(engine).is_stale is False  # type: ignore[union-attr]  # somebody holds it


def test_lease_from_the_future_holds_nobody_up(engine: sa.Engine):
    """
    A leader that died before the clock was set back by hours is replaced at once; one
    from before a small correction is waited for, for it may live.
    """
    first, second = Leader(engine), Leader(engine)
    first.hold()
    then = get_now(engine) + timedelta(seconds=50)
    edit_lease(engine, heartbeat_at=then, expires_at=then + timedelta(minutes=1))
    assert not second.hold()
    then = get_now(engine) + timedelta(hours=3)
    edit_lease(engine, heartbeat_at=then, expires_at=then + timedelta(minutes=1))

    assert second.hold()

    assert (1, 2) == (first.fence, second.fence)


def test_tokens_tell_processes_apart_and_pids_do_not(engine: sa.Engine):
    """Two containers are both pid 1."""
    first, second = Leader(engine), Leader(engine)
    first.hold()
    expire(engine)
    second.hold()
    lease = get_lease(engine)

    first.release()

    assert lease == get_lease(engine)
    assert os.getpid() == lease.pid


def test_release_lets_the_standby_in_at_once(engine: sa.Engine):
    """A clean stop does not cost a minute."""
    first, second = Leader(engine), Leader(engine)
    first.hold()
    assert not second.hold()

    first.release()

    assert get_holder(engine) is None
    assert first.fence is None
    assert second.hold()
    first.release()
    assert 2 == second.fence
    assert second.hold()


def test_heartbeat_extends_the_lease(engine: sa.Engine):
    clock = Clock()
    leader = Leader(engine, monotonic=clock)
    leader.hold()
    lease = get_lease(engine)
    clock.now += 9
    leader.hold()
    assert lease == get_lease(engine)
    clock.now += 1

    assert leader.hold()

    renewed = get_lease(engine)
    assert renewed.heartbeat_at > lease.heartbeat_at
    assert renewed.expires_at > lease.expires_at
    assert (1, lease.acquired_at) == (renewed.fence, renewed.acquired_at)


def test_leader_stops_trusting_its_lease_before_it_ends(engine: sa.Engine):
    """A process that was frozen knows so itself, before it asks the database."""
    clock = Clock()
    leader = Leader(engine, monotonic=clock)
    leader.hold()
    clock.now += 59

    with pytest.raises(LeadershipLostError), writing(engine) as connection:
        leader.check(connection)
    assert leader.fence is None
    # its own lease holds for another second, for all others
    assert not Leader(engine).hold()
    assert leader.hold()
    assert 2 == leader.fence


def test_renewal_fails_once_somebody_else_leads(engine: sa.Engine):
    clock = Clock()
    first, second = Leader(engine, monotonic=clock), Leader(engine)
    first.hold()
    expire(engine)
    second.hold()
    clock.now += 11

    assert not first.hold()
    assert 2 == get_lease(engine).fence


def test_expired_lease_is_not_renewed(engine: sa.Engine):
    """Late is lost, even if nobody came: the fence tells the two leaderships apart."""
    clock = Clock()
    leader = Leader(engine, monotonic=clock)
    leader.hold()
    expire(engine)
    clock.now += 11

    assert not leader.hold()
    assert leader.hold()
    assert 2 == leader.fence


def test_paused_leader_writes_nothing(engine: sa.Engine):
    """Frozen between look and transaction, while another took over."""
    add_app(engine)
    uid = post_at(engine, at("07:00"), when={"cron_rule": "* * * * *"})
    record_all(engine, make_operation(1))
    paused, other = Leader(engine), Leader(engine)
    paused.hold()
    sender = FakeSender()
    dispatcher = Dispatcher(engine, paused, make_outbox(engine, sender))

    def take_over() -> None:
        expire(engine)
        assert other.hold()

    before = fetch_all(engine)
    with pytest.raises(LeadershipLostError):
        tick(dispatcher, at("07:02"), meanwhile=take_over)

    assert at("07:00") == fetch_action(engine, uid).next_due_at
    assert before == fetch_all(engine)
    assert [] == sender.batches


@pytest.mark.parametrize("call", [Dispatcher.send_waiting, Dispatcher.rescue])
def test_leader_that_has_not_noticed_sends_nothing(
    engine: sa.Engine, call: Callable[[Dispatcher], object]
):
    """It still trusts its lease; the fence knows better."""
    record_all(engine, make_operation(1))
    paused, other = Leader(engine), Leader(engine)
    assert paused.hold()
    sender = FakeSender()
    expire(engine)
    assert other.hold()
    assert paused.fence is not None

    with pytest.raises(LeadershipLostError):
        call(Dispatcher(engine, paused, make_outbox(engine, sender)))

    assert [] == sender.batches


def test_leader_that_is_overtaken_while_it_sends_marks_nothing(engine: sa.Engine):
    """What it sent is sent again by the next leader, under the same id."""
    made = make_operation()
    record_all(engine, made)
    paused, other = Leader(engine), Leader(engine)
    paused.hold()

    class SlowSender(FakeSender):
        def send(self, messages: object) -> None:
            super().send(messages)  # type: ignore[arg-type]  # passed on
            expire(engine)
            assert other.hold()

    slow, sender = SlowSender(), FakeSender()
    with pytest.raises(LeadershipLostError):
        do_all(Dispatcher(engine, paused, make_outbox(engine, slow)).send_waiting)
    assert ["pending"] == [row.state for row in fetch_all(engine)]

    do_all(Dispatcher(engine, other, make_outbox(engine, sender)).send_waiting)

    assert [made.id] == slow.ids == sender.ids
    assert ["queued"] == [row.state for row in fetch_all(engine)]


def test_take_over_waits_for_the_leaders_transaction(postgres_engine: sa.Engine):
    first, second = Leader(postgres_engine), Leader(postgres_engine)
    first.hold()
    order: list[str] = []
    with writing(postgres_engine) as connection:
        first.check(connection)
        # the lease of a frozen leader ends while its transaction is open
        thread = threading.Thread(
            target=lambda: order.append("taken") if second.hold() else None
        )
        make_due(connection)
        thread.start()
        thread.join(0.3)
        order.append("committed")
    thread.join()

    assert ["committed", "taken"] == order


def make_due(connection: sa.Connection) -> None:
    connection.execute(
        sa.update(leases).values(
            expires_at=sa.func.statement_timestamp() - sa.text("interval '1 second'")
        )
    )


def test_frozen_transaction_frees_the_lease(postgres_url: str):
    # Long enough for a machine that stands still between two statements.
    frozen = make_engine(postgres_url, timeout=timedelta(seconds=4))
    other = make_engine(postgres_url, timeout=timedelta(minutes=1))
    first, second = Leader(other), Leader(other)
    first.hold()

    def freeze() -> None:
        with writing(frozen) as connection:
            first.check(connection)
            expire(other)  # waits for the leader's lock, until the server frees it
            assert second.hold()
            connection.execute(sa.select(1))

    with pytest.raises(UnreachableError):
        freeze()
    assert 2 == second.fence
    frozen.dispose()
    other.dispose()


def test_last_tick_is_kept(engine: sa.Engine):
    """Across leaders: the clock must not be earlier than this."""
    leader = Leader(engine)
    leader.release()
    assert get_holder(engine) is None
    assert read_by(engine, get_last_tick_at) is None
    assert LOOKBACK == read_by(engine, fetch_lookback, LOOKBACK, now=MONDAY)
    leader.hold()
    write_by(engine, record_tick, MONDAY)
    leader.release()
    Leader(engine).hold()

    assert MONDAY == read_by(engine, get_last_tick_at)
    holder = get_holder(engine)
    assert holder is not None
    assert (MONDAY, os.getpid(), 2, False) == (
        holder.last_tick_at,
        holder.pid,
        holder.fence,
        holder.is_stale,
    )


def fetch_past(engine: sa.Engine) -> list[tuple[int, bool]]:
    """Return the fence of each leadership, the latest first, and whether it ended."""
    past = read_by(engine, fetch_leaderships, limit=10)
    assert all(each.hostname and each.pid and each.acquired_at for each in past)
    return [(each.fence, each.released_at is not None) for each in past]


def test_who_led_when_is_kept(engine: sa.Engine):
    first, second, third = (Leader(engine) for _ in range(3))
    assert first.hold()
    first.release()
    assert second.hold()
    write_by(engine, expire_lease)
    assert third.hold()

    assert [(3, False), (2, False), (1, True)] == fetch_past(engine)


def test_lease_that_was_deleted_can_be_taken_again(engine: sa.Engine):
    """The first fence comes again, and the row of who had it then gives way."""
    first = Leader(engine)
    assert first.hold()
    first.release()
    execute(engine, sa.delete(leases))

    assert Leader(engine).hold()
    assert [(1, False)] == fetch_past(engine)


def test_who_could_not_commit_does_not_lead(engine: sa.Engine):
    """Else it ended, as it stopped, the leadership of who got the number after it."""
    first, second = Leader(engine), Leader(engine)

    def fail(_connection: sa.Connection) -> None:
        raise sa.exc.OperationalError("COMMIT", None, Exception("gone"))

    sa.event.listen(engine, "commit", fail)
    with pytest.raises(UnreachableError):
        first.hold()
    sa.event.remove(engine, "commit", fail)
    assert first.fence is None
    assert second.hold()
    first.release()

    assert [(1, False)] == fetch_past(engine)


SINCE = MONDAY - 20 * MINUTE
WEEK = timedelta(weeks=1)


@pytest.mark.parametrize(
    ("former", "since", "expected"),
    [
        (MONDAY - MINUTE, SINCE, 20 * MINUTE),
        (MONDAY - LOOKBACK - MINUTE, SINCE, 20 * MINUTE),
        (MONDAY - LOOKBACK - 2 * MINUTE, SINCE, LOOKBACK),  # nobody led
        (MONDAY - MINUTE, MONDAY - 9 * WEEK, LONGEST_LOOKBACK),
        (MONDAY + MINUTE, SINCE, LOOKBACK),  # the clock was set back
        (MONDAY - MINUTE, MONDAY - MINUTE, LOOKBACK),
        (MONDAY - MINUTE, None, LOOKBACK),
    ],
)
def test_nothing_is_of_an_outage_while_ticks_follow_each_other(
    engine: sa.Engine, former: datetime, since: datetime | None, expected: timedelta
):
    """So whatever is undecided since then runs, even if the former tick was cut."""
    Leader(engine).hold()
    write_by(engine, record_tick, former, since=since, is_cut=True)

    assert expected == read_by(engine, fetch_lookback, LOOKBACK, now=MONDAY)
    assert read_by(engine, get_last_tick_at) is None


def make_standby(
    engine: sa.Engine, world: World, sender: FakeSender | None = None
) -> Dispatcher:
    """Return what a scheduler that does not lead yet would write by."""
    outbox = make_outbox(engine, sender or FakeSender(), monotonic=world)
    return Dispatcher(engine, Leader(engine, monotonic=world), outbox)


def lead_meanwhile(other: Dispatcher, world: World) -> None:
    """Let *other* lead, tick and stop, ten minutes later."""
    world.now += 600
    assert other.leader.hold()
    tick(other, world.read())
    other.leader.release()


@pytest.fixture
def standing(world_engine: sa.Engine, world: World) -> sa.Engine:
    """Give a database with a small app, whose clock goes on when it is told to."""
    world.statement_s = 0
    add_app(world_engine)
    return world_engine


def test_decisions_do_not_outlive_the_leadership_they_were_made_under(
    standing: sa.Engine, world: World
):
    """
    A leader that froze between reading and recording, and leads again when it wakes,
    throws away what it had decided: another may have decided more meanwhile.
    """
    uid = post_at(standing, world.read(), when=MINUTELY)
    frozen, other = make_standby(standing, world), make_standby(standing, world)
    assert frozen.leader.hold()

    def freeze_first(decisions: Sequence[Decision]) -> Dispatched:
        lead_meanwhile(other, world)
        return frozen.dispatch(decisions)

    freezing = NoFlights(freeze_first, frozen.quarantine)
    with pytest.raises(LeadershipLostError):
        run_tick(world.read(), engine=standing, dispatcher=freezing)

    assert world.read() + MINUTE == fetch_action(standing, uid).next_due_at


def test_flights_do_not_outlive_the_leadership_they_were_made_under(
    standing: sa.Engine, world: World
):
    """
    The same between two chunks: neither are its decisions launched, nor does it send
    what landed before it froze, then or when it leads again.
    """
    uids = [
        post_at(standing, world.read(), name=str(n), when=MINUTELY) for n in range(3)
    ]
    sender = FakeSender()
    frozen, other = make_standby(standing, world, sender), make_standby(standing, world)
    assert frozen.leader.hold()
    freezing = Hooked(frozen)

    def freeze() -> None:
        """Let another one lead before the second launch."""
        if freezing.launches == 1:
            lead_meanwhile(other, world)

    freezing.before_launch = freeze

    with pytest.raises(LeadershipLostError):
        run_tick(world.read(), engine=standing, dispatcher=freezing, chunk=1)

    assert 1 == len(sender.ids)
    assert {world.read() + MINUTE} == {
        fetch_action(standing, uid).next_due_at for uid in uids
    }
    assert frozen.leader.hold()
    run_tick(world.read(), engine=standing, dispatcher=frozen)
    assert 1 == len(sender.ids)
