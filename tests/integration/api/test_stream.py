"""Those who listen: first without a server or a database, then with both."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import pytest
import sqlalchemy as sa

from actions.lease import Leader
from cli.web_app import make_app
from models.errors import UnreachableError
from models.role import Role
from overview.live_events import LiveEvent, LiveEventKind, Sight
from serving.access.manage_keys import create_key
from serving.server import WebServer
from serving.services import Services
from serving.stream import Hub, Listener, StreamSettings
from tests.database import write_by
from tests.integration.api.conftest import APP, OTHER, Web, make_settings
from tests.scheduling import add_app, edit, get_now, make_operation, record_all

_T = TypeVar("_T")

LONG = timedelta(minutes=5)
NONE = timedelta(0)

#: Nothing happens by itself.
CALM = StreamSettings(every=LONG, quiet=LONG, longest=LONG, linger=LONG)

TICK = LiveEvent(LiveEventKind.TICK, None, {})


def happen(app: str) -> LiveEvent:
    """Return something that happened in a small app."""
    return LiveEvent(LiveEventKind.STATE, app, {"app": app})


class Database:
    """What is looked at: nothing happens in it."""

    def __init__(self) -> None:
        self.looks = 0
        self.is_away = False
        self._looked = threading.Condition()

    def look(self, before: Sight | None) -> tuple[list[LiveEvent], Sight]:
        """Look, and count that."""
        with self._looked:
            self.looks += 1
            self._looked.notify_all()
        if self.is_away:
            raise UnreachableError("away")
        return [], before or Sight()

    async def wait(self, looks: int) -> None:
        """Wait for so many more looks."""
        wanted = self.looks + looks

        def wait() -> None:
            with self._looked:
                assert self._looked.wait_for(lambda: self.looks >= wanted, 60)

        await asyncio.to_thread(wait)


async def join(
    hub: Hub, app: str | None = None, last_id: str | None = None, caller: str = "key"
) -> Listener:
    """Return a listener that was let in."""
    listener = await hub.join(caller, app, last_id)
    assert listener is not None
    return listener


async def read(listener: Listener) -> list[str]:
    """Return what waits for a listener: the kinds of events, or the id alone."""
    blocks = (await listener.wait(NONE)).split("\n\n")[:-1]
    kinds = []
    for block in blocks:
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        kinds.append(lines.get("event", "id"))
    return kinds


def run(test: Coroutine[Any, Any, _T]) -> _T:
    """Run a test in an event loop of its own."""
    return asyncio.run(test)


@pytest.fixture
def database() -> Database:
    """Give what is looked at."""
    return Database()


@pytest.fixture
def hub(database: Database) -> Hub:
    """Give a hub that looks once, when the first listener comes."""
    return Hub(database.look, CALM)


def test_listeners_are_told_what_they_may_know(hub: Hub):
    """Of their own app, and of nobody in particular."""

    async def test() -> list[list[str]]:
        listeners = [await join(hub, app) for app in ("a", "b", None)]
        for each in (happen("a"), TICK):
            hub.tell(each)
        return [await read(each) for each in listeners]

    assert [
        ["id", "operation.state", "tick"],
        ["id", "tick"],
        ["id", "operation.state", "tick"],
    ] == run(test())


def test_listener_that_comes_back_gets_what_it_missed(hub: Hub):
    """With the id of the last event it got; what others may know is left out."""

    async def test() -> list[str]:
        await join(hub)
        hub.tell(TICK)
        last = f"{hub.epoch}-{hub.number}"
        for each in (happen("b"), happen("a"), TICK):
            hub.tell(each)
        return await read(await join(hub, "a", last))

    assert ["operation.state", "tick", "id"] == run(test())


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        *((each, ["reset"]) for each in ("0", "7", "99", "x", "", "9" * 5000, "٣")),
        ("8", ["tick", "tick", "id"]),
        ("10", ["id"]),
    ],
)
def test_listener_that_was_away_for_too_long_begins_anew(
    hub: Hub, number: str, expected: list[str]
):
    """What was kept is not enough, or the id was never given; else it gets the rest."""
    hub.settings = replace(CALM, kept=2)

    async def test() -> list[str]:
        await join(hub)
        for _ in range(10):
            hub.tell(TICK)
        return await read(await join(hub, None, f"{hub.epoch}-{number}"))

    assert expected == run(test())


def test_id_of_another_process_says_nothing(hub: Hub):
    """After a restart, or behind a proxy that knows several."""

    async def test() -> list[str]:
        return await read(await join(hub, None, "0badc0de-0"))

    assert ["reset"] == run(test())


def test_slow_listener_is_sent_away(hub: Hub):
    """What waits for it is bounded; it is told to read again, and the others go on."""
    hub.settings = replace(CALM, queue=3)

    async def test() -> tuple[list[str], list[str], bool]:
        slow, quick = await join(hub), await join(hub)
        for _ in range(3):
            hub.tell(TICK)
            await read(quick)
        hub.tell(TICK)
        return await read(slow), await read(quick), slow.has_ended

    assert (["reset"], ["tick"], True) == run(test())


def test_quiet_stream_has_comments(hub: Hub):
    """So that no proxy takes it for dead."""
    hub.settings = replace(CALM, quiet=NONE)

    async def test() -> str:
        listener = await join(hub)
        stream = hub.follow(listener)
        await anext(stream)
        return await anext(stream)

    assert ": quiet\n\n" == run(test())


def test_stream_ends_after_a_while(hub: Hub):
    """Whoever listens shows the key again, which may have been revoked."""
    hub.settings = replace(CALM, longest=NONE)

    async def test() -> list[str]:
        return [text async for text in hub.follow(await join(hub))]

    assert [] == run(test())


def test_streams_end_with_the_server(hub: Hub):
    """And nobody is let in any more."""

    async def test() -> tuple[list[str], object]:
        listener = await join(hub)
        hub.close()
        told = [text async for text in hub.follow(listener)]
        return told, await hub.join("key", None, None)

    assert ([], None) == run(test())


def test_listeners_are_bounded(hub: Hub):
    """All together, and those of one caller, who leaves room to the others."""
    hub.settings = replace(CALM, listeners=3, listeners_per_tenant=2)

    async def test() -> list[bool]:
        first = await join(hub, caller="a")
        await join(hub, caller="a")
        let_in = [await hub.join("a", None, None) is not None]
        await join(hub, caller="b")
        let_in.append(await hub.join("c", None, None) is not None)
        hub.leave(first)
        hub.leave(first)
        let_in.append(await hub.join("a", None, None) is not None)
        return let_in

    assert [False, False, True] == run(test())


def test_keys_of_one_app_share_its_bound(web: Web):
    """However many keys it has."""
    hub = web.client.app.state.services.hub  # type: ignore[attr-defined]  # of ours
    hub.settings = replace(CALM, listeners_per_tenant=1)
    portal = web.client.portal
    assert portal is not None  # the application runs
    portal.call(hub.join, f"app {APP}", APP, None)

    answers = [web.get("/stream", role=role) for role in (Role.VIEWER, Role.ADMIN)]

    assert [503, 503] == [each.status_code for each in answers]


def test_five_hundred_listeners_cost_as_many_looks_as_one(hub: Hub, database: Database):
    """Who comes at the same time as the first does not look again."""

    async def test() -> list[list[str]]:
        listeners = await asyncio.gather(
            *(join(hub, caller=f"key {number % 2}") for number in range(500))
        )
        hub.tell(TICK)
        return [await read(each) for each in listeners]

    assert [["id", "tick"]] * 500 == run(test())
    assert 1 == database.looks


def test_nobody_is_told_that_all_is_well_without_a_look(hub: Hub, database: Database):
    """A stream that begins while the database is away would miss what happens then."""
    database.is_away = True

    async def test() -> Listener:
        with pytest.raises(UnreachableError):
            await hub.join("key", None, None)
        database.is_away = False
        return await join(hub)

    assert not run(test()).has_ended


def test_looking_survives_the_database(hub: Hub, database: Database):
    """Listeners stay, and nothing is logged a thousand times."""
    hub.settings = replace(CALM, every=NONE)

    async def test() -> int:
        listener = await join(hub)
        database.is_away = True
        await database.wait(3)
        database.is_away = False
        await database.wait(3)
        hub.tell(TICK)
        return len(await read(listener))

    assert 2 == run(test())


def test_nobody_looks_where_nobody_listens(hub: Hub):
    """After a page's time to load again; ids of before are unknown then."""
    hub.settings = replace(CALM, every=NONE, linger=NONE)

    async def test() -> list[str]:
        listener = await join(hub)
        last = f"{hub.epoch}-{hub.number}"
        hub.leave(listener)
        assert hub._looking is not None
        await hub._looking
        return await read(await join(hub, None, last))

    assert ["reset"] == run(test())


