"""What a step may call while it runs, to say how far it is and what it did."""

from __future__ import annotations

from typing import Protocol

from pydantic import JsonValue

from operations.domains import Reached
from operations.operation_log import LogLevel


class Progress(Protocol):
    """Called between units of work."""

    def __call__(
        self, done: int, total: int, note: str = "", part: Reached | None = None
    ) -> None:
        """
        Record progress, and find out whether to go on.

        Args:
            done: Finished units, 0 to *total*.
            total: Number of all units.
            note: The next unit, for people.
            part: How far that unit is; its rate and end are computed from it.

        Raises:
            CanceledError: The operation was canceled.
            ClaimLostError: Another worker took over the operation.
            TimeLimitError: The soft time limit was reached.
        """


class Say(Protocol):
    """Keeps a line in the log of the operation, for people."""

    def __call__(self, text: str, *, level: LogLevel = LogLevel.INFO) -> None:
        """
        Say *text*; it is written with the next progress, or when the step ends.

        Args:
            text: One sentence, without a secret; beyond 1,000 letters it is cut.
            level: How bad it is.
        """


class Remember(Protocol):
    """Keeps a value across the attempts of a step."""

    def __call__(self, key: str, value: JsonValue) -> None:
        """Commit *value*; the next attempt of this step finds it in ``memo[key]``."""
