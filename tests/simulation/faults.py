"""
What goes wrong, where, and how often: drawn from the seed, counted by kind.

Every call to the database, the broker and the mail server asks here before and
after; besides, the plan of a world holds outages that last a while.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random


class Fault(StrEnum):
    """What may happen at a call."""

    ERROR = "error"  # the call fails at once
    HANG = "hang"  # the call fails when its deadline has passed
    CRASH = "crash"  # kill -9
    FREEZE = "freeze"  # SIGSTOP, for longer than any lease or shorter
    SUSPEND = "suspend"  # as FREEZE, and the monotonic clock stands still
    DELAY = "delay"  # the call takes seconds
    DUPLICATE = "duplicate"  # a message arrives twice
    LOSS = "loss"  # a message never arrives
    PARTIAL = "partial"  # some of a batch arrives, and the call fails
    RACE = "race"  # somebody edits an action just then


class Place(StrEnum):
    """Where it may happen."""

    BEFORE_TRANSACTION = "before transaction"
    BEFORE_RECORD = "before record"  # between what a tick has read and its writing
    STATEMENT = "in transaction"
    AFTER_COMMIT = "after commit"
    BEFORE_SEND = "before send"
    AFTER_SEND = "after send"
    ASK_BROKER = "ask broker"
    MESSAGE = "message"
    BEFORE_MAIL = "before mail"
    AFTER_MAIL = "after mail"
    EFFECT = "in a step"


#: Chance of each fault at one call, in ten thousandths, at intensity 1.
RATES: dict[Place, tuple[tuple[Fault, int], ...]] = {
    Place.BEFORE_TRANSACTION: (
        (Fault.ERROR, 20),
        (Fault.HANG, 5),
        (Fault.CRASH, 5),
        (Fault.FREEZE, 3),
        (Fault.SUSPEND, 2),
        (Fault.DELAY, 20),
    ),
    Place.BEFORE_RECORD: ((Fault.RACE, 400), (Fault.FREEZE, 30), (Fault.CRASH, 30)),
    Place.STATEMENT: ((Fault.ERROR, 10), (Fault.FREEZE, 2), (Fault.CRASH, 3)),
    Place.AFTER_COMMIT: (
        (Fault.ERROR, 20),
        (Fault.HANG, 5),
        (Fault.CRASH, 8),
        (Fault.FREEZE, 4),
        (Fault.SUSPEND, 2),
    ),
    Place.BEFORE_SEND: (
        (Fault.ERROR, 100),
        (Fault.HANG, 30),
        (Fault.CRASH, 50),
        (Fault.FREEZE, 60),
        (Fault.SUSPEND, 20),
    ),
    Place.AFTER_SEND: (
        (Fault.ERROR, 100),
        (Fault.PARTIAL, 60),
        (Fault.HANG, 30),
        (Fault.CRASH, 80),
        (Fault.FREEZE, 60),
    ),
    Place.ASK_BROKER: ((Fault.ERROR, 50), (Fault.HANG, 10), (Fault.FREEZE, 20)),
    Place.MESSAGE: ((Fault.DUPLICATE, 400), (Fault.LOSS, 150), (Fault.DELAY, 400)),
    Place.BEFORE_MAIL: ((Fault.CRASH, 60), (Fault.FREEZE, 60), (Fault.DELAY, 200)),
    Place.AFTER_MAIL: ((Fault.CRASH, 80), (Fault.FREEZE, 60), (Fault.SUSPEND, 20)),
    Place.EFFECT: ((Fault.CRASH, 150), (Fault.FREEZE, 100), (Fault.ERROR, 300)),
}

_WHOLE = 10_000


@dataclass(slots=True)
class Faults:
    """
    Draws faults.

    Args:
        rng: Of the world.
        intensity: 0 is a world in which nothing goes wrong.
        races: How many times as often as otherwise somebody edits in between.
        counts: By "place: fault", for the report.
    """

    rng: Random
    intensity: float
    races: float = 1
    counts: Counter[str] = field(default_factory=Counter)

    def draw(self, place: Place) -> Fault | None:
        """Return what goes wrong at this call; None: nothing."""
        if not self.intensity:
            return None
        drawn = self.rng.random() * _WHOLE / self.intensity
        for fault, rate in RATES[place]:
            chance = rate * self.races if fault is Fault.RACE else rate
            if drawn < chance:
                self.counts[f"{place}: {fault}"] += 1
                return fault
            drawn -= chance
        return None
