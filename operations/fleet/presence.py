"""The sign of life of this process: a row that it renews, and removes at its end."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from pathlib import Path

import sqlalchemy as sa
import structlog
from pydantic import BaseModel

from migrations.schema_revisions import get_newest_revision
from models.errors import MinutehandError, UnreachableError
from operations.fleet import processes
from telemetry import Event

log = structlog.get_logger()

#: Seconds to the next try after a sign that could not be given; or so many times as
#: long as that was waited for, if that is longer.
AGAIN_S = 5.0
REST = 4

Connect = Callable[[], AbstractContextManager[sa.Connection]]


def make_process(
    settings: BaseModel,
    role: processes.ProcessRole,
    *,
    name: str | None = None,
    concurrency: int | None = None,
) -> processes.Process:
    """Return this process; without *name*, its name is its role and its host."""
    hostname = socket.gethostname()
    return processes.Process(
        role=role,
        name=name or f"{role.value}@{hostname}",
        hostname=hostname,
        pid=os.getpid(),
        version=version("minutehand"),
        revision=get_newest_revision(),
        settings=processes.describe_settings(settings, role),
        concurrency=concurrency,
    )


@dataclass(slots=True)
class Presence:
    """
    Records in the table that this process is alive.

    Args:
        process: This process, as at its start.
        connect: Gives a connection in a transaction of its own, with a deadline.
        workspace: The folder whose free space is recorded. None: it is not used here.
        monotonic: Returns seconds that never jump.
    """

    process: processes.Process
    connect: Connect
    workspace: Path | None = None
    monotonic: Callable[[], float] = time.monotonic
    _free_bytes: int | None = field(default=None, init=False)
    _measuring: threading.Thread | None = field(default=None, init=False)
    _has_ended: bool = field(default=False, init=False)
    _is_drained: bool = field(default=False, init=False)
    _renew_at: float = field(default=float("-inf"), init=False)

    @property
    def pause_s(self) -> float:
        """How many seconds there are until the next sign is due."""
        return max(0.0, self._renew_at - self.monotonic())

    def keep(self) -> None:
        """Give a sign of life if one is due; called in a loop, never raises."""
        if not self.pause_s:
            self.renew()

    def renew(self, queues: Sequence[str] = ()) -> bool:
        """
        Record that this process is alive and consumes *queues*; never raises.

        After a failure the next sign is due soon, or the process would count as gone
        long after the database is back; but the caller waits for a small part of its
        time only.

        Returns:
            Whether it is asked to take nothing new, as far as is known.
        """
        if self._has_ended:
            return self._is_drained
        began = self.monotonic()
        if self.workspace is not None:
            self._measure(self.workspace)
        self.process = replace(
            self.process, queues=tuple(queues), free_bytes=self._free_bytes
        )
        is_told, ended = self._write(self._sign), self.monotonic()
        again_s = max(AGAIN_S, (ended - began) * REST)
        every_s = processes.RENEW_EVERY.total_seconds()
        self._renew_at = ended + (every_s if is_told else min(again_s, every_s))
        return self._is_drained

    def _sign(self, connection: sa.Connection) -> None:
        self._is_drained = processes.record_sign(connection, self.process)

    def end(self) -> None:
        """Say that this process stops; never raises."""
        self._has_ended = True
        self._write(partial(processes.record_end, process=self.process))

    def _write(self, statement: Callable[[sa.Connection], None]) -> bool:
        try:
            with self.connect() as connection:
                statement(connection)
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            # Whatever went wrong, the work matters more than its sign of life.
            expected = isinstance(error, UnreachableError)
            text = str(error) if expected else str(getattr(error, "orig", error))
            log.warning(Event.PRESENCE_NOT_TOLD, error=text)
            return False
        return True

    def _measure(self, folder: Path) -> None:
        """Measure the free space in a thread, because a hanging network would block."""
        if self._measuring is not None and self._measuring.is_alive():
            self._free_bytes = None
            return

        def look() -> None:
            self._free_bytes = processes.measure_free(folder)

        self._measuring = threading.Thread(target=look, name="free-space", daemon=True)
        self._measuring.start()
        self._measuring.join(0.1)
