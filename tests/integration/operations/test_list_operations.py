"""Lists of operations in parts, and counts that stay cheap."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import sqlalchemy as sa

from models.operation_state import OperationState, Queue, Reason, Trigger
from models.paging import Page
from operations.list_operations import BOUNDS, Bounds, fetch_latest, fetch_operations
from operations.operation_filter import OperationFilter
from tests.database import read_by, turn_pages
from tests.scheduling import add_revision, edit, get, make_operation, record_all

COUNT = 7
ALL = [make_operation(number) for number in range(COUNT)]
NUMBERS = {each.id: number for number, each in enumerate(ALL)}
EVEN_NUMBERS = set(range(0, COUNT, 2))
EVEN = {ALL[number].id for number in EVEN_NUMBERS}


@pytest.fixture
def seven(engine: sa.Engine) -> sa.Engine:
    """Give a database with seven operations, of which the even ones failed."""
    add_revision(engine)
    for each in ALL:
        record_all(engine, each)
    for operation_id in EVEN:
        edit(
            engine,
            operation_id,
            state="failed",
            reason="step failed: refresh",
            error="The disk is 100%_full",
        )
    return engine


def read(engine: sa.Engine, page: Page | None = None, **wanted: Any) -> list[int]:
    """Return the numbers of one part of the list."""
    part = read_by(engine, fetch_operations, OperationFilter(**wanted), page)
    return [NUMBERS[row.id] for row in part.entries]


def find_parts(
    engine: sa.Engine, limit: int, bounds: Bounds = BOUNDS, **wanted: Any
) -> list[list[int]]:
    """Return the numbers of each part of the list."""
    asked = OperationFilter(**wanted)
    parts = turn_pages(
        lambda page: read_by(engine, fetch_operations, asked, page, bounds=bounds),
        limit,
    )
    return [[NUMBERS[row.id] for row in part] for part in parts]


FAILED = frozenset({OperationState.FAILED})
BOTH = frozenset({OperationState.FAILED, OperationState.PENDING})


MATCHES: list[tuple[dict[str, Any], list[int]]] = [
    ({"states": FAILED}, [6, 4, 2, 0]),
    ({"states": frozenset({OperationState.PENDING})}, [5, 3, 1]),
    ({"states": BOTH}, [6, 5, 4, 3, 2, 1, 0]),
    ({"states": frozenset({OperationState.CANCELED})}, []),
    ({"queue": Queue.HEAVY}, []),
    ({"trigger": Trigger.SCHEDULE, "states": FAILED}, [6, 4, 2, 0]),
    ({"trigger": Trigger.MANUAL}, []),
    ({"reason": Reason.STEP_FAILED}, [6, 4, 2, 0]),
    ({"reason": Reason.OUTAGE}, []),
    ({"text": "disk is"}, [6, 4, 2, 0]),
    ({"text": "DISK"}, [6, 4, 2, 0]),
    ({"text": "100%_f"}, [6, 4, 2, 0]),
    ({"text": "1%f"}, []),
    ({"text": 'action "daily'}, [6, 5, 4, 3, 2, 1, 0]),
    ({"text": str(ALL[3].id).upper()}, [3]),
    ({"text": str(ALL[3].id), "app": "other"}, []),
    ({"action_uid": "daily", "states": FAILED}, [6, 4, 2, 0]),
    ({"action_uid": "weekly"}, []),
    ({"app": "app", "until": ALL[2].occurrence}, [1, 0]),
    ({"since": ALL[5].occurrence}, [6, 5]),
    ({"app": "other"}, []),
]


def test_list_has_what_matches(seven: sa.Engine):
    """Whichever way it is read, the latest comes first."""
    for wanted, expected in MATCHES:
        assert expected == read(seven, **wanted), wanted


def test_list_is_bounded_by_when_it_was_recorded(seven: sa.Engine):
    """From inclusive, until exclusive."""
    three, five = (get(seven, ALL[number].id).recorded_at for number in (3, 5))

    assert [4, 3] == read(seven, recorded_since=three, recorded_until=five)


#: How long after they were due operations were recorded; the order of the list.
RECORDED = {
    0: timedelta(),
    1: timedelta(days=400),
    2: timedelta(seconds=5),
    3: timedelta(hours=1),
    4: timedelta(hours=1, microseconds=1),
    5: timedelta(days=-400),
    6: timedelta(days=2),
}
IN_ORDER = [1, 6, 4, 3, 2, 0, 5]


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"app": "app"},
        {"trigger": Trigger.SCHEDULE},
        {"action_uid": "daily"},
        {"states": FAILED},
    ],
)
def test_period_has_what_was_due_in_it(seven: sa.Engine, wanted: dict[str, Any]):
    """Whenever that was recorded, and still the latest recorded first."""
    for number, after in RECORDED.items():
        each = ALL[number]
        edit(seven, each.id, recorded_at=each.occurrence + after)
    bounds = Bounds(looked_at=3, looked_at_of_app=3)
    for since, until in ((None, None), (1, 6), (0, 3), (2, None)):
        given = {"since": since, "until": until}
        period = {k: ALL[n].occurrence for k, n in given.items() if n is not None}
        due = set(range(since or 0, COUNT if until is None else until))
        due &= EVEN_NUMBERS if "states" in wanted else due
        for limit in (2, 50):
            parts = find_parts(seven, limit, bounds, **wanted, **period)

            found = [number for part in parts for number in part]
            assert [n for n in IN_ORDER if n in due] == found, (given, limit)


def test_period_ends_where_sqlite_rounds(seven: sa.Engine):
    """Whole seconds tell it what was recorded an hour later; it rounds up."""
    due = ALL[3].occurrence + timedelta(microseconds=999_600)
    recorded_at = due + timedelta(hours=1, microseconds=200)
    edit(seven, ALL[3].id, occurrence=due, recorded_at=recorded_at)

    assert [3] == read(seven, since=due, until=due + timedelta(microseconds=100))


def test_sqlite_finds_a_period_by_indexes(sqlite_engine: sa.Engine):
    """As PostgreSQL does: a partial index needs its condition word for word."""
    plan: list[str] = []

    def explain(*args: Any) -> None:
        _connection, cursor, statement, parameters, _context, _many = args
        if "recorded_at" in statement:
            cursor.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plan.extend(row[-1] for row in cursor.fetchall())

    wanted = OperationFilter(since=ALL[1].occurrence, until=ALL[2].occurrence)
    sa.event.listen(sqlite_engine, "before_cursor_execute", explain)
    read_by(sqlite_engine, fetch_latest, wanted, limit=50)

    assert any("ix_operations_recorded_apart" in each for each in plan), plan
    assert [] == [each for each in plan if "SCAN operations" in each]


@pytest.mark.parametrize(
    "wanted", [{}, {"app": "app"}, {"trigger": Trigger.SCHEDULE}, {"states": BOTH}]
)
def test_parts_make_the_whole(seven: sa.Engine, wanted: dict[str, Any]):
    """Each operation is in one part, in order, also where a part is exactly full."""
    for limit in (1, 2, 3, COUNT, 50):
        parts = find_parts(seven, limit, **wanted)

        assert [6, 5, 4, 3, 2, 1, 0] == [number for part in parts for number in part]


def test_parts_of_what_was_recorded_at_one_instant(engine: sa.Engine):
    """Their occurrences order them."""
    record_all(engine, *ALL)

    assert [[6, 5], [4, 3], [2, 1], [0]] == find_parts(engine, 2)


def test_part_ends_where_enough_was_looked_at(seven: sa.Engine):
    """It may be empty, and says where to go on; nothing is left out."""
    bounds = Bounds(looked_at=2, looked_at_of_app=3)

    parts = find_parts(seven, 5, bounds, text="disk")

    assert [[6], [4], [2], [0]] == parts
    parts = find_parts(seven, 5, bounds, text="disk", app="app")
    assert [[6, 4], [2], [0]] == parts
    wanted = OperationFilter(text="disk", until=ALL[3].occurrence)
    rows = read_by(seven, fetch_latest, wanted, limit=5)
    assert [2, 0] == [NUMBERS[row.id] for row in rows]


def test_what_is_frequent_is_looked_for_in_order(seven: sa.Engine):
    """Beyond a number, reading all that an index finds would cost too much."""
    bounds = Bounds(looked_at=4, looked_at_of_app=4, sorted_at_once=2)
    pending = frozenset({OperationState.PENDING})

    assert [[5, 3], [1]] == find_parts(seven, 5, bounds, states=pending)
    assert [[5, 3], [1]] == find_parts(
        seven, 5, bounds, states=pending, action_uid="daily", app="app"
    )


@pytest.mark.parametrize("app", [None, "app"])
def test_what_did_not_succeed_is_found_at_once(seven: sa.Engine, app: str | None):
    """Operations that succeeded, or have not ended, are not among those looked at."""
    edit(seven, ALL[0].id, state="missed", reason="outage")
    missed = frozenset({OperationState.MISSED})
    bounds = Bounds(looked_at=5, looked_at_of_app=5, sorted_at_once=1)

    assert [[0]] == find_parts(seven, 5, bounds, states=missed, app=app)
