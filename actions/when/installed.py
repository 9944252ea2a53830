"""When a rule of a package is due. Pure, if the package keeps its promise."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from models.errors import RuleError
from models.fields.zone import load_zone
from models.when import InstalledWhen

_SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class InstalledRule:
    """Asks the code of a package, and believes only what makes sense."""

    model: InstalledWhen
    zone: ZoneInfo

    @classmethod
    def make(cls, model: InstalledWhen) -> Self:
        """Return the rule of *model*; RuleError if its zone is unknown."""
        return cls(model, load_zone(model.timezone))

    def next_from(self, instant: datetime) -> datetime | None:
        """
        Return the first occurrence at or after *instant*, as ``Rule.next_from`` says.

        Raises:
            RuleError: The package answered with nonsense.
        """
        found = self.model.next_from(instant.astimezone(self.zone))
        if found is None:
            return None
        if not isinstance(found, datetime) or found.utcoffset() is None:
            raise self._refuse(instant, found, "which is no time with an offset")
        occurrence = found.astimezone(UTC)
        if occurrence.microsecond:
            occurrence = occurrence.replace(microsecond=0) + _SECOND
        if occurrence < instant:
            raise self._refuse(instant, found, "which is before it")
        return occurrence

    def in_zone(self, zone: ZoneInfo) -> Self:
        """Return this rule as if its author had written it for *zone*."""
        model = self.model.model_copy(update={"timezone": zone.key})
        return type(self)(model, zone)

    def without_clock_changes(self) -> Self | None:
        """Return None: nobody knows what clock changes do to it."""
        return None

    def _refuse(self, instant: datetime, found: object, why: str) -> RuleError:
        kind = type(self.model)
        msg = (
            f"{kind.__module__}.{kind.__qualname__} answered {found!r} to the first "
            f"occurrence from {instant.isoformat()}, {why}."
        )
        return RuleError(msg, "Its package has to be mended.")
