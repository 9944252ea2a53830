"""
What happens, told to everybody who listens, as server-sent events.

One task looks once a second for all listeners together, and only while there are any.
What it finds has numbers, and the last of it is kept, so that a listener whose
connection broke goes on where it was. A listener that does not keep up, or that was
away for too long, is told to read everything again (``reset``).

Used in the event loop of the server alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from anyio import CapacityLimiter, to_thread

from models.errors import UnreachableError
from models.json_form import write_json
from overview.live_events import LiveEvent, Sight

#: Looks for what has happened since it looked last.
Look = Callable[[Sight | None], tuple[list[LiveEvent], Sight]]


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """
    The bounds of the stream.

    Args:
        every: Between two looks.
        quiet: After so much time without an event, a listener gets a comment, so that
            no proxy takes the connection for dead.
        longest: A listener is sent away after so long, and comes back with its key,
            which may have been revoked.
        linger: Looking goes on for so long after the last listener left, so that a page
            that is loaded again misses nothing.
        kept: The most events that are kept for those who come back.
        queue: The most events that wait for one listener.
        listeners: The most at a time.
        listeners_per_tenant: The most at a time of one small app, with all of its keys
            and sessions; or of one key or session of the installation.
    """

    every: timedelta = timedelta(seconds=1)
    quiet: timedelta = timedelta(seconds=15)
    longest: timedelta = timedelta(minutes=5)
    linger: timedelta = timedelta(seconds=30)
    kept: int = 2000
    queue: int = 500
    listeners: int = 1000
    listeners_per_tenant: int = 250


@dataclass(frozen=True, slots=True)
class _Told:
    """An event as it was numbered, and as every listener gets it."""

    number: int
    app: str | None
    text: str


class Listener:
    """
    Somebody who listens; ``Hub.follow`` gives them what there is.

    Args:
        app: Uid of the only small app that they may know of. None: all.
    """

    def __init__(self, tenant: str, app: str | None, size: int) -> None:
        """Wait for the first event."""
        self.tenant = tenant
        self.app = app
        self._size = size
        self._waiting: deque[str] = deque()
        self._news = asyncio.Event()
        self.has_ended = False

    def may_know(self, told: _Told) -> bool:
        """Whether an event is theirs, or everybody's."""
        return self.app is None or told.app is None or told.app == self.app

    def tell(self, text: str) -> bool:
        """Let an event wait for them; False if too many do."""
        if len(self._waiting) >= self._size:
            return False
        self._waiting.append(text)
        self._news.set()
        return True

    def end(self, text: str = "") -> None:
        """Drop what waits, and let *text* be the last that they get."""
        self._waiting.clear()
        if text:
            self._waiting.append(text)
        self.has_ended = True
        self._news.set()

    async def wait(self, at_most: timedelta) -> str:
        """Return what waits, joined; empty if nothing comes *at_most* so long."""
        if not self._waiting and not self.has_ended:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), at_most.total_seconds())
        text = "".join(self._waiting)
        self._waiting.clear()
        return text


