"""
What the parent of the worker processes does when a child has died, and of what.

A child that was killed cannot report it, and its lease runs out only later. The parent
knows at once. It opens a database connection for one write and closes it again, because
no connection may be open when it forks the next child.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from uuid import UUID, uuid4

import structlog
from billiard.exceptions import TimeLimitExceeded, WorkerLostError
from celery.signals import (
    task_failure,
    worker_init,
    worker_process_init,
    worker_shutting_down,
)

from models.database.engine import make_engine, writing
from models.errors import UnreachableError
from operations.rescue import (
    count_kill,
    expire_claim,
    fail_at_time_limit,
    give_back_all,
)
from settings import read_settings
from telemetry import Event

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
        found = (
            mount / path.lstrip("/") / "memory.events"
            for path in re.findall(r"^0::(.*)$", groups, re.MULTILINE)
        )
        return [*found, self._root / "proc/vmstat"]


def offer_first() -> None:
    """Let the kernel kill this process rather than its parent, where it can."""
    path = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        score = int(path.read_text("ascii")) + _WORTH_KILLING
        path.write_text(str(min(score, 1000)), "ascii")


log = structlog.get_logger()

#: Identifies this start of the worker; children inherit it. The node name is not
#: enough: two workers may share one, and a restarted worker has the same name.
_RUN = f"({uuid4().hex[:8]})"


_deaths = Deaths()


@worker_init.connect
def _on_start(**_arguments: object) -> None:
    """Count what was killed for memory before our first child."""
    _deaths.begin()


@worker_process_init.connect
def _on_child(**_arguments: object) -> None:
    """Let the kernel kill a child rather than its parent, which can report it."""
    offer_first()


def make_worker_name(node: str) -> str:
    """Return the name under which the children of this process claim, on *node*."""
    return f"{node} {_RUN}"


@task_failure.connect
def _on_failure(
    task_id: str = "", exception: BaseException | None = None, **_arguments: object
) -> None:
    """Settle the operation of a killed child; other failures settle themselves."""
    if isinstance(exception, TimeLimitExceeded):
        _write(fail_at_time_limit, operation_id=UUID(task_id))
    elif isinstance(exception, WorkerLostError):
        cause = _deaths.explain(str(exception))
        if cause is None:
            _write(expire_claim, operation_id=UUID(task_id))
        else:
            _write(count_kill, operation_id=UUID(task_id), cause=cause)


@worker_shutting_down.connect
def _on_shutdown(how: str = "", **_arguments: object) -> None:
    """Give back what the children ran; in a cold shutdown they are already dead."""
    if how == "Cold":
        _write(give_back_all)


def _write(settle: Callable[..., int], **arguments: object) -> None:
    settings = read_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    try:
        with writing(engine) as connection:
            count = settle(connection, worker_suffix=_RUN, **arguments)
    except UnreachableError as error:
        # Only time is lost: the leases run out.
        log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    else:
        if count:
            log.warning(Event.CHILD_LOST, settled=settle.__name__, count=count)
    finally:
        engine.dispose()
