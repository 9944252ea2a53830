"""
The record of changes as faces show it: who changed what, and whether it is whole.

models/database/journal.py writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa

from models.database.engine import reading
from models.database.journal import GENESIS, compute_hash
from models.database.lists import fetch_latest
from models.database.tables import change_head, changes, scheduled_actions
from models.paging import Page, Part

#: Rows that are read at a time where all are.
_BATCH = 500

_row = changes.c


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """
    A row of the record.

    Args:
        number: From 1, without gaps.
        by: Such as ``root@host``, or the name of an API key.
        key_id: The API key. None: it was not done over HTTP, or by a person.
        request_id: Of HTTP.
        app: Uid of the small app. None: the installation.
        kind: What was changed: action, app, user, operation, key, ...
        subject: Its uid or id.
        change: What was done to it: posted, paused, canceled, ...
        before: What it was, as far as it changed.
        after: What it is, as far as it changed.
        previous_hash: The *hash* of the row before; of the first, 64 zeros.
        hash: Of all of the above.
    """

    number: int
    at: datetime
    by: str
    key_id: str | None
    request_id: str | None
    app: str | None
    kind: str
    subject: str
    change: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    note: str | None
    previous_hash: str
    hash: str


@dataclass(frozen=True, slots=True)
class ChangeFilter:
    """
    Which changes are wanted; None matches all.

    Args:
        since: Inclusive.
        until: Exclusive.
    """

    app: str | None = None
    kind: str | None = None
    subject: str | None = None
    by: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    def apply(self, query: sa.Select[Any]) -> sa.Select[Any]:
        """Return *query* of changes with these conditions."""
        for name in ("app", "kind", "subject", "by"):
            value = getattr(self, name)
            if value is not None:
                query = query.where(_row[name] == value)
        if self.since is not None:
            query = query.where(_row.at >= self.since)
        if self.until is not None:
            query = query.where(_row.at < self.until)
        return query


class ChainFault(StrEnum):
    """How a chain can be broken."""

    #: The row's hash is not that of the row.
    ALTERED = "altered"

    #: A number is skipped.
    MISSING = "missing"

    #: The row was appended to another one than the one before it.
    UNCHAINED = "unchained"

    #: The last rows are gone: the head of the chain is beyond them.
    CUT = "cut"

    #: The head of the chain is missing, or is not that of the last row.
    HEAD = "head"

    #: A row is not the one that somebody wrote down.
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class ChainBreak:
    """The first place at which the record is not what was written."""

    number: int
    fault: ChainFault
    detail: str


@dataclass(frozen=True, slots=True)
class Verified:
    """
    What a walk along the chain found.

    Args:
        count: How many rows are as they were written, from the first.
        head: The hash of the last of these.
    """

    count: int = field(metadata={"serialization_alias": "changes"})
    head: str
    broken: ChainBreak | None
    is_whole: bool = field(init=False)

    def __post_init__(self) -> None:
        """Say in a word what *broken* says."""
        object.__setattr__(self, "is_whole", self.broken is None)


@dataclass(frozen=True, slots=True)
class Anchor:
    """A row's number and hash that somebody wrote down outside of the database."""

    number: int
    hash: str


_NAMES = tuple(each.name for each in fields(RecordedChange))
_COLUMNS = tuple(_row[name] for name in _NAMES)


def fetch_changes(
    connection: sa.Connection, wanted: ChangeFilter, page: Page
) -> Part[RecordedChange]:
    """
    Return changes, the latest first.

    Args:
        wanted: Which.
        page: Which part; positions are (at, number).
    """
    query = wanted.apply(sa.select(*_COLUMNS))
    part = fetch_latest(connection, query, page, (_row.at, _row.number))
    return Part([RecordedChange(*row) for row in part.entries], part.following)


def fetch_action_names(
    connection: sa.Connection, found: Sequence[RecordedChange]
) -> dict[str, str]:
    """Return what the actions that were changed are called now, by their uids."""
    uids = {each.subject for each in found if each.kind == "action"}
    kept = scheduled_actions.c
    query = sa.select(kept.uid, kept.name).where(kept.uid.in_(uids))
    return dict(connection.execute(query).all())


