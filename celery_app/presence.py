"""
The sign of life of this process: a row that it renews, and takes away as it stops.

The parent of a prefork pool must have no database connection open when it forks, nor
a thread that might hold a lock. So a worker renews from its event loop, which also
forks: it opens a connection, writes, and closes it again, with a short deadline.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import structlog
from celery import bootsteps
from pydantic import SecretStr

from migrations.revisions import get_newest_revision
from models.database.engine import make_engine, writing
from models.errors import MinutehandError, UnreachableError
from models.operation_state import Queue
from operations.fleet.processes import (
    RENEW_EVERY,
    Process,
    Role,
    measure_free,
    record_end,
    record_sign,
)
from settings import Settings, read_settings
from telemetry import Event

log = structlog.get_logger()

#: Longest wait for one call of a worker's parent, which does nothing else meanwhile:
#: it starts no operation, and hears of none that ended.
BRIEF = timedelta(seconds=2)

#: What all processes of a role must agree on. Not the database: one that uses another
#: has no row here.
AGREED = {
    Role.SCHEDULER: (
        *("broker_url", "queue_prefix", "timezone"),
        *("lookback", "lease_ttl", "lease_heartbeat"),
        *("maintenance_enabled", "maintenance_at", "notice_mail"),
    ),
    Role.WORKER: (
        *("broker_url", "queue_prefix", "timezone", "workspace", "retention"),
        *("operation_lease", "operation_heartbeat", "webhook_secret"),
    ),
}

Connect = Callable[[], AbstractContextManager[sa.Connection]]


def describe_settings(settings: Settings, role: Role) -> dict[str, str]:
    """
    Return what processes of *role* must agree on, by variable, as text to compare.

    Of a secret that is a digest of four bytes: enough to tell two apart, and too little
    to find it by. URLs have neither user nor password.
    """
    given = settings.model_dump(mode="json")
    return {
        f"MINUTEHAND_{name.upper()}": _describe(getattr(settings, name), given[name])
        for name in AGREED[role]
    }


def _describe(value: object, shown: object) -> str:
    if isinstance(value, SecretStr):
        secret = value.get_secret_value().encode()
        digest = blake2b(secret, digest_size=4, person=b"minutehand")
        return f"digest {digest.hexdigest()}"
    if isinstance(shown, bool):
        return str(shown).lower()
    text = "not set" if shown is None else str(shown)
    scheme, separator, rest = text.partition("://")
    return f"{scheme}{separator}{rest.rpartition('@')[2]}" if separator else text


def make_process(
    settings: Settings,
    role: Role,
    *,
    name: str | None = None,
    concurrency: int | None = None,
) -> Process:
    """Return this process; *name* is that of its host unless it has one of its own."""
    hostname = socket.gethostname()
    return Process(
        role=role,
        name=name or f"{role.value}@{hostname}",
        hostname=hostname,
        pid=os.getpid(),
        version=version("minutehand"),
        revision=get_newest_revision(),
        settings=describe_settings(settings, role),
        concurrency=concurrency,
    )


class Presence:
    """
    Tells the table that this process is there.

    Args:
        process: As it is at its start.

        connect: Gives a connection in a transaction of its own, with a deadline.

        workspace: Whose free space is told; None: not used here.
    """

    def __init__(
        self, process: Process, connect: Connect, *, workspace: Path | None = None
    ) -> None:
        """Tell nothing yet."""
        self._process = process
        self._connect = connect
        self._workspace = workspace
        self._free_bytes: int | None = None
        self._measuring: threading.Thread | None = None
        self._pauses = 0
        self._has_ended = False

    def renew(self, queues: Sequence[str] = ()) -> None:
        """
        Give a sign of life, taking operations from *queues*; never raises.

        After a failure the next call does nothing, for its caller has waited for this
        one; a process counts as alive for longer than that.
        """
        if self._has_ended:
            return
        if self._pauses:
            self._pauses -= 1
            return
        if self._workspace is not None:
            self._measure(self._workspace)
        self._process = replace(
            self._process, queues=tuple(queues), free_bytes=self._free_bytes
        )
        if not self._write(partial(record_sign, process=self._process)):
            self._pauses = 1

    def end(self) -> None:
        """Say that this process stops; never raises."""
        self._has_ended = True
        self._write(partial(record_end, process=self._process))

    def _write(self, statement: Callable[[sa.Connection], None]) -> bool:
        try:
            with self._connect() as connection:
                statement(connection)
        except (MinutehandError, sa.exc.SQLAlchemyError) as error:
            # Whatever it is, work that goes on is worth more than word of it.
            expected = isinstance(error, UnreachableError)
            text = str(error) if expected else str(getattr(error, "orig", error))
            log.warning(Event.PRESENCE_NOT_TOLD, error=text)
            return False
        return True

    def _measure(self, folder: Path) -> None:
        """Look at the free space beside us: a network that hangs keeps who asks."""
        if self._measuring is not None and self._measuring.is_alive():
            self._free_bytes = None
            return

        def look() -> None:
            self._free_bytes = measure_free(folder)

        self._measuring = threading.Thread(target=look, name="free-space", daemon=True)
        self._measuring.start()
        self._measuring.join(0.1)


@contextmanager
def connect_briefly(settings: Settings) -> Iterator[sa.Connection]:
    """Give a connection in a transaction, of which nothing is left afterwards."""
    timeout = min(BRIEF, settings.database_timeout)
    engine = make_engine(settings.database_url, timeout=timeout)
    try:
        with writing(engine) as connection:
            yield connection
    finally:
        engine.dispose()


class PresenceStep(bootsteps.StartStopStep):  # type: ignore[misc]  # Celery has no types
    """
    Gives the signs of life of a Celery worker.

    Args:
        worker: That is being made.

        minutehand_settings: Of a worker that is embedded in another process; others
            read theirs.
    """

    # before the consumer, which starts last and then loops
    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def __init__(
        self,
        worker: Any,
        minutehand_settings: Settings | None = None,
        **options: Any,
    ) -> None:
        """Do nothing yet."""
        super().__init__(worker, **options)
        self._settings = minutehand_settings
        self._presence: Presence | None = None
        self._entry: Any = None

    def start(self, worker: Any) -> None:
        """Give the first sign when messages are taken, and one every so often."""
        settings = self._settings or read_settings()
        process = make_process(
            settings,
            Role.WORKER,
            name=worker.hostname,
            concurrency=worker.concurrency,
        )
        self._presence = Presence(
            process, partial(connect_briefly, settings), workspace=settings.workspace
        )
        renew = partial(self._renew, worker)
        worker.timer.call_after(0, renew)
        self._entry = worker.timer.call_repeatedly(RENEW_EVERY.total_seconds(), renew)

    def _renew(self, worker: Any) -> None:
        assert self._presence is not None  # made as the timer was set
        self._presence.renew(find_consumed(worker.app))

    def stop(self, worker: Any) -> None:  # noqa: ARG002 - as Celery calls it
        """Take the row away."""
        if self._entry is not None:
            self._entry.cancel()
        if self._presence is not None:
            self._presence.end()
        self._entry = self._presence = None

    terminate = stop


def find_consumed(app: Any) -> list[str]:
    """Return which of our queues a worker of *app* consumes, by our names for them."""
    queues = app.amqp.queues
    consumed = queues.consume_from
    return [each.value for each in Queue if queues[each.value].name in consumed]
