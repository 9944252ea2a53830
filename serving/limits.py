"""
How often each caller may ask, and whose turn it is with what takes long.

A bucket of tokens for each caller and kind of request: the buckets are in memory, so
each process that serves the API counts for itself. They are bounded by number, and what
callers without a key do never displaces the buckets of those with one. Long work is
done one at a time for each tenant, so that none waits for another's; its turns are
used in the event loop of the server alone.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from threading import Lock
from typing import TypeVar
from weakref import WeakValueDictionary

from anyio import CapacityLimiter, to_thread

from serving.refusals import HttpError

#: The bits of an IPv6 address that name a customer's network; the other half is theirs
#: to choose from, so an address alone would name nobody.
_IPV6_NETWORK_BITS = 64


class RequestClass(StrEnum):
    """The class of a route, each with a limit of its own."""

    #: Answers from the database, and changes nothing.
    READ = "read"

    #: Changes something.
    WRITE = "write"

    #: Takes a worker, or much of the database: bulk changes, audits, doctor.
    HEAVY = "heavy"

    #: Anything that comes without a valid key, by address.
    ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Rate:
    """
    How much a caller may do.

    Args:
        amount: So many requests may come at once, at least 1.
        per: After this much time without any, as many may come again.
    """

    amount: int
    per: timedelta = timedelta(minutes=1)

    @property
    def per_s(self) -> float:
        """How many requests a second are allowed in the long run."""
        return self.amount / self.per.total_seconds()


#: Far above what people and their programs do, and below what would hurt the others.
DEFAULT_RATES: Mapping[RequestClass, Rate] = {
    RequestClass.READ: Rate(3000),
    RequestClass.WRITE: Rate(1200),
    RequestClass.HEAVY: Rate(60),
    RequestClass.ANONYMOUS: Rate(120),
}


@dataclass(frozen=True, slots=True)
class Allowance:
    """
    Whether a request may be served.

    Args:
        kind: The limit that was asked for.
        limit: The requests that may come at once.
        per: In which as many may come again.
        remaining: The requests that may still come now.
        reset_s: Seconds until *limit* requests may come at once again, rounded up.
        retry_after_s: Seconds until the next request is served, rounded up. None: this
            one is served.
    """

    kind: RequestClass
    limit: int
    per: timedelta
    remaining: int
    reset_s: int
    retry_after_s: int | None

    @property
    def is_allowed(self) -> bool:
        """Whether the request may be served."""
        return self.retry_after_s is None

    def make_headers(self) -> dict[str, str]:
        """
        Return the headers of the answer, whether it is served or refused.

        Source: draft-ietf-httpapi-ratelimit-headers-10, sections 3 and 4.
        """
        window = math.ceil(self.per.total_seconds())
        headers = {
            "RateLimit-Policy": f'"{self.kind}";q={self.limit};w={window}',
            "RateLimit": f'"{self.kind}";r={self.remaining};t={self.reset_s}',
        }
        if self.retry_after_s is not None:
            headers["Retry-After"] = str(self.retry_after_s)
        return headers


@dataclass(slots=True)
class _Bucket:
    """The tokens that were left at an instant."""

    tokens: float
    at: float


class RequestLimits:
    """The buckets of all callers; may be used from several threads."""

    def __init__(
        self,
        rates: Mapping[RequestClass, Rate] = DEFAULT_RATES,
        *,
        clock: Callable[[], float],
        most_callers: int = 10_000,
    ) -> None:
        """
        Begin with full buckets.

        Args:
            rates: The limit of each kind.
            clock: Seconds that never go back, such as ``time.monotonic``.
            most_callers: The most buckets of a kind; beyond, those that were not used
                for the longest time are forgotten, and so are full again.
        """
        self._rates = rates
        self._clock = clock
        self._most_callers = most_callers
        self._lock = Lock()
        self._buckets: dict[RequestClass, OrderedDict[str, _Bucket]] = {
            kind: OrderedDict() for kind in rates
        }

    def take(self, caller: str, kind: RequestClass, amount: int = 1) -> Allowance:
        """
        Take one token of *caller*, if there is one.

        Args:
            caller: Owner of the API key or session; of callers without a key, what
                ``name_address`` makes of their address.
            kind: The class of the route; ANONYMOUS for callers without a key.
            amount: 0: only look whether there is one.
        """
        rate = self._rates[kind]
        with self._lock:
            now = self._clock()
            bucket = self._find(caller, kind, rate, now)
            gained = (now - bucket.at) * rate.per_s
            bucket.tokens = min(rate.amount, bucket.tokens + gained)
            bucket.at = now
            is_allowed = bucket.tokens >= 1
            if is_allowed:
                bucket.tokens -= amount
            left = bucket.tokens
        return Allowance(
            kind=kind,
            limit=rate.amount,
            per=rate.per,
            remaining=int(left),
            reset_s=math.ceil((rate.amount - left) / rate.per_s),
            retry_after_s=(
                None if is_allowed else max(1, math.ceil((1 - left) / rate.per_s))
            ),
        )

    def _find(self, caller: str, kind: RequestClass, rate: Rate, now: float) -> _Bucket:
        buckets = self._buckets[kind]
        bucket = buckets.get(caller)
        if bucket is None:
            bucket = buckets[caller] = _Bucket(rate.amount, now)
            while len(buckets) > self._most_callers:
                buckets.popitem(last=False)
        else:
            buckets.move_to_end(caller)
        return bucket


def name_address(address: str | None) -> str:
    """
    Return the caller at an IP address; everybody in one IPv6 network is the same.

    Args:
        address: As the server saw it. None, or what is not an IP address, such as the
            name of a local socket: they share one bucket.

    >>> name_address("2001:db8:1:2:3:4:5:6"), name_address("192.0.2.7")
    ('2001:db8:1:2::', '192.0.2.7')
    """
    try:
        found = ip_address(address or "")
    except ValueError:
        return "unknown"
    if isinstance(found, IPv6Address):
        if found.ipv4_mapped is not None:
            return str(found.ipv4_mapped)
        hidden = 128 - _IPV6_NETWORK_BITS
        return str(IPv6Address(int(found) >> hidden << hidden))
    return str(found)


class Shares:
    """Threads are for all tenants: who asks for much at once has half of them."""

    def __init__(self, threads: int) -> None:
        """Share so many, in one event loop."""
        self._most = max(1, threads // 2)
        self._tenants = WeakValueDictionary[str, asyncio.Semaphore]()

    def of(self, tenant: str) -> asyncio.Semaphore:
        """Return what is entered while a thread works for *tenant*."""
        return self._tenants.setdefault(tenant, asyncio.Semaphore(self._most))


_Answer = TypeVar("_Answer")

#: How long somebody waits for their turn, before they are told to come back.
WAIT = timedelta(seconds=5)

#: When to come back, in seconds.
_RETRY_AFTER = 10


@dataclass(slots=True)
class Turns:
    """
    Work of one kind.

    Args:
        what: Names it in messages.
        at_once: Of different tenants; each has one at a time.
        wait: At most so long for one's turn.
    """

    what: str
    at_once: int
    wait: timedelta = WAIT
    _tenants: WeakValueDictionary[str, asyncio.Lock] = field(
        default_factory=WeakValueDictionary
    )
    _places: asyncio.Semaphore = field(init=False)
    _threads: CapacityLimiter = field(init=False)

    def __post_init__(self) -> None:
        """Leave every place free."""
        self._places = asyncio.Semaphore(self.at_once)
        self._threads = CapacityLimiter(self.at_once)

    @asynccontextmanager
    async def take(self, tenant: str) -> AsyncIterator[None]:
        """
        Wait for the turn of *tenant*; it lasts as long as the block.

        Raises:
            HttpError: It did not come in time: 503.
        """
        lock = self._tenants.setdefault(tenant, asyncio.Lock())
        async with AsyncExitStack() as turn:
            try:
                async with asyncio.timeout(self.wait.total_seconds()):
                    # First among one's own: so tenants, not requests, are in line.
                    await turn.enter_async_context(lock)
                    await turn.enter_async_context(self._places)
            except TimeoutError:
                msg = (
                    f"{self.what} is under way, and takes its time. Ask again in"
                    f" {_RETRY_AFTER} s."
                )
                headers = {"Retry-After": str(_RETRY_AFTER)}
                status = HTTPStatus.SERVICE_UNAVAILABLE
                raise HttpError(status, msg, headers=headers) from None
            yield

    async def run(self, tenant: str, work: Callable[[], _Answer]) -> _Answer:
        """
        Do *work* in the turn of *tenant*, in a thread that is none of requests'.

        Raises:
            HttpError: Its turn did not come in time: 503.
        """
        async with self.take(tenant):
            return await to_thread.run_sync(work, limiter=self._threads)
