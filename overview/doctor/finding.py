"""What a look of doctor is given, and what it finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa

from settings import Settings


class Health(StrEnum):
    """How a thing is."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "bad"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What one look found.

    Args:
        subject: What was looked at, in a word or two.

        health: ``BAD`` only if runs are late or lost, or will be.

        detail: What is so, and what to do.
    """

    subject: str
    health: Health
    detail: str

    def as_json(self) -> dict[str, object]:
        """Return the documented object; keys are only added."""
        return {
            "subject": self.subject,
            "health": self.health.value,
            "detail": self.detail,
        }


@dataclass(frozen=True, slots=True)
class View:
    """
    What a look may use.

    Args:
        connection: That only reads; of this look alone.

        settings: Of who looks.

        now: The database's clock, aware UTC.
    """

    connection: sa.Connection
    settings: Settings
    now: datetime

    def name_starter(self, command: str) -> str:
        """Return what starts a part: *command*, or all in one if that is the form."""
        is_embedded = self.settings.broker_url.startswith("memory")
        return "minutehand up" if is_embedded else command


Look = Callable[[View], Iterator[Finding]]
