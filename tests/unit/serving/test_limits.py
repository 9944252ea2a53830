"""Tests for the buckets of tokens; the clock is a number that tests set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from serving.limits import Rate, RequestClass, RequestLimits, name_address

#: Two at once, and one each half minute.
TWO_A_MINUTE = {kind: Rate(2, timedelta(minutes=1)) for kind in RequestClass}


@dataclass
class Clock:
    """Seconds, which go on only if a test says so."""

    now: float = 1000.0

    def __call__(self) -> float:
        """Return the time that was set."""
        return self.now


@pytest.fixture
def clock() -> Clock:
    """Give a clock that stands still."""
    return Clock()


@pytest.fixture
def limits(clock: Clock) -> RequestLimits:
    """Give limits of two requests a minute, and three callers that are remembered."""
    return RequestLimits(TWO_A_MINUTE, clock=clock, most_callers=3)


def exhaust(
    limits: RequestLimits, caller: str, kind: RequestClass = RequestClass.READ
) -> None:
    while limits.take(caller, kind).is_allowed:
        pass


def test_as_many_as_the_limit_may_come_at_once(limits: RequestLimits):
    """A page asks several things together, so a bucket begins full."""
    allowances = [limits.take("a", RequestClass.READ) for _ in range(3)]

    assert [each.is_allowed for each in allowances] == [True, True, False]


@pytest.mark.parametrize(("waited", "is_allowed"), [(29, False), (30, True)])
def test_promised_moment_is_kept(
    limits: RequestLimits, clock: Clock, waited: int, *, is_allowed: bool
):
    """One token comes back each half minute, whoever has tried in vain meanwhile."""
    exhaust(limits, "a")
    for _ in range(100):
        assert limits.take("a", RequestClass.READ).retry_after_s == 30
    clock.now += waited

    assert limits.take("a", RequestClass.READ).is_allowed == is_allowed


def test_a_bucket_is_never_fuller_than_full(limits: RequestLimits, clock: Clock):
    """A night without requests does not allow a thousand at once."""
    limits.take("a", RequestClass.READ)
    clock.now += 86_400

    assert limits.take("a", RequestClass.READ).remaining == 1


def test_kinds_and_callers_are_counted_apart(limits: RequestLimits):
    """A busy caller takes nothing from others, nor reads from its own writes."""
    exhaust(limits, "a", RequestClass.READ)

    assert limits.take("a", RequestClass.WRITE).is_allowed
    assert limits.take("b", RequestClass.READ).is_allowed


def test_headers_are_those_of_the_draft(limits: RequestLimits):
    """A client reads the policy, what is left of it, and when to come again."""
    exhaust(limits, "a")

    assert limits.take("a", RequestClass.READ).make_headers() == {
        "RateLimit-Policy": '"read";q=2;w=60',
        "RateLimit": '"read";r=0;t=60',
        "Retry-After": "30",
    }
    assert limits.take("a", RequestClass.WRITE).make_headers() == {
        "RateLimit-Policy": '"write";q=2;w=60',
        "RateLimit": '"write";r=1;t=30',
    }


def test_number_of_buckets_is_bounded(limits: RequestLimits):
    """The caller that asked longest ago is forgotten first."""
    exhaust(limits, "old")
    exhaust(limits, "busy")
    for caller in ("c", "d"):
        limits.take(caller, RequestClass.READ)
        limits.take("busy", RequestClass.READ)

    assert not limits.take("busy", RequestClass.READ).is_allowed
    assert limits.take("old", RequestClass.READ).is_allowed


def test_strangers_displace_nobody_with_a_key(limits: RequestLimits):
    """Asking from many addresses resets no limit of a key."""
    exhaust(limits, "key")
    for number in range(100):
        limits.take(f"192.0.2.{number}", RequestClass.ANONYMOUS)

    assert not limits.take("key", RequestClass.READ).is_allowed


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:aaaa::1", "2001:db8:1:2::"),
        ("2001:db8:1:2:bbbb::1", "2001:db8:1:2::"),
        (None, "unknown"),
        ("", "unknown"),
        ("/run/web.sock", "unknown"),
    ],
)
def test_address_names_whom_it_can_name(address: str | None, name: str):
    """A host with IPv6 has more addresses than there are buckets."""
    assert name_address(address) == name
