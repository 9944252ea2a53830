"""
One leader among many schedulers: a lease in the database, judged by its clock.

The lease is an optimisation; the data is guarded by the fence, a number that each new
leader raises and each of its transactions checks.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.back_off import LEASE, RENEWED_EVERY
from models.database.engine import Identifier, db_now, reading, writing
from models.database.tables import leaderships, leases
from models.database.transaction import Answer, AtOnce, Transaction
from models.errors import MinutehandError
from models.occurrence import LONGEST_LOOKBACK

#: The name of the only lease.
LEASE_NAME = "scheduler"

#: Seconds before its end at which a leader stops trusting its lease, since the
#: statement that it is about to send takes time to arrive.
MARGIN_S = 1.0

_MINUTE = timedelta(minutes=1)


class LeadershipLostError(MinutehandError):
    """Another scheduler leads, or our lease ran out; nothing was written."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Who has the lease, for people; times are aware UTC."""

    hostname: str
    pid: int
    acquired_at: datetime
    heartbeat_at: datetime
    expires_at: datetime
    fence: int
    last_tick_at: datetime | None
    now: datetime

    @property
    def heartbeat_age(self) -> timedelta:
        """How long ago the lease was renewed."""
        return self.now - self.heartbeat_at

    @property
    def is_stale(self) -> bool:
        """Whether the lease ran out."""
        return self.expires_at <= self.now


