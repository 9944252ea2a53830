"""A scheduler from its start to its stop, and clocks that jump."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, time
from itertools import pairwise
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

import scheduler_server
from actions.lease import Leader, get_last_tick_at
from actions.own_actions import MAINTENANCE_UID
from dispatch.upkeep import RESCUE_EVERY_S
from models.database.engine import make_engine
from models.database.tables import leases
from models.errors import ConflictError, UnreachableError, UsageError
from models.operation_state import Queue
from operations.rescue import LOST_AFTER
from operations.sending.order import Message
from scheduler_server import PAUSE_S, run, serve, tell_systemd
from settings import Settings
from tests.database import execute, read_by
from tests.integration.test_scheduler_server import wake_to_send
from tests.scheduling import (
    MINUTE,
    MINUTELY,
    SECOND,
    Clock,
    FakeSender,
    add_app,
    add_revision,
    backdate,
    edit,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_operation,
    make_scheduler,
    make_settings,
    post,
    record_all,
)


class MovableClock:
    """The host's clock, and with it SQLite's, which stands still until it is set."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def __call__(self) -> datetime:
        """Return what it shows."""
        return self.now


@pytest.fixture
def movable(sqlite_url: str) -> Iterator[tuple[sa.Engine, MovableClock]]:
    """Give a database whose clock can be set, and the clock."""
    clock = MovableClock()
    engine = make_engine(sqlite_url, clock=clock)
    yield engine, clock
    engine.dispose()


def test_clock_that_is_set_back_keeps_ticking(movable: tuple[sa.Engine, MovableClock]):
    """The hour that comes again is looked at again, and nothing in it runs twice."""
    engine, clock = movable
    add_app(engine)
    uid = post(engine, when=MINUTELY).uid
    scheduler = make_scheduler(engine)
    backdate(engine, uid, 4)
    scheduler.wake()
    decided = {row.id for row in fetch_all(engine)}
    assert len(decided) >= 5
    assert PAUSE_S >= scheduler.wake()

    clock.now -= 3 * MINUTE
    scheduler.wake()

    now = get_now(engine)
    assert now < fetch_action(engine, uid).next_due_at <= now + MINUTE
    last_tick_at = read_by(engine, get_last_tick_at)
    assert last_tick_at is not None
    assert last_tick_at <= now
    for _ in range(5):
        clock.now += MINUTE
        keep_lease(engine)
        scheduler.wake()
    ids = [row.id for row in fetch_all(engine)]
    assert decided < set(ids)
    assert len(ids) == len(set(ids))
    occurrences = [row.occurrence for row in fetch_all(engine)]
    gaps = {b - a for a, b in pairwise(occurrences)}
    assert {MINUTE} == gaps


def keep_lease(engine: sa.Engine) -> None:
    """Let the lease hold at any time of the clock."""
    execute(engine, sa.update(leases).values(expires_at=get_now(engine) + 60 * MINUTE))


def test_rescue_sends_what_was_lost(engine: sa.Engine):
    """Lost messages and lost workers come back without anybody's help."""
    add_revision(engine)
    lost, dead = make_operation(1), make_operation(2)
    record_all(engine, lost, dead)
    sender, clock = FakeSender(empty={Queue.QUICK}), Clock()
    scheduler = make_scheduler(engine, sender, clock)
    wake_to_send(scheduler)
    now = get_now(engine)
    edit(engine, lost.id, sent_at=now - LOST_AFTER)
    edit(
        engine,
        dead.id,
        state="running",
        attempt=1,
        claim_token=uuid4(),
        lease_expires_at=now - SECOND,
    )
    clock.now += RESCUE_EVERY_S

    scheduler.wake()
    assert ("pending", "worker lost") == (
        get(engine, dead.id).state,
        get(engine, dead.id).reason,
    )
    edit(engine, dead.id, send_at=now)
    scheduler.wake()

    assert [2, 2] == [sender.ids.count(each.id) for each in (lost, dead)]
    assert ["queued"] * 2 == [get(engine, each.id).state for each in (lost, dead)]


def test_run_leads_until_stopped_and_releases(engine: sa.Engine):
    """The maintenance action is there; afterwards a standby leads at once."""
    stop = threading.Event()

    class StoppingSender(FakeSender):
        def send(self, messages: Sequence[Message]) -> None:
            super().send(messages)
            stop.set()

    record_all(engine, make_operation())

    run(make_scheduler(engine, StoppingSender()), stop)

    assert "Minutehand" not in fetch_action(engine, MAINTENANCE_UID).name
    assert Leader(engine).hold()


def test_run_that_will_not_wait_names_the_holder(engine: sa.Engine):
    """``--no-wait`` ends with a conflict, and leaves the lease alone."""
    holder = Leader(engine)
    holder.hold()

    with pytest.raises(ConflictError, match="pid"):
        run(make_scheduler(engine), threading.Event(), wait_for_lease=False)

    assert 1 == holder.fence
    assert not Leader(engine).hold()


class Wakings:
    """A stop that a test waits for in steps: *at* the nth pause something happens."""

    def __init__(self, *steps: Callable[[], object]) -> None:
        """Stop after the last of *steps*."""
        self._steps = list(steps)

    def is_set(self) -> bool:
        """Tell whether all steps are done."""
        return not self._steps

    def wait(self, timeout: float) -> bool:
        """Do the next step instead of pausing."""
        del timeout
        self._steps.pop(0)()
        return not self._steps


