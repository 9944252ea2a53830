"""Tests for the buckets of tokens; the clock is a number that tests set."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest

from serving.limits import Kind, Limits, Rate, name_address

#: Two at once, and one each half minute.
TWO_A_MINUTE = {kind: Rate(2, timedelta(minutes=1)) for kind in Kind}


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
def limits(clock: Clock) -> Limits:
    """Give limits of two requests a minute, and three callers that are remembered."""
    return Limits(TWO_A_MINUTE, clock=clock, most_callers=3)


def exhaust(limits: Limits, caller: str, kind: Kind = Kind.READ) -> None:
    """Take all tokens of a caller."""
    while limits.take(caller, kind).is_allowed:
        pass


def test_as_many_as_the_limit_may_come_at_once(limits: Limits):
    """
    A page asks several things together, so a bucket begins full.
    """
    allowances = [limits.take("a", Kind.READ) for _ in range(3)]

    assert [each.is_allowed for each in allowances] == [True, True, False]


def test_refusal_says_when_to_come_again(limits: Limits):
    """
    One token comes back each half minute.
    """
    exhaust(limits, "a")

    assert limits.take("a", Kind.READ).retry_after_s == 30


def test_promised_moment_is_kept(limits: Limits, clock: Clock):
    """
    Who waits as long as it was told to is served.
    """
    exhaust(limits, "a")
    wait_s = limits.take("a", Kind.READ).retry_after_s
    assert wait_s is not None  # it was refused
    clock.now += wait_s

    assert limits.take("a", Kind.READ).is_allowed


def test_a_second_too_early_is_refused(limits: Limits, clock: Clock):
    """
    Half a token is none.
    """
    exhaust(limits, "a")
    clock.now += 29

    assert not limits.take("a", Kind.READ).is_allowed


def test_asking_while_refused_costs_nothing(limits: Limits, clock: Clock):
    """
    A program that tries in vain is not put off for longer and longer.
    """
    exhaust(limits, "a")
    for _ in range(100):
        limits.take("a", Kind.READ)
    clock.now += 30

    assert limits.take("a", Kind.READ).is_allowed


def test_a_bucket_is_never_fuller_than_full(limits: Limits, clock: Clock):
    """
    A night without requests does not allow a thousand at once.
    """
    limits.take("a", Kind.READ)
    clock.now += 86_400

    assert limits.take("a", Kind.READ).remaining == 1


def test_kinds_and_callers_are_counted_apart(limits: Limits):
    """
    A busy caller takes nothing from others, nor reads from its own writes.
    """
    exhaust(limits, "a", Kind.READ)

    assert limits.take("a", Kind.WRITE).is_allowed
    assert limits.take("b", Kind.READ).is_allowed


def test_headers_are_those_of_the_draft(limits: Limits):
    """
    A client reads the policy, and what is left of it.
    """
    exhaust(limits, "a")
    headers = limits.take("a", Kind.READ).make_headers()

    assert headers == {
        "RateLimit-Policy": '"read";q=2;w=60',
        "RateLimit": '"read";r=0;t=60',
        "Retry-After": "30",
    }


def test_served_answers_have_no_retry_after(limits: Limits):
    """
    They only say how much is left.
    """
    headers = limits.take("a", Kind.WRITE).make_headers()

    assert headers == {
        "RateLimit-Policy": '"write";q=2;w=60',
        "RateLimit": '"write";r=1;t=30',
    }


def test_number_of_buckets_is_bounded(limits: Limits):
    """
    The caller that asked longest ago is forgotten first.
    """
    exhaust(limits, "old")
    exhaust(limits, "busy")
    for caller in ("c", "d"):
        limits.take(caller, Kind.READ)
        limits.take("busy", Kind.READ)

    assert not limits.take("busy", Kind.READ).is_allowed
    assert limits.take("old", Kind.READ).is_allowed


def test_strangers_displace_nobody_with_a_key(limits: Limits):
    """
    Asking from many addresses resets no limit of a key.
    """
    exhaust(limits, "key")
    for number in range(100):
        limits.take(f"192.0.2.{number}", Kind.ANONYMOUS)

    assert not limits.take("key", Kind.READ).is_allowed


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
    """
    A host with IPv6 has more addresses than there are buckets.
    """
    assert name_address(address) == name
