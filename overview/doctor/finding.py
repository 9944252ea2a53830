"""What a look of doctor gets (View) and what it reports (Finding)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.fields.zone import load_zone
from models.units import show_instant
from settings import Settings


class Health(StrEnum):
    """How healthy a subject is."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "bad"


class FindingJson(TypedDict):
    """What one look of doctor found; ``health`` is ok, look or bad."""

    subject: str
    health: Health
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """
    What one look found.

    Args:
        subject: What was looked at, in a word or two.

        health: ``BAD`` only if runs are late or lost, or will be.

        detail: What was found and, unless it is good, what to do.
    """

    subject: str
    health: Health
    detail: str

    def as_json(self) -> FindingJson:
        """Return the documented object; keys are only added."""
        return {
            "subject": self.subject,
            "health": self.health,
            "detail": self.detail,
        }


class DoctorJson(TypedDict):
    """
    What doctor found, and the worst of it.

    However many ask, it looks again after ten seconds only: ``age_s`` is the age of
    what it found.
    """

    health: Health
    findings: list[FindingJson]
    age_s: float


def make_doctor_json(findings: Sequence[Finding], age_s: float) -> DoctorJson:
    """Return the documented object; keys are only added."""
    found = {each.health for each in findings}
    worst = next(
        each
        for each in (Health.BAD, Health.DOUBTFUL, Health.GOOD)
        if each in found or each is Health.GOOD
    )
    return {
        "health": worst,
        "findings": [each.as_json() for each in findings],
        "age_s": round(age_s, 3),
    }


@dataclass(frozen=True, slots=True)
class View:
    """
    What a look may use.

    Args:
        connection: Read-only, for this look alone.

        settings: Of this process.

        now: The database's clock, aware UTC.
    """

    connection: sa.Connection
    settings: Settings
    now: datetime

    def show(self, at: datetime) -> str:
        """Return *at* by the clocks of MINUTEHAND_TIMEZONE, and in UTC."""
        return show_instant(at, load_zone(self.settings.timezone))


Look = Callable[[View], Iterator[Finding]]