@dataclass(slots=True)
class Hub:
    """
    All who listen to one process, and what they are told.

    Args:
        look: Called in a thread, by nobody else at the same time.
        epoch: Names the time in which there was no break between two looks; numbers of
            another epoch say nothing.
        is_closed: The server is ending, and nobody else may listen.
    """

    look: Look
    settings: StreamSettings = field(default_factory=StreamSettings)
    epoch: str = ""
    number: int = 0
    is_closed: bool = False
    _listeners: set[Listener] = field(default_factory=set)
    _tenants: Counter[str] = field(default_factory=Counter)
    _kept: deque[_Told] = field(default_factory=deque)
    _looking: asyncio.Task[None] | None = None
    _starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    _thread: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))

    async def join(
        self, tenant: str, app: str | None, last_id: str | None
    ) -> Listener | None:
        """
        Return a new listener: ``follow`` it, and let it ``leave`` in the end.

        It is told whatever happens from now on; what there is can be read at leisure.

        Args:
            tenant: Whose listeners these are, for the bound of each.
            app: Uid of the only small app that they may know of. None: all.
            last_id: The id of the last event that they got. None: they begin.

        Returns:
            None if there are too many already, or the server is ending.

        Raises:
            UnreachableError: The database is away, and nobody listens yet.
        """
        if not self._has_room(tenant):
            return None
        async with self._starting:
            if self._looking is None or self._looking.done():
                _, sight = await self._look_once(None)
                self.epoch = secrets.token_hex(4)
                self._kept.clear()
                going_on = self._go_on(sight)
                self._looking = asyncio.get_running_loop().create_task(going_on)
        # Others may have come, or the end, while we waited.
        if not self._has_room(tenant):
            return None
        listener = Listener(tenant, app, self.settings.queue)
        self._listeners.add(listener)
        self._tenants[tenant] += 1
        self._greet(listener, last_id)
        return listener

    @property
    def last_id(self) -> str | None:
        """The id of the last event that was told. None: nobody looks for any now."""
        if self._looking is None or self._looking.done():
            return None
        return self._name(self.number)

    def _has_room(self, tenant: str) -> bool:
        settings = self.settings
        return (
            not self.is_closed
            and len(self._listeners) < settings.listeners
            and self._tenants[tenant] < settings.listeners_per_tenant
        )

    def _greet(self, listener: Listener, last_id: str | None) -> None:
        """Tell what was missed, and from where to go on if the connection breaks."""
        missed = self._find_missed(last_id)
        if missed is None:
            listener.tell(self._make_reset())
            return
        for each in missed:
            if listener.may_know(each) and not listener.tell(each.text):
                listener.end(self._make_reset())
                return
        # An id without data is no event, but the one to come back with.
        listener.tell(f"id: {self._name(self.number)}\n\n")

    def _find_missed(self, last_id: str | None) -> list[_Told] | None:
        """Return what came after *last_id*; None if that is not known any more."""
        if last_id is None:
            return []
        epoch, _, number = last_id.partition("-")
        if epoch != self.epoch or not (number.isascii() and number.isdigit()):
            return None
        oldest = self._kept[0].number if self._kept else self.number + 1
        if not oldest - 1 <= int(number[:20]) <= self.number:
            return None
        return [each for each in self._kept if each.number > int(number)]

    async def follow(self, listener: Listener) -> AsyncIterator[str]:
        """Yield what *listener* is told, as text of the stream, until it ends."""
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + self.settings.longest.total_seconds()
        while loop.time() < ends_at:
            text = await listener.wait(self.settings.quiet)
            if text or not listener.has_ended:
                yield text or ": quiet\n\n"
            if listener.has_ended:
                return

    def leave(self, listener: Listener) -> None:
        """Let *listener* go; it may have gone already."""
        if listener not in self._listeners:
            return
        self._listeners.remove(listener)
        self._tenants[listener.tenant] -= 1
        if not self._tenants[listener.tenant]:
            del self._tenants[listener.tenant]

    def close(self) -> None:
        """End all streams; the server is ending."""
        self.is_closed = True
        for each in self._listeners:
            each.end()
        if self._looking is not None:
            self._looking.cancel()

    async def _go_on(self, sight: Sight) -> None:
        """Look again and again, until nobody has listened for a while."""
        every, linger = self.settings.every, self.settings.linger
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while loop.time() - heard_at <= linger.total_seconds():
            await asyncio.sleep(every.total_seconds())
            try:
                found, sight = await self._look_once(sight)
            except UnreachableError:
                found = []  # the look after it finds what this one would have
            for each in found:
                self.tell(each)
            if self._listeners:
                heard_at = loop.time()

    async def _look_once(self, before: Sight | None) -> tuple[list[LiveEvent], Sight]:
        # Not in one of the threads of requests: however busy these are, it looks.
        return await to_thread.run_sync(self.look, before, limiter=self._thread)

    def tell(self, happening: LiveEvent) -> None:
        """Number an event, keep it, and tell it to all who may know of it."""
        self.number += 1
        text = (
            f"id: {self._name(self.number)}\n"
            f"event: {happening.kind.value}\n"
            f"data: {write_json(happening.data)}\n\n"
        )
        told = _Told(self.number, happening.app, text)
        self._kept.append(told)
        while len(self._kept) > self.settings.kept:
            self._kept.popleft()
        for each in self._listeners:
            if each.may_know(told) and not each.has_ended and not each.tell(text):
                each.end(self._make_reset())

    def _make_reset(self) -> str:
        return f"id: {self._name(self.number)}\nevent: reset\ndata: {{}}\n\n"

    def _name(self, number: int) -> str:
        return f"{self.epoch}-{number}"
