"""
The record of changes: who changed what, kept for good and chained by hashes.

A function that changes something for somebody notes that with ``note_change``, in its
transaction. What was noted is appended at the very end of the transaction, so that the
one row that all changes must pass, the head of the chain, is locked for an instant
only. Whoever alters, inserts or removes a row later breaks the chain.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from models.database.engine import (
    Author,
    before_commit,
    format_utc,
    get_author,
    read_clock,
)
from models.database.plain_json import make_plain, make_plain_text
from models.database.tables import change_head, changes
from models.errors import UnreachableError

#: What the first row is chained to.
GENESIS = "0" * 64

#: What a row's hash covers, in this order.
HASHED = (
    *("number", "at", "by", "key_id", "request_id", "app", "kind", "subject"),
    *("change", "before", "after", "note", "previous_hash"),
)

#: The one row of change_head.
_HEAD = 1

_LOCK_HEAD = sa.select(change_head).where(change_head.c.id == _HEAD).with_for_update()
_MOVE_HEAD = sa.update(change_head).where(change_head.c.id == _HEAD)

#: Made once: json.dumps would make one for each row.
_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"), sort_keys=True)


def note_change(  # noqa: PLR0913 - the columns of the record
    connection: sa.Connection,
    kind: str,
    subject: str,
    change: str,
    *,
    app: str | None,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    note: str | None = None,
) -> None:
    """
    Append to the record of changes when the transaction of *connection* commits.

    Args:
        connection: Of ``writing``, which knows the author.
        kind: What was changed: action, app, user, operation, mail, key, ...
        subject: Its uid or id.
        change: What was done to it, in the past tense: posted, paused, canceled, ...
        app: Uid of the small app that it belongs to. None: the installation.
        before: What it was, as far as it changed; JSON without secrets.
        after: What it is, as far as it changed; JSON without secrets.
    """
    noted = {
        "kind": kind,
        "subject": make_plain_text(subject),
        "change": change,
        "app": app,
        "before": make_plain(before),
        "after": make_plain(after),
        "note": None if note is None else make_plain_text(note),
    }
    before_commit(connection, _append).append(noted)


@contextmanager
def rolled_back(connection: sa.Connection) -> Iterator[None]:
    """Roll back what is done inside, and forget what is noted there: a dry run."""
    savepoint = connection.begin_nested()
    try:
        yield
    finally:
        savepoint.rollback()


def compute_hash(row: Mapping[str, Any]) -> str:
    """
    Return the hash of a row of the record, hexadecimal SHA-256.

    Args:
        row: With every key of HASHED; ``at`` is an aware instant.
    """
    values = [
        format_utc(row[name]) if isinstance(row[name], datetime) else row[name]
        for name in HASHED
    ]
    return hashlib.sha256(_ENCODER.encode(values).encode()).hexdigest()


def find_author(connection: sa.Connection) -> Author:
    """Return who makes the changes of this transaction; if nobody is named, we do."""
    return get_author(connection) or Author("minutehand")


def _append(connection: sa.Connection, noted: list[dict[str, Any]]) -> None:
    """Lock the head of the chain, and append all that was noted."""
    head = connection.execute(_LOCK_HEAD).one_or_none()
    if head is None:
        raise UnreachableError(
            "nothing can be changed, since nobody could see it: the table change_head"
            " has lost its one row. Verify what else is lost"
            " (minutehand changes verify)"
        )
    author = find_author(connection)
    given = {
        "at": read_clock(connection),
        "by": make_plain_text(author.name),
        "key_id": author.key_id,
        "request_id": author.request_id,
    }
    number, previous = head.number, head.hash
    rows = []
    for each in noted:
        number += 1
        row = {"number": number, **given, **each, "previous_hash": previous}
        previous = row["hash"] = compute_hash(row)
        rows.append(row)
    connection.execute(sa.insert(changes), rows)
    connection.execute(_MOVE_HEAD.values(number=number, hash=previous))
