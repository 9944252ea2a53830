"""
Whether a server that many operations need is available; all workers share the answer.

If a server accepts connections and then hangs, each operation that uses it occupies a
slot until its timeouts have passed. So the first one records the failure, all others
wait without a slot, and one at a time tries the server, ever less often.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import sqlalchemy as sa
import structlog
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now, reading, writing
from models.database.tables import breakers
from operations.mail.message import Fate, Mail, Sending
from operations.mail.server_pauses import LONGEST_PAUSE, PAUSES, ServerPause
from operations.ports import Mailer, SendMail
from telemetry import Event

log = structlog.get_logger()

#: Pause before the first trial, then twice that, and so on. Short, because most outages
#: are.
FIRST_PAUSE = timedelta(seconds=10)

#: How long a trial is the only one: longer than a mailer waits for one answer. If it
#: is not over by then, its process died or the server is slow, and another may try.
TRIAL = timedelta(seconds=45)


class Breaker:
    """Whether a server is available, as all processes of the installation see it."""

    def __init__(self, engine: sa.Engine, name: str) -> None:
        """Take the server's *name* in messages and in the table; read nothing yet."""
        self._engine = engine
        self._name = name
        self._here = breakers.c.name == name

    def ask(self) -> tuple[ServerPause | None, bool]:
        """
        Ask whether to use the server.

        Returns:
            The pause, if the caller must wait. Otherwise None, and whether this call is
            the trial; then the caller must call ``fail`` or ``close`` afterwards.
        """
        with reading(self._engine) as connection:
            pause = self._find(connection)
        if pause is None or pause.retry_at > pause.now:
            return pause, False
        with writing(self._engine) as connection:
            won = connection.execute(
                sa.update(breakers)
                .where(self._here, breakers.c.retry_at <= db_now())
                .values(retry_at=db_now(TRIAL))
            ).rowcount
            # If another process tries, or the server is back, the row shows it.
            return (None, True) if won else (self._find(connection), False)

    def fail(self, error: str, *, tried: bool) -> ServerPause | None:
        """Record that the server is unavailable; *tried*: this was the trial."""
        with writing(self._engine) as connection:
            row = connection.execute(
                sa.select(breakers.c.failures).where(self._here)
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
                    .where(self._here)
                    .values(
                        failures=breakers.c.failures + 1,
                        retry_at=db_now(pause),
                        error=error,
                    )
                )
            return self._find(connection)

    def close(self) -> None:
        """Record that the server is available again."""
        with writing(self._engine) as connection:
            gone = connection.execute(sa.delete(breakers).where(self._here)).rowcount
        if gone:
            log.info(Event.BREAKER_CLOSED, server=self._name)

    def _find(self, connection: sa.Connection) -> ServerPause | None:
        wanted = PAUSES.where(self._here)
        row = connection.execute(wanted).one_or_none()
        return None if row is None else ServerPause(*row)


@dataclass(frozen=True, slots=True)
class PatientMailer:
    """
    A mailer that does not call a mail server while it is unavailable.

    Args:
        mailer: The one that sends.
        breaker: Of its server.
    """

    mailer: Mailer
    breaker: Breaker

    @contextmanager
    def session(self) -> Iterator[SendMail]:
        """Return a session that asks the breaker before its first mail."""
        with self.mailer.session() as send:
            yield _PatientSession(send, self.breaker)


@dataclass(slots=True)
class _PatientSession:
    """Asks the breaker before the first mail, and again after a server failure."""

    _send: SendMail
    _breaker: Breaker
    _admitted: bool = False
    _tries: bool = False

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
            if pause is None or sending.outcome is not Fate.UNREACHABLE:
                return sending
            return _put_off(pause, mail)
        if self._tries and sending.outcome is not Fate.UNREACHABLE:
            self._breaker.close()
            self._tries = False
        return sending


def _put_off(pause: ServerPause, mail: Mail) -> Sending:
    sending = Sending(Fate.UNREACHABLE, str(pause), blames_server=True)
    return replace(sending, retry_in=pause.find_wait(mail.message_id))
