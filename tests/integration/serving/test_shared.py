"""What takes long outside of the database is asked once for all."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from itertools import count

from models.errors import UnreachableError
from serving.services import Shared
from tests.servers import PATIENCE_S


def test_many_who_ask_share_an_answer():
    """It is made once, and again when it is too old."""
    calls: list[int] = []

    async def test(kept_for: timedelta) -> int:
        calls.clear()
        shared = Shared(lambda: calls.append(1), kept_for)
        await asyncio.gather(*(shared.ask() for _ in range(20)))
        return len(calls)

    assert 1 == asyncio.run(test(timedelta(minutes=1)))
    assert 20 == asyncio.run(test(timedelta(0)))


def test_failure_is_shared_too():
    """Twenty who ask do not wait for twenty deadlines."""
    calls: list[int] = []

    def fail() -> None:
        calls.append(threading.get_ident())
        raise UnreachableError("away")

    async def test() -> list[BaseException | tuple[None, float]]:
        shared = Shared(fail, timedelta(minutes=1))
        return await asyncio.gather(
            *(shared.ask() for _ in range(20)), return_exceptions=True
        )

    found = asyncio.run(test())

    assert {UnreachableError} == {type(each) for each in found}
    assert 1 == len(calls)


def test_what_was_found_long_ago_is_looked_at_again():
    """Nobody is told what was so in the night, unless a look takes long."""
    may_end = threading.Event()
    numbers = count()

    def look() -> int:
        number = next(numbers)
        assert number < 2 or may_end.wait(PATIENCE_S)
        return number

    async def test() -> list[int]:
        shared = Shared(look, timedelta(0), patience_s=PATIENCE_S)
        told = [await shared.get() for _ in range(2)]
        shared.patience_s = 0
        told.append(await shared.get())
        may_end.set()
        return [number for number, _age_s in filter(None, told)]

    assert [0, 1, 1] == asyncio.run(test())
