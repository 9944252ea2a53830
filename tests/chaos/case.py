"""What becomes of one fault: what was seen, what doctor said, what went wrong."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import UUID

#: Doctor has to name a cause within this, counted from the beginning of the fault.
NAMED_WITHIN_S = 120


@dataclass(frozen=True, slots=True)
class Said:
    """
    One answer of ``minutehand doctor``.

    Args:
        lines: ``health subject: detail``, or what it wrote when it could not look.
        took_s: How long it took, in seconds.
    """

    lines: Sequence[str]
    took_s: float

    def find(self, pattern: str) -> str | None:
        """Return the first line in which *pattern* is found."""
        return next((line for line in self.lines if re.search(pattern, line)), None)


@dataclass
class Case:
    """
    One fault, as it happened.

    Args:
        name: As for ``--faults``.
        is_strict: Whether each run that is asked for has to succeed.
        begun_at: Aware UTC.
        notes: What was seen; told with the verdict.
        wrong: What should not have been; none is a PASS.
        must_end: Operations that were asked for because of it.
        is_left_out: Whether it could not be made on this machine.
    """

    name: str
    is_strict: bool = True
    begun_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    notes: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    must_end: list[UUID] = field(default_factory=list)
    is_left_out: bool = False
    monotonic: Callable[[], float] = time.monotonic
    _started_s: float = field(init=False)

    def __post_init__(self) -> None:
        """Count the time of the fault from now on."""
        self.start()

    def leave_out(self, why: str) -> None:
        """Note that it did not happen, and *why*: it has not passed."""
        self.is_left_out = True
        self.notes.append(f"left out, for {why}")

    def start(self) -> None:
        """Count the time of the fault from now on."""
        self._started_s = self.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the fault began."""
        return self.monotonic() - self._started_s

    def expect_doctor(self, ask: Callable[[], Said], pattern: str) -> None:
        """Ask doctor again and again until it says *pattern*, or the time is over."""
        answers = 0
        while True:
            said = ask()
            answers += 1
            found = said.find(pattern)
            if found is not None:
                break
            if self.age_s > NAMED_WITHIN_S:
                slow = f"; an answer took {said.took_s:.0f} s: a slow machine?"
                self.wrong.append(
                    f"doctor named no {pattern!r} within {self.age_s:.0f} s"
                    f" ({answers} answers{slow if said.took_s > 10 else ''}):"
                    f" {'; '.join(each for each in said.lines if each[:2] != 'ok')}"
                )
                return
        late = self.age_s > NAMED_WITHIN_S
        text = f'doctor after {self.age_s:.0f} s: "{shorten(found)}"'
        (self.wrong if late else self.notes).append(text)


def shorten(text: str, width: int = 110) -> str:
    """Return one line of at most *width* characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else f"{line[: width - 3]}..."
