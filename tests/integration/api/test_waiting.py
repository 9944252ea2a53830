"""Many wait for operations, and one question is asked for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from uuid import UUID

import pytest

from models.errors import UnreachableError
from models.operation_state import FINAL_STATES, OperationState
from serving.services import Waiters

ONE, TWO = UUID(int=1), UUID(int=2)
PENDING, RUNNING = OperationState.PENDING, OperationState.RUNNING
SUCCEEDED = OperationState.SUCCEEDED
LONG = timedelta(minutes=1)
AT_ONCE = timedelta(0)


class Table:
    """The states of operations, one look after the other; the last one stays."""

    def __init__(self, *looks: dict[UUID, OperationState] | Exception) -> None:
        """Find *looks*."""
        self.looks = list(looks)
        self.asked: list[set[UUID]] = []

    def __call__(self, ids: Collection[UUID]) -> Mapping[UUID, OperationState]:
        """Return what is found now."""
        self.asked.append(set(ids))
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if isinstance(found, Exception):
            raise found
        return found


async def until(holds: Callable[[], bool]) -> None:
    """Let the others go on until something holds."""
    while not holds():  # noqa: ASYNC110 - threads of the loop, which tell nobody
        await asyncio.sleep(0)


def make_waiters(table: Table, **options: int) -> Waiters:
    """Return waiters who look into *table* again and again."""
    return Waiters(table, every=AT_ONCE, **options)


def test_all_are_asked_for_together():
    """One question for those who wait at that moment, however many they are."""
    table = Table(
        {ONE: RUNNING, TWO: PENDING},
        {ONE: SUCCEEDED, TWO: RUNNING},
        {ONE: SUCCEEDED, TWO: OperationState.FAILED},
    )
    waiters = make_waiters(table)

    async def wait() -> list[OperationState | None]:
        ids = [ONE, TWO] * 100
        return await asyncio.gather(
            *(waiters.wait(each, PENDING, at_most=LONG) for each in ids)
        )

    assert [SUCCEEDED, OperationState.FAILED] * 100 == asyncio.run(wait())
    assert [{ONE, TWO}, {ONE, TWO}, {TWO}] == table.asked
    assert 0 == waiters.count


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
def test_nobody_waits_for_what_is_final(state: OperationState):
    """Nor is anything asked."""
    table = Table({})
    waiters = make_waiters(table)

    assert state is asyncio.run(waiters.wait(ONE, state, at_most=LONG))
    assert [] == table.asked


def test_time_that_is_over_answers_what_is_known():
    """Which is what was known before, unless it was looked up meanwhile."""
    waiters = make_waiters(Table({ONE: RUNNING}))

    state = asyncio.run(waiters.wait(ONE, PENDING, at_most=AT_ONCE))
    assert state in {PENDING, RUNNING}
    assert 0 == waiters.count


def test_operation_that_is_gone_has_no_state():
    """Maintenance may remove it meanwhile."""
    waiters = make_waiters(Table({ONE: RUNNING}, {}))

    assert asyncio.run(waiters.wait(ONE, PENDING, at_most=LONG)) is None


def test_database_that_is_away_is_asked_again():
    """Those who wait go on waiting."""
    away = UnreachableError("it does not answer")
    waiters = make_waiters(Table(away, away, {ONE: SUCCEEDED}))

    assert SUCCEEDED is asyncio.run(waiters.wait(ONE, PENDING, at_most=LONG))


def test_who_comes_beyond_the_bound_is_answered_at_once():
    """With the state that is known, which is the truth."""
    waiters = make_waiters(Table({}), most=0)

    assert PENDING is asyncio.run(waiters.wait(ONE, PENDING, at_most=LONG))


def test_server_that_ends_lets_nobody_wait():
    """Neither those who are there, nor those who come."""

    async def wait() -> list[OperationState | None]:
        waiters = make_waiters(Table({ONE: RUNNING}))
        waiting = asyncio.create_task(waiters.wait(ONE, RUNNING, at_most=LONG))
        await until(lambda: waiters.count > 0)
        waiters.close()
        return [await waiting, await waiters.wait(ONE, PENDING, at_most=LONG)]

    assert [RUNNING, PENDING] == asyncio.run(wait())


def test_who_leaves_is_not_asked_for_any_more():
    """A request that is cut off ends its waiting, and with the last the asking ends."""

    async def leave() -> int:
        waiters = make_waiters(Table({ONE: RUNNING}))
        waiting = asyncio.create_task(waiters.wait(ONE, RUNNING, at_most=LONG))
        await until(lambda: waiters.count > 0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        return waiters.count

    assert 0 == asyncio.run(leave())
