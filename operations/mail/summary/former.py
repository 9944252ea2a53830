"""
The figures of the last summary, kept to tell what changed since. Pure.

They are kept beside the data, by the uid of the action, and not with its operations:
those are removed after a month, which is just before a monthly summary needs them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import JsonValue

#: What a summary said, by domain: ``Former`` as it is stored.
Figures = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class Former:
    """
    A domain in an earlier summary.

    Args:
        at: When that was sent, aware UTC.
        rows: How many it had.
        sums: By the name of the column.
    """

    at: datetime
    rows: int
    sums: Mapping[str, float]

    def as_json(self) -> dict[str, JsonValue]:
        """Return the form that is stored."""
        return {"at": self.at.isoformat(), "rows": self.rows, "sums": {**self.sums}}


def read_former(stored: Any) -> Former | None:
    """Return what ``as_json`` stored; None: nothing was."""
    if not isinstance(stored, dict):
        return None
    return Former(
        at=datetime.fromisoformat(stored["at"]),
        rows=stored["rows"],
        sums=stored["sums"],
    )


@dataclass(frozen=True, slots=True)
class FigureChange:
    """
    A number now, and in the last summary.

    >>> FigureChange(now=90, before=120).shares
    (1.0, 0.75)
    """

    now: float
    before: float

    @property
    def difference(self) -> float:
        """How much more it is now."""
        # The order in which floats are added up leaves a trace that is no change.
        is_same = math.isclose(self.now, self.before, rel_tol=1e-9)
        return 0 if is_same else self.now - self.before

    @property
    def ratio(self) -> float | None:
        """How much more, of what it was; None: that cannot be said."""
        if self.before == 0 or self.difference == 0:
            return None
        ratio = self.difference / abs(self.before)
        # A sum that was next to nothing makes a percentage that says nothing.
        return ratio if abs(ratio) < 10 else None

    @property
    def shares(self) -> tuple[float, float] | None:
        """
        The lengths of two bars, before and now; the longer one is 1.

        None: one of both is below zero, or both are zero, so no bar tells the truth.
        """
        longer = max(self.now, self.before)
        if min(self.now, self.before) < 0 or longer == 0:
            return None
        return self.before / longer, self.now / longer
