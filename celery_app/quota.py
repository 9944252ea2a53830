"""What may be done now, and what must wait, lest it be done in a loop. Pure."""

from __future__ import annotations


class Quota:
    """
    Each thing once within a while, and so many of them at most.

    Args:
        every_s: The while, in seconds.

        most: Things within any such while.
    """

    def __init__(self, *, every_s: float, most: int) -> None:
        """Let the first things pass."""
        self._every_s = every_s
        self._most = most
        self._until: dict[str, float] = {}

    def ask(self, thing: str, *, now: float) -> float:
        """
        Count *thing* if it may be done now.

        Args:
            thing: By whatever tells it from others.

            now: Seconds of a clock that never jumps.

        Returns:
            0, or the seconds until it may be done; then it was not counted.
        """
        self._until = {each: at for each, at in self._until.items() if at > now}
        if thing in self._until:
            return self._until[thing] - now
        if len(self._until) >= self._most:
            return min(self._until.values()) - now
        self._until[thing] = now + self._every_s
        return 0.0
