"""How many attempts an operation has, and how long it waits between them. Pure."""

from __future__ import annotations

from datetime import timedelta

#: Attempts of an operation, and of each ``operations retry`` of it.
ATTEMPTS = 3

#: Pause before the second attempt of an operation whose step failed; then twice that.
RETRY_DELAY = timedelta(seconds=30)


def make_pause(first: timedelta, *, left: int) -> timedelta:
    """Return the pause before the next of *left* attempts: *first*, then twice that."""
    pause: timedelta = first * 2 ** (ATTEMPTS - 1 - left)
    return pause
