"""
What children of the pool die of, and which of us the kernel kills when memory ends.

The kernel does not say why it kills. It counts: in our cgroup, or of the host.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

#: Added to what a child is worth killing (of -1000 to 1000), so that its parent, and
#: what else is in the container, is worth less. Anybody may raise it.
_WORTH_KILLING = 300

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

#: Of a crash in C or Rust code: Polars aborts if it gets no memory.
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL}


class Deaths:
    """
    Tells of each child that was lost whether it died of its operation.

    Args:
        root: Of the file system, for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Read nothing yet."""
        self._root = root
        self._explained = 0

    def begin(self) -> None:
        """Leave out what was killed before now."""
        self._explained = self._count() or 0

    def explain(self, text: str) -> str | None:
        """
        Return what a child died of, if that was its operation's doing.

        Args:
            text: Of the pool's error, which names the signal.

        Returns:
            None: somebody killed it who had other reasons.
        """
        found = re.search(r"signal (\d+)", text)
        if found is None:
            return None
        number = int(found[1])
        if number in _CRASHES:
            return f"signal {number}, {signal.Signals(number).name}"
        if number != signal.SIGKILL:
            return None
        killed = self._count()
        if killed is None:
            return "signal 9, most likely out of memory"
        if killed <= self._explained:
            return None
        self._explained += 1
        return "out of memory"

    def _count(self) -> int | None:
        """Return how many processes were killed for memory; None if nobody says."""
        for path in self._find_counters():
            with suppress(OSError, UnicodeDecodeError):
                found = re.search(
                    r"^oom_kill (\d+)$", path.read_text("ascii"), re.MULTILINE
                )
                if found is not None:
                    return int(found[1])
        return None

    def _find_counters(self) -> list[Path]:
        """Return files that may count, the most exact first."""
        groups = ""
        with suppress(OSError):
            groups = (self._root / "proc/self/cgroup").read_text("utf-8", "replace")
        mount = self._root / "sys/fs/cgroup"
        found = [
            mount / path.lstrip("/") / "memory.events"
            for path in re.findall(r"^0::(.*)$", groups, re.MULTILINE)
        ]
        for path in re.findall(r"^\d+:memory:(.*)$", groups, re.MULTILINE):
            folder = mount / "memory"
            found += [
                folder / path.lstrip("/") / "memory.oom_control",
                folder / "memory.oom_control",
            ]
        return [*found, self._root / "proc/vmstat"]


def offer_first() -> None:
    """Let the kernel kill this process rather than its parent; not all systems can."""
    path = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        score = int(path.read_text("ascii")) + _WORTH_KILLING
        path.write_text(str(min(score, 1000)), "ascii")
