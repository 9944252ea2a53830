"""Write how far a step is, and notice that its operation was canceled."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import JsonValue

from models.database.engine import writing
from operations.claiming.claim import guard
from operations.domains import Reached
from operations.running.pace import Pace, describe_part
from operations.running.step_records import record_progress

if TYPE_CHECKING:
    from operations.running.attempt import Attempt

#: Seconds between two writes of progress, which also notice a cancellation.
PROGRESS_EVERY_S = 1.0


class ProgressPoints:
    """Those of one step in one attempt; see ports.Progress."""

    def __init__(self, attempt: Attempt, step: str) -> None:
        """Write nothing yet."""
        self._attempt = attempt
        self._step = step
        self._written_at = float("-inf")
        self._pace = Pace()

    def __call__(
        self, done: int, total: int, note: str = "", part: Reached | None = None
    ) -> None:
        """Note a point; write it if the last one was written long enough ago."""
        self._attempt.check_time()
        now = self._attempt.monotonic()
        progress: dict[str, JsonValue] = {"done": done, "total": total, "note": note}
        if part is not None:
            measured = self._pace.measure(note, part, at=now)
            progress["note"] = describe_part(note, part, measured)
            progress["part"] = measured
        if now - self._written_at < PROGRESS_EVERY_S and done < total:
            return
        self._written_at = now
        with writing(self._attempt.engine) as connection:
            guard(connection, self._attempt.claim)
            record_progress(connection, self._attempt.claim, self._step, progress)
            self._attempt.write_log(connection)
