"""
How many attempts an operation has, and how long it waits between them. Pure.

And how soon it is known that whoever leads or works is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from models.errors import RuleError
from models.fields.duration import parse_elapsed, recall_elapsed
from models.fields.strict_model import show

#: How long the lease of a leader or a worker lasts without a renewal, and how often it
#: is renewed, unless the settings say otherwise: several renewals may fail.
LEASE = timedelta(seconds=60)
RENEWED_EVERY = timedelta(seconds=10)

#: Attempts of an operation, and of each ``operations retry`` of it, unless its action
#: says otherwise.
ATTEMPTS = 3

#: The most retries that an action may ask for.
MOST_RETRIES = 10

#: Pause before the second attempt of an operation whose step failed; then twice that.
RETRY_DELAY = timedelta(seconds=30)

#: The same of an operation whose worker was lost.
LOSS_DELAY = timedelta(seconds=10)

#: No pause is longer, however often it was doubled.
LONGEST_PAUSE = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class BackOff:
    """
    What an action says of the attempts of its operations.

    Args:
        attempts: In all, and again for each retry by hand.
        first: Pause before the second one. None: ``RETRY_DELAY``, or ``LOSS_DELAY``.
    """

    attempts: int = ATTEMPTS
    first: timedelta | None = None

    def find_pause(self, usual: timedelta, *, left: int) -> timedelta:
        """
        Return the pause before the next of *left* attempts: the first, then twice that.

        Args:
            usual: The first pause, unless the action says otherwise.
            left: At least 1.
        """
        doubled = 2 ** max(self.attempts - 1 - left, 0)
        pause: timedelta = min((self.first or usual) * doubled, LONGEST_PAUSE)
        return pause


def read_back_off(document: Mapping[str, Any]) -> BackOff:
    """
    Return what the stored *document* of an action says of attempts.

    >>> read_back_off({"retries": 5, "retry_after": "PT1M"}).attempts
    6
    """
    retries, first = document.get("retries"), document.get("retry_after")
    attempts = ATTEMPTS if retries is None else retries + 1
    return BackOff(attempts, recall_elapsed(first))


def parse_retry_after(text: str) -> timedelta:
    """
    Read a pause of a second to a day.

    Raises:
        RuleError: As ``parse_elapsed``, or if it is shorter or longer.
    """
    pause = parse_elapsed(text)
    if not timedelta(seconds=1) <= pause <= LONGEST_PAUSE:
        msg = f"{show(text)} is not between a second and a day."
        raise RuleError(msg, "Write PT1S to PT24H.")
    return pause
