"""Long work is done in turns: no tenant waits for another's, and nobody for long."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import timedelta
from http import HTTPStatus

import pytest

from serving.limits import Turns
from serving.refusals import HttpError

LONG, NONE = timedelta(minutes=5), timedelta(0)


def test_a_tenant_has_one_turn_at_a_time():
    """Who asks for another is told when to come back; others have theirs."""
    turns = Turns("another report", at_once=2, wait=NONE)

    async def test() -> HttpError:
        async with turns.take("a"), turns.take("b"):
            with pytest.raises(HttpError) as caught:
                async with turns.take("a"):
                    pass
        async with turns.take("a"):
            return caught.value

    refused = asyncio.run(test())

    assert HTTPStatus.SERVICE_UNAVAILABLE == refused.status
    assert "another report is under way" in str(refused)
    assert {"Retry-After": "10"} == refused.headers


def test_so_many_tenants_have_turns_at_once():
    """Whoever waited in vain has taken nothing from those who come later."""
    turns = Turns("another report", at_once=2, wait=NONE)

    async def test() -> None:
        async with AsyncExitStack() as first, turns.take("b"):
            await first.enter_async_context(turns.take("a"))
            with pytest.raises(HttpError):
                async with turns.take("c"):
                    pass
            await first.aclose()
            async with turns.take("c"):
                pass

    asyncio.run(test())


def test_tenants_are_in_line_and_not_their_requests():
    """Somebody with many waits behind nobody who came later with one."""
    turns = Turns("another report", at_once=1, wait=LONG)
    done: list[str] = []

    async def work(tenant: str) -> None:
        async with turns.take(tenant):
            done.append(tenant)
            await asyncio.sleep(0)  # gives way, as all that takes long does

    async def test() -> None:
        await asyncio.gather(*map(work, ["many"] * 5 + ["one"]))

    asyncio.run(test())

    assert "one" in done[:2]


def test_work_is_done_in_a_thread():
    """And its answer, or what it raises, is that of the turn."""
    turns = Turns("another report", at_once=1)

    assert 6 == asyncio.run(turns.run("a", lambda: 2 * 3))
    with pytest.raises(ZeroDivisionError):
        asyncio.run(turns.run("a", lambda: 1 // 0))
