"""
What the steps of an attempt have said and nobody has written yet.

Lines are written together with what is written about the steps anyway. So an operation
that says nothing costs nothing, and one that says much never holds many in memory.
"""

from __future__ import annotations

import traceback
from collections import deque
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from uuid import UUID

import sqlalchemy as sa

from operations.operation_log import (
    FIRST_KEPT,
    LAST_KEPT,
    LogLevel,
    LogLine,
    shorten,
    write_lines,
)

#: Where our own code is: frames of a trace that are elsewhere are left out.
_HOME = Path(__file__).resolve().parents[2]
_OURS = {"actions", "celery_app", "models", "operations"}

#: Our own frames that are shown of a trace, the innermost; and letters of its message.
_FRAMES_SHOWN = 8
_MESSAGE_SHOWN = 400


@dataclass(slots=True)
class SpokenLines:
    """
    The lines of one attempt.

    Args:
        attempt: Its number.
    """

    attempt: int
    _first: list[LogLine] = field(default_factory=list)
    _last: deque[LogLine] = field(default_factory=lambda: deque(maxlen=LAST_KEPT))
    _count: int = 0
    _has_written: bool = False

    def copy(self) -> SpokenLines:
        """Return them as they are now, to be written again if a commit fails."""
        return replace(self)

    def __bool__(self) -> bool:
        """Return whether there is something to write."""
        return self._count > 0

    @property
    def says_no_more_than_the_result(self) -> bool:
        """
        Whether this is the one line of a step that succeeded at once.

        Its result says the same, and it would cost as much to write as all the rest.
        """
        return (
            self._count == 1
            and not self._has_written
            and self.attempt == 1
            and self._first[0].level is LogLevel.INFO
        )

    def add(
        self, text: str, *, at: datetime, step: str | None, level: LogLevel
    ) -> None:
        """Keep a line until ``write``, if it is among the first or the last."""
        self._count += 1
        line = LogLine(self._count, at, self.attempt, step, level, shorten(text))
        if len(self._first) < FIRST_KEPT:
            self._first.append(line)
        else:
            self._last.append(line)

    def write(self, connection: sa.Connection, operation_id: UUID) -> None:
        """Write what was said, if anything was; call ``guard`` first."""
        if self._count:
            write_lines(connection, operation_id, [*self._first, *self._last])
            self.forget()
            self._has_written = True

    def forget(self) -> None:
        """Drop what was said."""
        # new lists, for a copy has the old ones
        self._first, self._count = [], 0
        self._last = deque(maxlen=LAST_KEPT)


def describe_crash(error: BaseException) -> str:
    """Return an error with the frames of its trace that are ours, innermost last."""
    message = f"{type(error).__name__}: {error}"
    if len(message) > _MESSAGE_SHOWN:
        message = f"{message[:_MESSAGE_SHOWN]} …"
    named = map(_name, traceback.extract_tb(error.__traceback__))
    frames = [f"  {each}" for each in named if each is not None]
    return "\n".join([message, *frames[-_FRAMES_SHOWN:]])


def _name(frame: traceback.FrameSummary) -> str | None:
    path = Path(frame.filename)
    if not path.is_relative_to(_HOME):
        return None
    path = path.relative_to(_HOME)
    if path.parts[0] not in _OURS:
        return None
    return f"{path}:{frame.lineno} in {frame.name}"