def test_standby_says_whom_it_stands_by_for(engine: sa.Engine):
    """Once, however often it looks, and again when somebody else has taken over."""
    first, second = Leader(engine), Leader(engine)
    first.hold()

    def take_over() -> None:
        first.release()
        second.hold()

    def nothing() -> None:
        """Look once more."""

    stop: Any = Wakings(nothing, nothing, take_over, nothing, nothing)
    with capture_logs() as lines:
        run(make_scheduler(engine), stop)

    told = [line for line in lines if line["event"] == "standing_by"]
    assert [1, 2] == [line["fence"] for line in told]
    assert {os.getpid()} == {line["pid"] for line in told}


def lead_once(engine: sa.Engine, **settings: object) -> None:
    """Run a scheduler with *settings* until it has led for a moment."""
    stop = threading.Event()
    scheduler = make_scheduler(engine, FakeSender())
    scheduler.settings = scheduler.settings.model_copy(update=settings)
    scheduler.on_tick.append(lambda _report: stop.set())
    run(scheduler, stop)


def test_maintenance_keeps_its_zone_until_its_hour_is_another(engine: sa.Engine):
    """
    That of who made it, whoever leads; an operator who sets the hour gets it, with the
    zone it is set in.
    """
    for zone in ("Europe/Paris", "UTC", "Europe/Paris"):
        lead_once(engine, timezone=zone)

    action = fetch_action(engine, MAINTENANCE_UID)
    assert 1 == action.revision
    assert "Europe/Paris" == action.document["when"]["timezone"]
    lead_once(engine, timezone="UTC", maintenance_at=time(3))

    when = fetch_action(engine, MAINTENANCE_UID).document["when"]
    assert ("0 3 * * *", "UTC") == (when["cron_rule"], when["timezone"])


def test_standby_leaves_maintenance_alone(engine: sa.Engine):
    """Whatever it was told, it does not lead."""
    lead_once(engine)
    assert Leader(engine).hold()
    stop = threading.Event()
    standby = make_scheduler(engine)
    standby.settings = standby.settings.model_copy(update={"maintenance_at": time(3)})

    with pytest.raises(ConflictError):
        run(standby, stop, wait_for_lease=False)

    assert 1 == fetch_action(engine, MAINTENANCE_UID).revision
    assert not standby.keep_maintenance()


def test_systemd_hears_that_it_lives_and_stops(
    engine: sa.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What hangs says nothing, and the watchdog starts it again."""
    place = tmp_path / "notify"
    scheduler = make_scheduler(engine)
    stop = threading.Event()
    scheduler.on_tick.append(lambda _report: stop.set())
    monkeypatch.setenv("NOTIFY_SOCKET", str(place))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(place))
        run(scheduler, stop)
        said = [systemd.recv(100), systemd.recv(100)]

    assert [b"WATCHDOG=1", b"STOPPING=1"] == said


def test_systemd_that_is_away_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A socket that is gone is a line in the log."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))

    with capture_logs() as logs:
        tell_systemd("WATCHDOG=1")

    assert ["systemd_unreachable"] == [each["event"] for each in logs]


@pytest.fixture
def unheard() -> Iterator[list[int]]:
    """Give the signals that reach this process and no scheduler; let none end it."""
    numbers: list[int] = []
    kinds = (signal.SIGTERM, signal.SIGINT)
    former = [signal.signal(each, lambda n, _: numbers.append(n)) for each in kinds]
    yield numbers
    for kind, handler in zip(kinds, former, strict=True):
        signal.signal(kind, handler)


def test_stop_is_heard_before_it_can_start(
    unheard: list[int], monkeypatch: pytest.MonkeyPatch
):
    """A broker that hangs as it is looked at keeps no signal from a scheduler."""
    tries = iter([UnreachableError("the database is away")])

    def prepare(_settings: Settings) -> None:
        signal.raise_signal(signal.SIGTERM)

    def make(_settings: Settings) -> NoReturn:
        raise next(tries, AssertionError("it goes on"))

    monkeypatch.setattr(scheduler_server, "prepare_scheduler", prepare)
    monkeypatch.setattr(scheduler_server, "_try_to_make", make)

    serve(make_settings(BROKER_URL="redis://127.0.0.1:1/0"), wait_for_lease=True)

    assert [] == unheard


@pytest.mark.usefixtures("unheard")
def test_who_will_not_wait_hears_that_the_database_is_away():
    """Neither a leader nor a database is waited for."""
    away = make_settings(
        BROKER_URL="redis://127.0.0.1:1/0", DATABASE_URL="postgresql://127.0.0.1:1/away"
    )

    with pytest.raises(UnreachableError):
        serve(away, wait_for_lease=False)


def test_refused_broker_in_memory_leaves_signals_alone(unheard: list[int]):
    """The command line refuses it in a process that goes on."""
    with pytest.raises(UsageError, match=r"_URL: memory://.*redis://host:6379/0"):
        serve(make_settings(), wait_for_lease=True)

    signal.raise_signal(signal.SIGTERM)
    assert [signal.SIGTERM] == unheard
