"""What has happened between two looks."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from actions.lease import Leader, expire_lease, record_tick
from overview.live_events import LiveEvent, Sight, fetch_live_events
from tests.database import read_by, write_by
from tests.integration.test_budget import counting
from tests.scheduling import DAY, at, edit, get_now, make_operation, put, record_all

DAILY = make_operation()


class Watcher:
    """Somebody who looks again and again."""

    def __init__(self, engine: sa.Engine, most: int = 1000) -> None:
        self.engine = engine
        self.most = most
        self.sight: Sight | None = None
        self.look()

    def look(self) -> list[LiveEvent]:
        """Return what has happened since the last look."""
        found, self.sight = read_by(
            self.engine, fetch_live_events, self.sight, most=self.most
        )
        return found

    def tell(self) -> list[tuple[str, Any]]:
        """Return kind and what matters here of what has happened."""
        return [
            (each.kind.value, each.data.get("state") or each.data.get("progress"))
            for each in self.look()
        ]


@pytest.fixture
def watcher(engine: sa.Engine) -> Watcher:
    return Watcher(engine)


def record_lately(engine: sa.Engine, **values: Any) -> None:
    put(engine, recorded_at=get_now(engine), **values)


def test_first_look_tells_nothing(engine: sa.Engine):
    """What there was before is not what happens."""
    record_lately(engine)

    assert [] == Watcher(engine).look()


def test_life_of_an_operation_is_told(engine: sa.Engine, watcher: Watcher):
    """Each state and each progress once, and nothing where nothing happens."""
    record_lately(engine)
    told = [watcher.tell(), watcher.tell()]
    edit(engine, DAILY.id, state="running", attempt=1)
    told.append(watcher.tell())
    edit(engine, DAILY.id, progress={"step": "refresh", "done": 1, "total": 2})
    told += [watcher.tell(), watcher.tell()]
    edit(engine, DAILY.id, state="succeeded")
    told += [watcher.tell(), watcher.tell()]

    assert [
        [("operation.state", "pending")],
        [],
        [("operation.state", "running")],
        [("operation.progress", {"step": "refresh", "done": 1, "total": 2})],
        [],
        [("operation.state", "succeeded")],
        [],
    ] == told


def test_what_was_done_between_two_looks_is_told(engine: sa.Engine, watcher: Watcher):
    """An operation that was recorded and is final already, once."""
    record_lately(engine, state="skipped", reason="overlap")

    (found,) = watcher.look()
    assert ("operation.state", "skipped") == (found.kind, found.data["state"])
    # Whoever hands it on asks whose it is.
    assert DAILY.app == found.app == found.data["app"]
    assert [] == watcher.tell()


def test_retry_is_told(engine: sa.Engine, watcher: Watcher):
    """However old the operation is, it is live again."""
    put(engine, state="failed", recorded_at=at("07:00") - 9 * DAY)
    assert [] == watcher.tell()
    edit(engine, DAILY.id, state="pending")

    assert [("operation.state", "pending")] == watcher.tell()


def test_new_attempt_is_told(engine: sa.Engine, watcher: Watcher):
    """Another worker took it over between two looks: the state is the same."""
    record_lately(engine, state="running", attempt=1)
    watcher.look()
    edit(engine, DAILY.id, attempt=2)

    assert [("operation.state", "running")] == watcher.tell()


def test_ticks_and_leaders_are_told(engine: sa.Engine, watcher: Watcher):
    """To everybody, and without the names of hosts."""
    leader = Leader(engine)
    leader.hold()
    first = watcher.look()
    write_by(engine, record_tick, at("07:00"))
    second = watcher.look()
    write_by(engine, expire_lease)
    third = watcher.look()

    assert [
        [("leader", None, {"is_led": True, "fence": 1})],
        [("tick", None, {"at": at("07:00")})],
        [("leader", None, {"is_led": False, "fence": None})],
    ] == [
        [(each.kind.value, each.app, each.data) for each in found]
        for found in (first, second, third)
    ]


def test_too_many_are_counted(engine: sa.Engine):
    """Those of each app; when they are few again, each is told."""
    watcher = Watcher(engine, most=2)
    made = [make_operation(number) for number in range(4)]
    record_all(engine, *made)
    many = watcher.look()
    same = watcher.look()
    for each in made[:2]:
        edit(engine, each.id, state="succeeded")
    few = watcher.tell()

    assert [("operations.changed", {"app": DAILY.app, "live": {"pending": 4}})] == [
        (each.kind.value, each.data) for each in many
    ]
    assert [] == same
    assert [("operations.changed", None)] == few[:1]
    assert [("operation.state", "pending")] * 2 == [
        each for each in few if each[1] == "pending"
    ]


def test_a_look_costs_one_statement(engine: sa.Engine, watcher: Watcher):
    """Whatever there is to see."""
    record_lately(engine, state="running")
    with counting(engine) as counts:
        watcher.look()

    # SQLite's BEGIN is one of ours
    assert counts.statements - (engine.dialect.name == "sqlite") == 1
