"""
Requests that are repeated: each is done once, and answered each time.

A client that got no answer sends its request again with the same Idempotency-Key. The
first one to insert the row of that key does the work, and stores its answer; the others
find the row. The row is committed before the work begins, so it is found by whoever
comes meanwhile, in whichever process.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert as postgresql_insert
from sqlalchemy.dialects.sqlite import insert as sqlite_insert

from models.database.engine import db_now, writing
from models.database.tables import idempotency_keys
from models.errors import UsageError
from operations.steps.maintenance import ANSWER_AGE

#: A request that has had no answer for so long died with its process. Requests are
#: bounded far below that: each statement has a deadline of seconds.
CRASHED_AFTER = timedelta(seconds=60)

#: Characters of an Idempotency-Key; those that programs make have 36.
LONGEST_KEY = 255

#: Characters of an answer that are kept. A longer one is not repeated, only that it
#: was given.
LONGEST_BODY = 1_000_000

#: How often a request looks again when the one before it is abandoned meanwhile.
_LOOKS = 3

_key = idempotency_keys.c


@dataclass(frozen=True, slots=True)
class Fresh:
    """
    Do the work, and then call ``finish`` or ``abandon`` with this.

    Args:
        owner: Whose key it is.
        key: The Idempotency-Key.
        begun_at: When the work began, by the clock of the database; who takes over
            after a crash has another.
    """

    owner: str
    key: str
    begun_at: datetime


@dataclass(frozen=True, slots=True)
class Repeated:
    """
    The work was done: answer as it was answered.

    Args:
        status: Of HTTP.
        headers: Those that were kept.
        body: None: it was longer than LONGEST_BODY, or had a secret.
    """

    status: int
    headers: Mapping[str, str]
    body: str | None


@dataclass(frozen=True, slots=True)
class StillRunning:
    """Another one does the work at this moment."""


@dataclass(frozen=True, slots=True)
class OtherBody:
    """The key was used for another request."""


Outcome = Fresh | Repeated | StillRunning | OtherBody


def begin(engine: sa.Engine, owner: str, key: str, request: str) -> Outcome:
    """
    Decide whether a request is to be done.

    Args:
        engine: Written to, in a transaction of its own, committed on return.
        owner: Whose key it is (``Caller.owner``): others may use the same.
        key: The Idempotency-Key, 1 to LONGEST_KEY printable characters of ASCII.
        request: Digest of method, address and body.

    Raises:
        UsageError: *key* is empty, too long, or has other characters.
    """
    if not (0 < len(key) <= LONGEST_KEY and key.isascii() and key.isprintable()):
        raise UsageError(
            f"an Idempotency-Key has 1 to {LONGEST_KEY} printable characters of ASCII;"
            f" this one has {len(key)} characters. A random UUID is a good one."
        )
    with writing(engine) as connection:
        for _ in range(_LOOKS):
            begun_at = connection.execute(
                _make_taking(connection.dialect.name),
                {"owner": owner, "new_key": key, "new_request": request},
            ).scalar_one_or_none()
            if begun_at is not None:
                return Fresh(owner, key, begun_at)
            row = connection.execute(_SELECT, {"owner": owner, "its_key": key}).first()
            if row is not None:
                return _judge(row, request)
            # it was abandoned between the two statements
    return StillRunning()


def finish(
    engine: sa.Engine,
    fresh: Fresh,
    *,
    status: int,
    headers: Mapping[str, str],
    body: str | None,
) -> bool:
    """
    Store the answer, and return whether that is still ours to do.

    Args:
        engine: Written to, in a transaction of its own.
        fresh: What ``begin`` returned.
        status: Of HTTP.
        headers: Those to repeat: few, and without secrets.
        body: Kept if it is not longer than LONGEST_BODY. None: it has a secret.
    """
    values = {
        "status": status,
        "headers": dict(headers),
        "body": body if len(body or "") <= LONGEST_BODY else None,
    }
    statement = sa.update(idempotency_keys).where(*_ours(fresh)).values(values)
    with writing(engine) as connection:
        return connection.execute(statement).rowcount == 1


def abandon(engine: sa.Engine, fresh: Fresh) -> None:
    """Forget a request that failed through no fault of its own: it may be repeated."""
    with writing(engine) as connection:
        connection.execute(sa.delete(idempotency_keys).where(*_ours(fresh)))


def _ours(fresh: Fresh) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the condition for the row of *fresh*, unless others took it over."""
    return (
        _key.caller == fresh.owner,
        _key.key == fresh.key,
        _key.created_at == fresh.begun_at,
        _key.status.is_(None),
    )


def _judge(row: sa.Row[*tuple[Any, ...]], request: str) -> Outcome:
    if row.request != request:
        return OtherBody()
    if row.status is None:
        return StillRunning()
    return Repeated(row.status, row.headers, row.body)


_SELECT = sa.select(_key.request, _key.status, _key.headers, _key.body).where(
    _key.caller == sa.bindparam("owner"), _key.key == sa.bindparam("its_key")
)


@cache
def _make_taking(dialect: str) -> sa.Executable:
    """Return what inserts the row, or takes over one that is free; else nothing."""
    insert = postgresql_insert if dialect == "postgresql" else sqlite_insert
    values: dict[str, Any] = {
        "request": sa.bindparam("new_request"),
        "created_at": db_now(),
        "status": None,
        "headers": sa.null(),
        "body": None,
    }
    is_free = sa.or_(
        _key.created_at <= db_now(-ANSWER_AGE),
        sa.and_(_key.status.is_(None), _key.created_at <= db_now(-CRASHED_AFTER)),
    )
    return (
        insert(idempotency_keys)
        .values(caller=sa.bindparam("owner"), key=sa.bindparam("new_key"), **values)
        .on_conflict_do_update(
            index_elements=["caller", "key"], set_=values, where=is_free
        )
        .returning(_key.created_at)
    )
