"""How often an operation is tried, and after which pause. Pure."""

from __future__ import annotations

from datetime import timedelta

#: Attempts of an operation in all, and again after each ``operations retry``.
ATTEMPTS = 3


def make_pause(first: timedelta, *, left: int) -> timedelta:
    """Return how long the first of *left* attempts waits: *first*, or twice as long."""
    pause: timedelta = first * 2 ** (ATTEMPTS - 1 - left)
    return pause