class Leader:
    """
    This process's part in the election.

    Args:
        ttl: How long the lease holds without a heartbeat.
        heartbeat: How often it is renewed; a third of *ttl* at most.
        monotonic: Returns seconds that never jump; measures only how long we trust
            the lease.
    """

    def __init__(
        self,
        engine: sa.Engine,
        *,
        ttl: timedelta = LEASE,
        heartbeat: timedelta = RENEWED_EVERY,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin without the lease; ``hold`` takes it."""
        self._engine = engine
        self._ttl = ttl
        self._heartbeat_s = heartbeat.total_seconds()
        self._monotonic = monotonic
        # Random per start, never the pid: in containers everyone is pid 1.
        self._token: UUID = uuid4()
        self._fence: int | None = None
        self._trusted_until = 0.0
        self._renew_at = 0.0

    @property
    def fence(self) -> int | None:
        """The number of our leadership; None while we do not lead."""
        return self._fence

    def hold(self) -> bool:
        """
        Lead if possible: renew our lease when it is time, or take one that ran out.

        Returns:
            Whether we lead now.

        Raises:
            UnreachableError: The database is away. The lease is trusted until its end,
                and no longer.
        """
        if self._fence is not None and self._monotonic() >= self._trusted_until:
            self._fence = None
        if self._fence is None:
            self._take()
        elif self._monotonic() >= self._renew_at:
            self._renew()
        return self._fence is not None

    def check(self, connection: sa.Connection) -> int:
        """
        Keep others from leading until the transaction of *connection* ends.

        Returns:
            The fence, to be stored with what is written.

        Raises:
            LeadershipLostError: We no longer lead.
        """
        return self.ask_check(AtOnce(connection))()

    def ask_check(self, transaction: Transaction) -> Callable[[], int]:
        """Do as ``check``; call what it returns when *transaction* was waited for."""
        fence, found = self._fence, Answer()
        if fence is not None and self._monotonic() < self._trusted_until:
            found = transaction.ask(_CHECK, self._ours())

        def check() -> int:
            if fence is not None and found.rows:
                return fence
            self._fence = None
            msg = "this process no longer holds the scheduler's lease"
            raise LeadershipLostError(msg)

        return check

    def release(self) -> None:
        """Give up the lease, if it is ours, so that a standby can lead at once."""
        if self._fence is None:
            return
        with writing(self._engine) as connection:
            connection.execute(_RELEASE, self._ours())
            connection.execute(_ENDED, {"led_fence": self._fence})
        self._fence = None

    def _take(self) -> None:
        asked_at, take = self._monotonic(), _take_statement(self._ttl)
        ours = {"our_token": self._token, "host": socket.gethostname()}
        with writing(self._engine) as connection:
            ensure_lease(connection)
            taken = connection.execute(take, {**ours, "process": os.getpid()})
            fence = taken.scalar_one_or_none()
            if fence is not None:
                # In the same transaction, so that every fence has its leadership.
                connection.execute(_remember_statement(), {"led_fence": fence})
        self._fence = fence  # not before the commit, which may fail
        self._trust_from(asked_at)

    def _renew(self) -> None:
        asked_at = self._monotonic()
        with writing(self._engine) as connection:
            renewed = connection.execute(_renew_statement(self._ttl), self._ours())
        if renewed.rowcount == 1:
            self._trust_from(asked_at)
        else:
            self._fence = None

    def _trust_from(self, asked_at: float) -> None:
        self._trusted_until = asked_at + self._ttl.total_seconds() - MARGIN_S
        self._renew_at = asked_at + self._heartbeat_s

    def _ours(self) -> dict[str, object]:
        return {"our_token": self._token, "our_fence": self._fence}


_OUR_TOKEN = sa.bindparam("our_token", type_=Identifier)

#: The condition of every write of a leader; ``Leader._ours`` binds its parameters.
_IS_OURS = (
    leases.c.name == LEASE_NAME,
    leases.c.holder == _OUR_TOKEN,
    leases.c.fence == sa.bindparam("our_fence", type_=sa.BigInteger),
)

_RELEASE = sa.update(leases).where(*_IS_OURS).values(holder=None, expires_at=db_now())

_FIRST = (
    insert(leases)
    .values(name=LEASE_NAME, fence=0, expires_at=db_now())
    .on_conflict_do_nothing(index_elements=["name"])
)


def ensure_lease(connection: sa.Connection) -> None:
    """Insert the lease, already run out, if there is none yet."""
    connection.execute(_FIRST)


@cache
def _take_statement(ttl: timedelta) -> sa.Executable:
    return (
        sa.update(leases)
        .where(
            leases.c.name == LEASE_NAME,
            sa.or_(
                leases.c.expires_at <= db_now(),
                # The clock was set back, and nobody has renewed the lease since: that
                # of a dead leader would last for as long as the clock was ahead.
                leases.c.heartbeat_at > db_now(ttl),
                # We took it, and never heard so.
                leases.c.holder == _OUR_TOKEN,
            ),
        )
        .values(
            holder=_OUR_TOKEN,
            hostname=sa.bindparam("host"),
            pid=sa.bindparam("process"),
            acquired_at=db_now(),
            heartbeat_at=db_now(),
            expires_at=db_now(ttl),
            fence=leases.c.fence + 1,
            # The failure was the previous leader's.
            send_failing_since=None,
            send_error=None,
        )
        .returning(leases.c.fence)
    )


_LED_FENCE = sa.bindparam("led_fence", type_=sa.BigInteger)


@cache
def _remember_statement() -> sa.Executable:
    """Record who leads from now on, under which fence."""
    kept = (leases.c.fence, leases.c.hostname, leases.c.pid, leases.c.acquired_at)
    names = [column.name for column in kept]
    ours = leases.c.name == LEASE_NAME, leases.c.fence == _LED_FENCE
    statement = insert(leaderships).from_select(names, sa.select(*kept).where(*ours))
    # If somebody deleted the lease, fences begin again at the first.
    return statement.on_conflict_do_update(
        index_elements=["fence"],
        set_={name: statement.excluded[name] for name in names} | {"released_at": None},
    )


_ENDED = (
    sa.update(leaderships)
    .where(leaderships.c.fence == _LED_FENCE)
    .values(released_at=db_now())
)


@cache
def _renew_statement(ttl: timedelta) -> sa.Executable:
    return (
        sa.update(leases)
        .where(*_IS_OURS, leases.c.expires_at > db_now())
        .values(heartbeat_at=db_now(), expires_at=db_now(ttl))
    )


_CHECK = (
    sa.select(leases.c.fence)
    .where(*_IS_OURS, leases.c.expires_at > db_now())
    .with_for_update(read=True)
)


def write_lease(
    connection: sa.Connection, *where: sa.ColumnElement[bool], **values: object
) -> None:
    """Write *values* beside the lease, if it is as *where* says."""
    update = sa.update(leases).where(leases.c.name == LEASE_NAME, *where)
    connection.execute(update.values(values))


def record_tick(
    connection: sa.Connection,
    now: datetime,
    *,
    since: datetime | None = None,
    is_cut: bool = False,
) -> None:
    """
    Record the time of a tick, by the database's clock; call ``check`` first.

    Args:
        since: From when on ticks have followed each other, as of ``fetch_lookback``;
            aware UTC. None: nobody knows.
        is_cut: Whether it left some of what was due.
    """
    decided = {} if is_cut else {"last_tick_at": now}
    write_lease(connection, ticking_at=now, ticking_since=since, **decided)


def fetch_lookback(
    connection: sa.Connection, lookback: timedelta, *, now: datetime
) -> timedelta:
    """
    Return how old an occurrence may be at a tick of *now*, and simply run.

    It is *lookback*; and more, up to ``LONGEST_LOOKBACK``, while ticks follow each
    other. What is due then and undecided all the same, as when the end of its pause was
    written late, was not lost to an outage: nobody was away.

    Args:
        lookback: Ticks follow each other if what was due since the minute of one is not
            older at the next.
        now: Aware UTC.
    """
    row = connection.execute(
        sa.select(leases.c.ticking_at, leases.c.ticking_since).where(
            leases.c.name == LEASE_NAME
        )
    ).one_or_none()
    since: datetime | None = row and row.ticking_since
    begin = now - lookback - _MINUTE
    if row is None or since is None or not begin <= row.ticking_at <= now:
        return lookback
    return max(lookback, min(now - since, LONGEST_LOOKBACK))


def get_last_tick_at(connection: sa.Connection) -> datetime | None:
    """Return the time of the last whole tick, aware UTC; None if there was none."""
    return connection.execute(
        sa.select(leases.c.last_tick_at).where(leases.c.name == LEASE_NAME)
    ).scalar_one_or_none()


def get_latest_tick_at(connection: sa.Connection) -> datetime | None:
    """Do as ``get_last_tick_at``, but of the last tick that was, even if it was cut."""
    query = sa.select(leases.c.last_tick_at, leases.c.ticking_at)
    row = connection.execute(query.where(leases.c.name == LEASE_NAME)).one_or_none()
    return max((at for at in row or () if at is not None), default=None)


@dataclass(frozen=True, slots=True)
class SetBack:
    """
    The last time that the database's clock was set back.

    Args:
        was: What it showed before, at the last tick; aware UTC.
        to: What it showed when a leader noticed; aware UTC.
        recomputed_until: The uid of the action up to which due instants were computed
            again. None: all were.
    """

    was: datetime
    to: datetime
    recomputed_until: str | None


def record_set_back(connection: sa.Connection, set_back: SetBack) -> None:
    """Record that the clock was set back, or what was done since; first ``check``."""
    write_lease(
        connection,
        set_back_from=set_back.was,
        set_back_to=set_back.to,
        recomputed_until=set_back.recomputed_until,
    )


def get_set_back(connection: sa.Connection) -> SetBack | None:
    """Return when the clock was set back last; None if it never was."""
    kept = leases.c
    row = connection.execute(
        sa.select(kept.set_back_from, kept.set_back_to, kept.recomputed_until).where(
            kept.name == LEASE_NAME, kept.set_back_from.is_not(None)
        )
    ).one_or_none()
    return None if row is None else SetBack(*row)


@dataclass(frozen=True, slots=True)
class SendFailure:
    """Since when the leader cannot send (aware UTC), and the broker's last error."""

    since: datetime
    error: str


def record_send_failure(connection: sa.Connection, error: str) -> None:
    """Record that the broker accepted nothing, and why; call ``check`` first."""
    since = sa.func.coalesce(leases.c.send_failing_since, db_now())
    write_lease(connection, send_failing_since=since, send_error=error)


def clear_send_failure(connection: sa.Connection) -> None:
    """Record that the broker accepts messages; call ``check`` first."""
    fails = leases.c.send_failing_since.is_not(None)
    write_lease(connection, fails, send_failing_since=None, send_error=None)


def get_send_failure(connection: sa.Connection) -> SendFailure | None:
    """Return why the leader cannot send; None if it can, or never tried."""
    row = connection.execute(
        sa.select(leases.c.send_failing_since, leases.c.send_error).where(
            leases.c.name == LEASE_NAME, leases.c.send_failing_since.is_not(None)
        )
    ).one_or_none()
    return None if row is None else SendFailure(*row)


def expire_lease(connection: sa.Connection) -> None:
    """End the lease of a leader that is known to be dead; its fence stays raised."""
    is_held = leases.c.holder.is_not(None)
    write_lease(connection, is_held, holder=None, expires_at=db_now())


@dataclass(frozen=True, slots=True)
class Leadership:
    """
    Who led when, aware UTC.

    Args:
        released_at: None: it still leads, or it ended without releasing its lease, and
            the next one took over when the lease had run out.
    """

    fence: int
    hostname: str = field(metadata={"serialization_alias": "host"})
    pid: int
    acquired_at: datetime = field(metadata={"serialization_alias": "since"})
    released_at: datetime | None


def fetch_leaderships(connection: sa.Connection, *, limit: int) -> list[Leadership]:
    """Return who led, the latest first, at most *limit*."""
    rows = connection.execute(
        sa.select(leaderships).order_by(leaderships.c.fence.desc()).limit(limit)
    )
    return [Leadership(**row._mapping) for row in rows]  # noqa: SLF001 - SQLAlchemy's public name for it


def get_holder(engine: sa.Engine) -> Holder | None:
    """Return who has the lease, as ``fetch_holder``, on a connection of its own."""
    with reading(engine) as connection:
        return fetch_holder(connection)


def fetch_holder(connection: sa.Connection) -> Holder | None:
    """Return who has the lease, or let it run out; None if it was released."""
    kept = (leases.c[each.name] for each in fields(Holder) if each.name != "now")
    query: sa.Select[Any] = sa.select(*kept, db_now()).where(
        leases.c.name == LEASE_NAME, leases.c.holder.is_not(None)
    )
    row = connection.execute(query).one_or_none()
    return None if row is None else Holder(*row)


def fetch_leader(connection: sa.Connection) -> Holder | None:
    """Return who leads now; None: nobody, or one whose lease ran out."""
    holder = fetch_holder(connection)
    return None if holder is None or holder.is_stale else holder
