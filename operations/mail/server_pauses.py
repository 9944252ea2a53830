"""
Mail servers, and outside monitors, that are left alone.

operations/adapters/breaker.py decides when.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from datetime import datetime, timedelta

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import breakers

#: Longest pause between two trials: people accept that delay once a server is back.
LONGEST_PAUSE = timedelta(minutes=5)

#: Begins the names of monitors.
MONITOR = "monitor"

#: Waiting operations return spread over this part of the outage so far: they must not
#: all return at once.
_SPREAD = 0.5


@dataclass(frozen=True, slots=True)
class ServerPause:
    """
    A server is not available.

    Args:
        name: What messages call the server.
        since: When it first failed, aware UTC.
        retry_at: When the next operation tries it, aware UTC.
        now: The database's clock, aware UTC.
        error: Its latest error.
    """

    name: str
    since: datetime
    retry_at: datetime
    now: datetime
    error: str

    def __str__(self) -> str:
        """Return one line for people."""
        return (
            f"the {self.name} has been unavailable since {self.since:%F %T}Z "
            f"({self.error}); the next try is at {self.retry_at:%F %T}Z"
        )

    def find_wait(self, key: str) -> timedelta:
        """Return how long the operation of mail *key* should wait, spread by *key*."""
        spread = min((self.now - self.since) * _SPREAD, LONGEST_PAUSE)
        share = zlib.crc32(key.encode()) / (1 << 32)
        return max(self.retry_at - self.now, timedelta(seconds=1)) + spread * share


#: Selects the pauses of all that is left alone, as ``ServerPause`` takes them.
PAUSES = sa.select(
    breakers.c.name, breakers.c.since, breakers.c.retry_at, db_now(), breakers.c.error
)


def fetch_pauses(connection: sa.Connection) -> list[ServerPause]:
    """Return every mail server that is unavailable, by name."""
    wanted = PAUSES.where(~breakers.c.name.startswith(f"{MONITOR} "))
    rows = connection.execute(wanted.order_by(breakers.c.name))
    return [ServerPause(*row) for row in rows]
