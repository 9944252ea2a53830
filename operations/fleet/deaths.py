"""
Why children of the pool die, and which process the kernel kills if memory runs out.

The kernel does not say why it kills a process. It only counts, per cgroup or per host.
"""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

#: Added to a child's OOM score (-1000 to 1000): the kernel kills it rather than its
#: parent or another process of the container. Every process may raise its own score.
_WORTH_KILLING = 300

#: Signals of a crash in C or Rust code; Polars aborts if it gets no memory.
_CRASHES = {signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL}


class Deaths:
    """
    Decides, for each lost child, whether it died because of its operation.

    Args:
        root: Root of the file system, for tests.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        """Read nothing yet."""
        self._root = root
        self._explained = 0

    def begin(self) -> None:
        """Ignore processes that were killed before now."""
        self._explained = self._count() or 0

    def explain(self, text: str) -> str | None:
        """
        Return why a child died, if its operation caused it.

        Args:
            text: The pool's error, which names the signal.

        Returns:
            The cause for people. None: somebody killed the child for other reasons.
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
        """Return how many processes were killed for memory; None if it is unknown."""
        for path in self._find_counters():
            with suppress(OSError, UnicodeDecodeError):
                found = re.search(
                    r"^oom_kill (\d+)$", path.read_text("ascii"), re.MULTILINE
                )
                if found is not None:
                    return int(found[1])
        return None

    def _find_counters(self) -> list[Path]:
        """Return the files that may contain the counter, the most exact first."""
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
    """Let the kernel kill this process rather than its parent, where it can."""
    path = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        score = int(path.read_text("ascii")) + _WORTH_KILLING
        path.write_text(str(min(score, 1000)), "ascii")