def export_changes(engine: sa.Engine, wanted: ChangeFilter) -> Iterator[RecordedChange]:
    """
    Yield changes in the order in which they were made.

    Each batch is a transaction of its own, so that whoever reads slowly holds none.
    """
    number = 0
    while True:
        query = wanted.apply(sa.select(*_COLUMNS)).where(_row.number > number)
        with reading(engine) as connection:
            rows = connection.execute(query.order_by(_row.number).limit(_BATCH)).all()
        for row in rows:
            yield RecordedChange(*row)
        if len(rows) < _BATCH:
            return
        number = rows[-1].number


def verify_changes(connection: sa.Connection, anchor: Anchor | None = None) -> Verified:
    """
    Walk along the whole chain, and say where it is broken first, if it is.

    Reads in batches, in constant memory; changes may be appended meanwhile. Whoever
    can rewrite the whole chain with its head is found out only by an *anchor*.

    Args:
        anchor: A row's number and hash that were written down. None: there is none.
    """
    count, previous = 0, GENESIS
    rows = _fetch_after(connection, None)
    while True:
        if rows is None:
            detail = f"change {count + 1} is not what was written: it cannot be read"
            broken = ChainBreak(count + 1, ChainFault.ALTERED, detail)
            return Verified(count, previous, broken)
        for row in rows:
            found = _check(row, count + 1, previous, anchor)
            if found is not None:
                return Verified(count, previous, found)
            count, previous = row["number"], row["hash"]
        was_last = not rows
        # The head is read after all rows: it moves together with them. So it is not
        # behind any that was seen, and what it is beyond can be seen by now.
        head = connection.execute(sa.select(change_head)).all() if was_last else ()
        rows = _fetch_after(connection, count)
        if was_last and rows == []:
            end = _check_end(head, count, previous, anchor)
            return Verified(count, previous, end)


def _fetch_after(
    connection: sa.Connection, number: int | None, limit: int = _BATCH
) -> list[Mapping[str, Any]] | None:
    """Return the rows after *number*; None if the next one cannot be read."""
    query = sa.select(*_COLUMNS).order_by(_row.number).limit(limit)
    if number is not None:
        query = query.where(_row.number > number)
    try:
        rows = connection.execute(query).all()
    except ValueError:
        # SQLite keeps whatever somebody puts in the place of JSON, or of an instant.
        return None if limit == 1 else _fetch_after(connection, number, limit=1)
    return [dict(zip(_NAMES, row, strict=True)) for row in rows]


def _check(
    row: Mapping[str, Any], expected: int, previous: str, anchor: Anchor | None
) -> ChainBreak | None:
    """Return what is wrong with the row that should have the number *expected*."""
    number, found = row["number"], row["hash"]
    if number > expected:
        last = number - 1
        many = f"changes {expected} to {last} are"
        which = f"change {expected} is" if last == expected else many
        detail = f"{which} missing before {number}"
        return ChainBreak(expected, ChainFault.MISSING, detail)
    if number < expected:
        fault, detail = ChainFault.UNCHAINED, "has a number that is never given"
    elif found != compute_hash(row):
        fault = ChainFault.ALTERED
        detail = "is not what was written: its hash is another"
    elif row["previous_hash"] != previous:
        fault = ChainFault.UNCHAINED
        detail = (
            f"was not appended to the change {number - 1} that is there: one of the two"
            " was replaced"
        )
    elif anchor is not None and anchor.number == number and anchor.hash != found:
        fault = ChainFault.REPLACED
        detail = f"has the hash {found}, not the one written down"
    else:
        return None
    return ChainBreak(number, fault, f"change {number} {detail}")


def _check_end(
    head: Sequence[Any], count: int, previous: str, anchor: Anchor | None
) -> ChainBreak | None:
    """Return what is wrong with the end of a chain of *count* rows."""
    if len(head) != 1:
        detail = f"change_head has {len(head)} rows and should have one"
        return ChainBreak(count + 1, ChainFault.HEAD, detail)
    number = head[0].number
    if number > count:
        detail = (
            f"the last changes are missing: there were {number}, and {count} are left"
        )
        return ChainBreak(count + 1, ChainFault.CUT, detail)
    if number < count:
        detail = f"change {number + 1} and later ones are beyond the head of the chain"
        return ChainBreak(number + 1, ChainFault.HEAD, detail)
    if head[0].hash != previous:
        detail = f"the head of the chain has another hash than change {count}"
        return ChainBreak(count, ChainFault.HEAD, detail)
    if anchor is not None and anchor.number > count:
        detail = f"change {anchor.number} was written down, and there are {count}"
        return ChainBreak(count + 1, ChainFault.CUT, detail)
    return None
