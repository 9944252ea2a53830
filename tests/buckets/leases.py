"""
A lease and a fence for each bucket of small apps, as docs/scale.md describes them.

No part of the product, which has one leader: what is tried here is who may decide for
which apps, and how that moves from one scheduler to another.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import Identifier, db_now, writing
from models.database.tables import leases

#: 256 for a company; as few as the apps of a small world share.
BUCKETS = 8

TTL = timedelta(seconds=60)


def find_bucket(app: str) -> int:
    """Return the bucket of small app *app*: the same in every process, for ever."""
    return int.from_bytes(hashlib.sha256(app.encode()).digest()[:4]) % BUCKETS


def find_preferred(bucket: int, live: Sequence[str]) -> str:
    """
    Return which of the schedulers *live* should have *bucket*.

    The highest of a random weight for each pair (rendezvous hashing): when one joins
    or leaves, only the buckets move that are its own.
    """

    def weigh(name: str) -> bytes:
        return hashlib.sha256(f"{bucket} {name}".encode()).digest()

    return max(live, key=weigh)


class BucketLeases:
    """
    The part of one scheduler in the election for each bucket.

    A row of ``leases`` for each bucket, and one for each scheduler, which says that it
    lives. One that leads a bucket and finds another to be preferred gives it up between
    two ticks; nobody takes what has not been given up, or run out.
    """

    def __init__(self, engine: sa.Engine, name: str, token: UUID) -> None:
        """Begin without a bucket."""
        self._engine = engine
        self.name = name
        self.token = token
        self.fences: dict[int, int] = {}

    def hold(self) -> None:
        """Renew what is ours, give up what another should have, take what is free."""
        with writing(self._engine) as connection:
            self._beat(connection)
            self._renew(connection)
            live = self._read_live(connection)
            wanted = {
                bucket
                for bucket in range(BUCKETS)
                if find_preferred(bucket, live) == self.name
            }
            for bucket in sorted(self.fences.keys() - wanted):
                self._release(connection, bucket)
            for bucket in sorted(wanted - self.fences.keys()):
                self._take(connection, bucket)

    def check(
        self, connection: sa.Connection, fences: Mapping[int, int]
    ) -> dict[int, int]:
        """Return those of *fences* that hold, and keep them so to the commit."""
        held = connection.execute(_CHECK, {"ours": self.token})
        return _keep_held(fences, held.all())

    def stop(self) -> None:
        """Give up all, as at the end of a deployment's old process."""
        with writing(self._engine) as connection:
            for bucket in sorted(self.fences):
                self._release(connection, bucket)
            connection.execute(_LEAVE, {"row": f"scheduler {self.name}"})

    def _beat(self, connection: sa.Connection) -> None:
        connection.execute(_BEAT, {"row": f"scheduler {self.name}"})

    def _read_live(self, connection: sa.Connection) -> list[str]:
        rows = connection.execute(_LIVE)
        return [name.removeprefix("scheduler ") for name in rows.scalars()]

    def _renew(self, connection: sa.Connection) -> None:
        # By our token: each start makes a new one, so it is of this process alone.
        renewed = connection.execute(_RENEW, {"ours": self.token})
        self.fences = _keep_held(self.fences, renewed.all())

    def _release(self, connection: sa.Connection, bucket: int) -> None:
        fence = self.fences.pop(bucket)
        connection.execute(_RELEASE, {**self._of(bucket), "led": fence})

    def _take(self, connection: sa.Connection, bucket: int) -> None:
        found = connection.execute(TAKE, self._of(bucket))
        fence = found.scalar_one_or_none()
        if fence is not None:
            self.fences[bucket] = fence

    def _of(self, bucket: int) -> dict[str, object]:
        return {"row": f"bucket {bucket}", "ours": self.token}


def _keep_held(fences: Mapping[int, int], rows: Sequence[Any]) -> dict[int, int]:
    held = {tuple(row) for row in rows}
    return {
        bucket: fence
        for bucket, fence in fences.items()
        if (f"bucket {bucket}", fence) in held
    }


_ROW = leases.c.name == sa.bindparam("row")
_OURS = leases.c.holder == sa.bindparam("ours", type_=Identifier)
_HOLDS = leases.c.expires_at > db_now()

_CHECK = (
    sa.select(leases.c.name, leases.c.fence)
    .where(_OURS, _HOLDS)
    .with_for_update(read=True)
)
_RENEW = (
    sa.update(leases)
    .where(_OURS, _HOLDS)
    .values(expires_at=db_now(TTL))
    .returning(leases.c.name, leases.c.fence)
)
_RELEASE = (
    sa.update(leases)
    .where(_ROW, _OURS, leases.c.fence == sa.bindparam("led"))
    .values(holder=None, expires_at=db_now())
)


def make_take(*, is_free: sa.ColumnElement[bool] = ~_HOLDS, by: int = 1) -> sa.Update:
    """Return the statement that takes a bucket that *is_free*, and raises its fence."""
    return (
        sa.update(leases)
        .where(_ROW, is_free)
        .values(
            holder=sa.bindparam("ours", type_=Identifier),
            fence=leases.c.fence + by,
            expires_at=db_now(TTL),
        )
    )


TAKE = make_take().returning(leases.c.fence)
_BEAT = (
    insert(leases)
    .values(name=sa.bindparam("row"), fence=0, expires_at=db_now(TTL))
    .on_conflict_do_update(index_elements=["name"], set_={"expires_at": db_now(TTL)})
)
_LEAVE = sa.delete(leases).where(_ROW)
_LIVE = (
    sa.select(leases.c.name)
    .where(leases.c.name.startswith("scheduler "), _HOLDS)
    .order_by(leases.c.name)
)