@pytest.fixture
def served(engine: sa.Engine, tmp_path: Path) -> Iterator[WebServer]:
    """Give a server on a port of its own."""
    settings = make_settings(tmp_path, engine)
    server = WebServer(
        settings.model_copy(update={"web_address": "127.0.0.1:0"}), make_app
    )
    server.start()
    yield server
    server.end()


def make_key(engine: sa.Engine, app: str | None) -> str:
    """Return a key that may read."""
    return write_by(engine, create_key, app=app, role=Role.VIEWER, name=None).text


@contextmanager
def listening(
    server: WebServer, key: str, last_id: str | None = None, query: str = ""
) -> Iterator[Iterator[dict[str, str]]]:
    """Listen to a server, and give the events as they come."""
    headers = {"Authorization": f"Bearer {key}"}
    if last_id is not None:
        headers["Last-Event-ID"] = last_id
    with httpx2.stream(
        "GET", f"{server.url}/api/v1/stream{query}", headers=headers, timeout=60
    ) as answer:
        assert (200, "text/event-stream; charset=utf-8") == (
            answer.status_code,
            answer.headers["content-type"],
        )
        yield read_events(answer.iter_lines())


def read_events(lines: Iterator[str]) -> Iterator[dict[str, str]]:
    """Read events as a browser does."""
    event: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(": ")
            event[name] = value
        else:
            yield event
            event = {}


