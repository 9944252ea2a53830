"""The record of changes: what is noted is appended, and its hashes hold."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from models.database.engine import Author, reading, writing
from models.database.journal import GENESIS, compute_hash, note_change, rolled_back
from models.database.tables import change_head, changes
from models.errors import UnreachableError
from tests.database import execute, fetch_rows, race, write_by

ADA = Author("ada@host", "abc", "request-1")

#: What Python can write as JSON, also what no JSON has.
NUMBERS = st.one_of(
    st.integers(), st.integers(-(10**300), 10**300), st.floats(), st.booleans()
)
TEXTS = st.text(st.characters())
VALUES = st.recursive(
    st.one_of(st.none(), NUMBERS, TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)
    ),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=4)


def note(connection: sa.Connection, /, subject: str = "weekly", **more: Any) -> None:
    note_change(connection, "action", subject, "posted", app="shop", **more)


def fail_after_noting(connection: sa.Connection) -> None:
    note(connection, "never")
    raise KeyError


def read_rows(engine: sa.Engine) -> list[Mapping[str, Any]]:
    with reading(engine) as connection:
        rows = connection.execute(sa.select(changes).order_by(changes.c.number))
        return [row._asdict() for row in rows]


def read_head(engine: sa.Engine) -> tuple[int, str]:
    row = fetch_rows(engine, sa.select(change_head)).one()
    return row.number, row.hash


def check_chain(engine: sa.Engine) -> list[Mapping[str, Any]]:
    """Check the chain from its first row to its head, and return the rows."""
    rows = read_rows(engine)
    previous = GENESIS
    for number, row in enumerate(rows, 1):
        assert (number, previous) == (row["number"], row["previous_hash"])
        assert compute_hash(row) == row["hash"]
        previous = row["hash"]
    assert (len(rows), previous) == read_head(engine)
    return rows


def test_change_is_appended_with_its_author(engine: sa.Engine):
    with writing(engine, author=ADA) as connection:
        note(connection, before={"paused": None}, after={"paused": "now"}, note="Why")
    (row,) = check_chain(engine)

    assert ("ada@host", "abc", "request-1") == (
        row["by"],
        row["key_id"],
        row["request_id"],
    )
    assert ("shop", "action", "weekly", "posted", "Why") == (
        row["app"],
        row["kind"],
        row["subject"],
        row["change"],
        row["note"],
    )
    assert ({"paused": None}, {"paused": "now"}) == (row["before"], row["after"])


def test_changes_of_a_transaction_keep_their_order(engine: sa.Engine):
    """
    Transaction after transaction, each with all that it noted; what Minutehand changes
    by itself has an author, too.
    """
    for batch in ("ab", "c", "", "def"):
        with writing(engine) as connection:
            for subject in batch:
                note(connection, subject)
    rows = check_chain(engine)

    assert list("abcdef") == [row["subject"] for row in rows]
    assert {"minutehand"} == {row["by"] for row in rows}


def test_what_is_rolled_back_was_never_noted(engine: sa.Engine):
    write_by(engine, note, "first")
    with pytest.raises(KeyError):
        write_by(engine, fail_after_noting)

    assert ["first"] == [row["subject"] for row in check_chain(engine)]


def test_what_a_savepoint_takes_back_was_never_noted(engine: sa.Engine):
    """What is only tried out, such as a dry run, leaves no trace; what is kept does."""
    with writing(engine) as connection:
        note(connection, "before")
        with rolled_back(connection):
            note(connection, "tried")
            with connection.begin_nested():
                note(connection, "kept in what is tried")
        with connection.begin_nested():
            note(connection, "kept")
            with rolled_back(connection):
                note(connection, "tried in what is kept")
        note(connection, "after")

    subjects = [row["subject"] for row in check_chain(engine)]
    assert ["before", "kept", "after"] == subjects


def test_change_that_fails_in_a_savepoint_was_never_noted(engine: sa.Engine):
    """An error inside takes the savepoint back as well."""
    with writing(engine) as connection:
        try:
            with connection.begin_nested():
                fail_after_noting(connection)
        except KeyError:
            note(connection, "instead")

    assert ["instead"] == [row["subject"] for row in check_chain(engine)]


def test_first_note_in_a_savepoint_that_is_taken_back(engine: sa.Engine):
    """Then there is nothing to append, and the head is not locked for it."""
    with writing(engine) as connection, rolled_back(connection):
        note(connection)

    assert [] == check_chain(engine)


def test_change_that_cannot_be_noted_is_not_made(engine: sa.Engine):
    """Record and change are one transaction."""
    execute(engine, sa.delete(change_head))
    with pytest.raises(UnreachableError, match="changes verify"):
        write_by(engine, note)

    assert [] == read_rows(engine)


def test_writers_at_once_make_one_chain(postgres_engine: sa.Engine):
    """Each waits for the head, and goes on from what the one before wrote."""
    writers, rounds = 5, 8

    def write(writer: int) -> None:
        for number in range(rounds):
            with writing(postgres_engine) as connection:
                note(connection, f"{writer}.{number}")
                note(connection, f"{writer}.{number}+")

    race(writers, write)
    rows = check_chain(postgres_engine)

    assert 2 * writers * rounds == len(rows)
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        assert f"{first['subject']}+" == second["subject"]


def test_instants_and_ids_are_written_as_text(engine: sa.Engine):
    """Callers hand over what they have."""
    uid = UUID(int=7)
    write_by(
        engine, note, after={"at": datetime(2026, 11, 23, 6, tzinfo=UTC), "id": uid}
    )
    (row,) = check_chain(engine)

    assert {"at": "2026-11-23 06:00:00.000000+00:00", "id": str(uid)} == row["after"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=OBJECTS, after=OBJECTS, text=TEXTS)
@example(before={"a": 1.0}, after={"a": 1}, text="")
@example(before={"a": 1e22}, after={"a": 10**22}, text="1e22")
@example(before={"a": 1e23}, after={"a": 1.5e300}, text="not the nearest integer")
@example(before={"a": -0.0}, after={"a": 5e-324}, text="-0.0")
@example(before={"a": float("nan")}, after={"a": float("-inf")}, text="no JSON")
@example(before={"a": "\0", "\0": 1}, after={"a": "\\u0000", "b": "\\\0"}, text="\0")
@example(before={"a": "\ud800"}, after={"a": "\ud83d\ude00"}, text="\udfff")
@example(before={"b": 1, "a": 2}, after={"é": 1, "e\u0301": 2}, text="order")
def test_hash_holds_whatever_is_noted(
    engine: sa.Engine, before: dict[str, Any], after: dict[str, Any], text: str
):
    """The database gives back what was hashed: numbers, letters, keys in any order."""
    with writing(engine, author=Author(text or "x")) as connection:
        number = connection.execute(sa.select(change_head.c.number)).scalar_one()
        note(connection, text, before=before, after=after, note=text)
    row = fetch_rows(
        engine, sa.select(changes).where(changes.c.number == number + 1)
    ).one()

    assert compute_hash(row._asdict()) == row.hash
