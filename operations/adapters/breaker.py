"""
One server that many operations need, and whether it serves: known to all workers.

Each operation that meets a server which takes connections and hangs holds a slot
for as long as its timeouts. So the first to meet it writes that down, all others
wait without a slot, and one at a time tries, ever less often.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now, reading, writing
from models.database.tables import breakers
from operations.mail.message import Mail, Outcome, Sending
from operations.ports import Mailer, SendMail
from telemetry import Event

log = structlog.get_logger()

#: Until the first trial; then twice that, and so on: short, for most outages are.
FIRST_PAUSE = timedelta(seconds=10)

#: Between two trials at most: what people bear once a server is back.
LONGEST_PAUSE = timedelta(minutes=5)

#: For so long a trial is the only one: longer than a mailer waits for one answer. If it
#: is not over then, its process died or the server is slow, and another may try.
TRIAL = timedelta(seconds=45)

#: Over so much of the time since the server went do the operations come back that
#: wait for it, so that they do not all look at once.
_SPREAD = 0.5


@dataclass(frozen=True, slots=True)
class Pause:
    """
    The server does not serve.

    Args:
        since: When it was first met so, aware UTC.

        retry_at: Somebody tries it then, aware UTC.

        now: Aware UTC, the database's clock.

        error: What was met.
    """

    name: str
    since: datetime
    retry_at: datetime
    now: datetime
    error: str

    def __str__(self) -> str:
        """Read as one line."""
        return (
            f"the {self.name} has not served since {self.since:%F %T}Z "
            f"({self.error}); tried again at {self.retry_at:%F %T}Z"
        )

    def find_wait(self, key: str) -> timedelta:
        """Return until when whoever is called *key* should wait: spread by its name."""
        spread = min((self.now - self.since) * _SPREAD, LONGEST_PAUSE)
        share = zlib.crc32(key.encode()) / (1 << 32)
        return max(self.retry_at - self.now, timedelta(seconds=1)) + spread * share


class Breaker:
    """Whether a server serves, as all processes of the installation see it."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        """Take what messages and the table call the server; nothing is looked up."""
        self._engine = engine
        self._name = name

    def ask(self) -> tuple[Pause | None, bool]:
        """
        Ask whether to go on.

        Returns:
            The pause, if so one must wait; else None, and whether this is the one
            that tries, which must call ``fail`` or ``close`` afterwards.
        """
        with reading(self._engine) as connection:
            pause = self._find(connection)
        if pause is None or pause.retry_at > pause.now:
            return pause, False
        with writing(self._engine) as connection:
            won = connection.execute(
                sa.update(breakers)
                .where(breakers.c.name == self._name, breakers.c.retry_at <= db_now())
                .values(retry_at=db_now(TRIAL))
            ).rowcount
            # If somebody else tries, or it serves again, that is there to be seen.
            return (None, True) if won else (self._find(connection), False)

    def fail(self, error: str, *, tried: bool) -> Pause | None:
        """Write down that the server does not serve; *tried*: as the one that tries."""
        with writing(self._engine) as connection:
            row = connection.execute(
                sa.select(breakers.c.failures).where(breakers.c.name == self._name)
            ).one_or_none()
            if row is None:
                opened = connection.execute(
                    insert(breakers)
                    .values(
                        name=self._name,
                        since=db_now(),
                        failures=1,
                        retry_at=db_now(FIRST_PAUSE),
                        error=error,
                    )
                    .on_conflict_do_nothing()
                ).rowcount
                if opened:
                    log.warning(Event.BREAKER_OPENED, server=self._name, error=error)
            elif tried:
                pause = min(FIRST_PAUSE * 2 ** min(row.failures, 16), LONGEST_PAUSE)
                connection.execute(
                    sa.update(breakers)
                    .where(breakers.c.name == self._name)
                    .values(
                        failures=breakers.c.failures + 1,
                        retry_at=db_now(pause),
                        error=error,
                    )
                )
            return self._find(connection)

    def close(self) -> None:
        """Write down that the server serves again."""
        with writing(self._engine) as connection:
            gone = connection.execute(
                sa.delete(breakers).where(breakers.c.name == self._name)
            ).rowcount
        if gone:
            log.info(Event.BREAKER_CLOSED, server=self._name)

    def _find(self, connection: sa.Connection) -> Pause | None:
        row: sa.Row[Any] | None = connection.execute(
            sa.select(breakers, db_now().label("now")).where(
                breakers.c.name == self._name
            )
        ).one_or_none()
        if row is None:
            return None
        return Pause(self._name, row.since, row.retry_at, row.now, row.error)


def fetch_pauses(connection: sa.Connection) -> list[Pause]:
    """Return every server that does not serve, by name."""
    rows = connection.execute(
        sa.select(breakers, db_now().label("now")).order_by(breakers.c.name)
    )
    return [Pause(r.name, r.since, r.retry_at, r.now, r.error) for r in rows]


class PatientMailer:
    """A mailer that hands nothing to a mail server which does not serve."""

    def __init__(self, mailer: Mailer, breaker: Breaker) -> None:
        """Take the one that does it, and what is known of its server."""
        self._mailer = mailer
        self._breaker = breaker

    def session(self) -> AbstractContextManager[SendMail]:
        """Return a session that asks before its first mail."""
        return self._open()

    @contextmanager
    def _open(self) -> Iterator[SendMail]:
        with self._mailer.session() as send:
            yield _PatientSession(send, self._breaker)


class _PatientSession:
    """Asks before the first mail, and again once the server is to blame."""

    def __init__(self, send: SendMail, breaker: Breaker) -> None:
        self._send = send
        self._breaker = breaker
        self._admitted = False
        self._tries = False

    def __call__(self, mail: Mail, *, now: datetime) -> Sending:
        """Send *mail*, or say when to try again; see :class:`ports.SendMail`."""
        if not self._admitted:
            pause, self._tries = self._breaker.ask()
            if pause is not None:
                return _put_off(pause, mail)
            self._admitted = True
        sending = self._send(mail, now=now)
        if sending.blames_server:
            pause = self._breaker.fail(sending.detail, tried=self._tries)
            self._admitted = self._tries = False
            if pause is None or sending.outcome is not Outcome.UNREACHABLE:
                return sending
            return _put_off(pause, mail)
        if self._tries and sending.outcome is not Outcome.UNREACHABLE:
            self._breaker.close()
            self._tries = False
        return sending


def _put_off(pause: Pause, mail: Mail) -> Sending:
    sending = Sending(Outcome.UNREACHABLE, str(pause), blames_server=True)
    return replace(sending, retry_in=pause.find_wait(mail.message_id))
