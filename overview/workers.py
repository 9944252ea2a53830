"""Workers and what each of them runs now."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from operations.fleet.processes import Role, Seen, fetch_processes
from overview.figures import Running, RunningJson, fetch_running
from overview.status import ProcessJson, make_process_json

#: The most operations that are looked at, the longest running first.
_MOST = 1000


class WorkerJson(ProcessJson):
    """A worker, alive or gone without signing off, and what it runs."""

    running: list[RunningJson]


@dataclass(frozen=True, slots=True)
class WorkerAtWork:
    """A worker, and the operations that it runs, the longest running first."""

    seen: Seen
    running: Sequence[Running]

    def as_json(self) -> WorkerJson:
        """Return the documented object; keys are only added."""
        return {
            **make_process_json(self.seen),
            "running": [each.as_json() for each in self.running],
        }


def fetch_workers(connection: sa.Connection) -> list[WorkerAtWork]:
    """Return every worker that has a row, by name."""
    running: defaultdict[str | None, list[Running]] = defaultdict(list)
    for each in fetch_running(connection, limit=_MOST):
        running[each.worker].append(each)
    return [
        WorkerAtWork(seen, running[seen.process.name] if seen.is_alive else ())
        for seen in fetch_processes(connection)
        if seen.process.role is Role.WORKER
    ]
