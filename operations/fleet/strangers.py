"""What comes to our workers and is not ours; they record it for doctor."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import timedelta
from enum import StrEnum

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now, read_clock
from models.database.tables import strangers

#: Workers record a stranger once a minute while it is there; older ones are gone.
_FRESH = timedelta(minutes=2)

_KEPT = timedelta(days=1)


class StrangerReason(StrEnum):
    """Why a message is not ours."""

    OTHER_INSTALLATION = "other installation"
    UNKNOWN_TASK = "unknown task"
    UNREADABLE = "unreadable"
    COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Stranger:
    """
    A message in *queue* (its name on the broker) that is not ours.

    *name* is the other installation's id, the task's name, what is wrong, or the
    command; then *queue* is where commands come.
    """

    queue: str
    reason: StrangerReason
    name: str

    @property
    def hint(self) -> str:
        """What it means, and what to do."""
        queue, name = self.queue, self.name
        purge = f"celery --app celery_app purge -Q {queue}"
        match self.reason:
            case StrangerReason.OTHER_INSTALLATION:
                return (
                    f"Installation {name} sends to {queue} too. Give each installation "
                    "a MINUTEHAND_QUEUE_PREFIX or a broker of its own. If the other is "
                    f"gone, run: {purge} (our own messages are sent again)."
                )
            case StrangerReason.UNKNOWN_TASK:
                return (
                    f"Somebody sends the task {name!r} to {queue}, and our workers do "
                    "not know it. Send it to a queue of its own project. To remove it, "
                    f"run: {purge} (our own messages are sent again)."
                )
            case StrangerReason.UNREADABLE:
                return (
                    f"A message in {queue} could not be read: {name}. Find out who "
                    "sends to our queues. It was put aside, which is shown by: "
                    "minutehand queues aside"
                )
            case StrangerReason.COMMAND:
                return (
                    f"Somebody sends {name!r} to our workers ({queue}); they answer "
                    "questions, and obey no command. To stop a worker, send it "
                    "SIGTERM; to let it rest, run: minutehand workers drain NAME. If "
                    "it was none of you, find out who else may use the broker."
                )


def record_stranger(
    connection: sa.Connection, stranger: Stranger, *, worker: str
) -> None:
    """Record that *worker* has just met *stranger*; remove those of yesterday."""
    now = read_clock(connection)
    connection.execute(sa.delete(strangers).where(strangers.c.seen_at < now - _KEPT))
    values = {"worker": worker, "seen_at": db_now()}
    connection.execute(
        insert(strangers)
        .values(**asdict(stranger), **values)
        .on_conflict_do_update(index_elements=["queue", "reason", "name"], set_=values)
    )


def fetch_strangers(connection: sa.Connection) -> list[Stranger]:
    """Return the strangers that workers have met within two minutes, by queue."""
    since = read_clock(connection) - _FRESH
    rows = connection.execute(
        sa.select(strangers)
        .where(strangers.c.seen_at >= since)
        .order_by(strangers.c.queue, strangers.c.reason, strangers.c.name)
    )
    return [Stranger(row.queue, StrangerReason(row.reason), row.name) for row in rows]
