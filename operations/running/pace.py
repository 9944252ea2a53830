"""How fast the reading of a source goes, and how long it may still take. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta

from pydantic import JsonValue

from models.units import format_age, format_bytes
from operations.domains import Reached

#: Seconds before a rate is told: the first bytes come from buffers.
_FIRST_RATE_S = 1.0

#: Longest time left that is told; beyond it, a rate says nothing of the end.
_LONGEST_LEFT_S = 7 * 86_400


@dataclass(slots=True)
class Pace:
    """Measures one part of a step after the other; each begins at its first point."""

    _part: tuple[str, str, str] | None = None
    _began_at: float = 0.0
    _began_done: int = 0
    _done: int = 0

    def measure(
        self, note: str, reached: Reached, *, at: float
    ) -> dict[str, JsonValue]:
        """
        Return how far and how fast the part is.

        Args:
            note: What is read; another note, work or unit is another part.
            reached: How far it is. What falls behind an earlier point is ignored.
            at: Seconds of a clock that never jumps.

        Returns:
            ``doing``, ``unit``, ``done``, ``total`` (None: unknown), ``per_second`` and
            ``seconds_left`` (None: not known yet, or never).
        """
        part = (note, reached.doing, reached.unit)
        if part != self._part:
            self._part, self._began_at = part, at
            self._began_done = self._done = reached.done
        self._done = max(self._done, reached.done)
        rate = self._find_rate(at)
        left = None
        if rate and reached.total is not None:
            seconds = max(0, reached.total - self._done) / rate
            left = math.ceil(seconds) if seconds <= _LONGEST_LEFT_S else None
        return {
            "doing": reached.doing,
            "unit": reached.unit,
            "done": self._done,
            "total": reached.total,
            "per_second": None if rate is None else round(rate, 1),
            "seconds_left": left,
        }

    def _find_rate(self, at: float) -> float | None:
        took = at - self._began_at
        if took < _FIRST_RATE_S:
            return None
        return (self._done - self._began_done) / took


def describe_part(note: str, reached: Reached, measured: dict[str, JsonValue]) -> str:
    """
    Return *measured* for people, in the place of *note*.

    >>> half = Reached("download", 6 << 20, 12 << 20, "bytes")
    >>> describe_part("sales", half, {"per_second": 3 << 20, "seconds_left": 2})
    'sales: download 6 MiB of 12 MiB, 3 MiB/s, 2 s left'
    """
    done = _count(reached.done, reached.unit)
    if reached.total is not None:
        done = f"{done} of {_count(reached.total, reached.unit)}"
    told = f"{note}: {reached.doing} {done}"
    rate, left = measured["per_second"], measured["seconds_left"]
    if isinstance(rate, int | float):
        told += f", {_count(round(rate), reached.unit)}/s"
    if isinstance(left, int):
        told += f", {format_age(timedelta(seconds=left))} left"
    return told


def _count(number: int, unit: str) -> str:
    return format_bytes(number) if unit == "bytes" else f"{number:,} {unit}"