def test_operation_is_told_over_http(served: WebServer, engine: sa.Engine):
    """To the keys of its app and of all; another app's key is told of ticks alone."""
    add_app(engine, "app")
    add_app(engine, "other")
    operation = make_operation()
    with (
        listening(served, make_key(engine, "app")) as ours,
        listening(served, make_key(engine, "other")) as theirs,
    ):
        first, _ = next(ours), next(theirs)
        record_all(engine, operation)
        edit(engine, operation.id, recorded_at=get_now(engine))
        told = next(ours)
        Leader(engine).hold()

        assert "leader" == next(ours)["event"]
        assert "leader" == next(theirs)["event"]

    assert ["id"] == list(first)
    assert "operation.state" == told["event"]
    assert str(operation.id) == json.loads(told["data"])["id"]
    with listening(served, make_key(engine, "app"), first["id"]) as again:
        assert told == next(again)
    query = f"?last_event_id={first['id']}"
    with listening(served, make_key(engine, "app"), query=query) as again:
        assert told == next(again)


def test_page_goes_on_where_it_was_read(served: WebServer, engine: sa.Engine):
    """
    What happens between the reading of a page and its listening is told, if anybody
    listened already; the first one is told to read everything again.
    """
    key = make_key(engine, None)
    signed_in = {"Authorization": f"Bearer {key}"}

    def read() -> str:
        page = httpx2.get(f"{served.url}/operations", headers=signed_in, timeout=60)
        found = re.search(r'data-stream="/api/v1/stream([^"]*)"', page.text)
        assert found is not None
        return found[1]

    alone = read()
    with listening(served, key) as events:
        first = next(events)
        beside = read()

    with listening(served, key, query=alone) as events:
        assert "reset" == next(events)["event"]
    assert f"?last_event_id={first['id']}" == beside


def test_end_of_the_server_ends_streams(served: WebServer, engine: sa.Engine):
    """At once, and in good order: the last chunk comes."""
    with listening(served, make_key(engine, None)) as events:
        next(events)
        served.end()

        assert [] == list(events)


def test_app_of_others_cannot_be_listened_to(web: Web):
    """It is as unknown as one that never was."""
    taken = web.get(f"/stream?app={OTHER}", app=APP)
    never = web.get("/stream?app=never", app=APP)

    assert taken.status_code == never.status_code == 404
    assert taken.json()["detail"] == never.json()["detail"].replace("never", OTHER)


def test_server_that_stops_says_so_to_new_listeners(web: Web):
    """They are not too many: the next server has room for them in seconds."""
    services: Services = web.client.app.state.services  # type: ignore[attr-defined]
    services.hub.close()

    answer = web.get("/stream")

    assert (503, "5") == (answer.status_code, answer.headers["retry-after"])
    assert answer.json()["detail"].startswith("the server is stopping.")
