"""The record of changes: listed, exported, verified, on both databases."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import Author, reading, writing
from models.database.journal import GENESIS, compute_hash, note_change
from models.database.tables import change_head, changes
from models.fields.instants import parse_instant
from models.json_form import get_members, write_json
from models.paging import Page, Part
from overview.changes import (
    Anchor,
    ChangeFilter,
    RecordedChange,
    Verified,
    export_changes,
    fetch_changes,
    verify_changes,
)
from tests.database import execute, read_by, turn_pages, write_by
from tests.scheduling import HOUR

NOON = datetime(2024, 1, 1, 12, tzinfo=UTC)


def note(
    engine: sa.Engine,
    subject: str,
    *,
    by: str = "ada",
    kind: str = "action",
    app: str | None = "shop",
    **more: Any,
) -> None:
    with writing(engine, author=Author(by)) as connection:
        note_change(connection, kind, subject, "posted", app=app, **more)


def place(engine: sa.Engine, number: int, **values: Any) -> None:
    """Alter a row as only somebody with the database can."""
    execute(
        engine, sa.update(changes).where(changes.c.number == number).values(**values)
    )


def read(engine: sa.Engine, page: Page | None = None, **wanted: Any) -> Any:
    part = read_by(engine, fetch_changes, ChangeFilter(**wanted), page or Page())
    return list(part.entries)


def verify(engine: sa.Engine, anchor: Anchor | None = None) -> Verified:
    return read_by(engine, verify_changes, anchor)


@pytest.fixture
def noted(engine: sa.Engine) -> sa.Engine:
    """Give a database with five changes, an hour apart, the last at noon."""
    note(engine, "a", after={"x": 1.5, "y": [None, True]})
    note(engine, "b", by="zoe")
    note(engine, "a", app="bank", note="Why")
    note(engine, "a", kind="user", by="zoe")
    note(engine, "k", kind="key", app=None)
    for number in range(1, 6):
        place(engine, number, at=NOON + (number - 5) * HOUR)
    return engine


def rehash(engine: sa.Engine) -> None:
    """Make a chain of the rows that are there, as somebody with much time could."""
    previous = GENESIS
    for number, change in enumerate(export_changes(engine, ChangeFilter()), 1):
        row = {**get_members(change), "number": number, "previous_hash": previous}
        previous = compute_hash(row)
        place(engine, number, previous_hash=row["previous_hash"], hash=previous)
    execute(engine, sa.update(change_head).values(hash=previous))


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        ({}, [5, 4, 3, 2, 1]),
        ({"app": "shop"}, [4, 2, 1]),
        ({"kind": "action"}, [3, 2, 1]),
        ({"kind": "action", "subject": "a"}, [3, 1]),
        ({"by": "zoe"}, [4, 2]),
        ({"since": NOON - HOUR}, [5, 4]),
        ({"until": NOON - HOUR}, [3, 2, 1]),
        ({"app": "shop", "by": "ada", "since": NOON - 4 * HOUR, "until": NOON}, [1]),
        ({"app": "none"}, []),
    ],
)
def test_list_has_what_was_asked_for(
    noted: sa.Engine, wanted: dict[str, Any], numbers: list[int]
):
    """The latest first; from is inclusive, until exclusive."""
    assert numbers == [change.number for change in read(noted, **wanted)]
    exported = export_changes(noted, ChangeFilter(**wanted))
    assert numbers[::-1] == [change.number for change in exported]


def test_list_goes_on_where_it_ended(noted: sa.Engine):
    """Also among changes of one instant, and while others are appended."""
    for number in range(1, 6):
        place(noted, number, at=NOON)

    def read_on(page: Page) -> Part[RecordedChange]:
        part = read_by(noted, fetch_changes, ChangeFilter(), page)
        note(noted, "later")
        return part

    parts = turn_pages(read_on, 2)

    assert [[5, 4], [3, 2], [1]] == [[each.number for each in part] for part in parts]


def test_numbers_may_take_eight_bytes(noted: sa.Engine):
    for number in range(1, 6):
        place(noted, number, at=NOON)

    found = read(noted, Page(9, (NOON, 2**40)))

    assert [5, 4, 3, 2, 1] == [change.number for change in found]


def test_export_has_what_it_takes_to_verify_it(engine: sa.Engine):
    """Each line has the hash of the one before, and all that its own hash covers."""
    note(engine, "a", after={"x": 1.5})
    note(engine, "b", note="Why – ∞")
    previous = GENESIS
    for change in export_changes(engine, ChangeFilter()):
        line = json.loads(write_json(change))
        line["at"] = parse_instant(line["at"])

        assert previous == line["previous_hash"]
        previous = compute_hash(line)
        assert line["hash"] == previous


def test_export_reads_in_batches(engine: sa.Engine):
    """More than one batch, the whole of two, and none."""
    assert [] == list(export_changes(engine, ChangeFilter()))
    for size in (1000, 1):
        with writing(engine) as connection:
            for number in range(size):
                note_change(connection, "user", f"{number}", "posted", app="shop")
        count = sum(1 for _ in export_changes(engine, ChangeFilter()))
        assert verify(engine).count == count
    assert 1001 == count


def test_chain_that_nobody_touched_is_whole(engine: sa.Engine):
    empty = verify(engine)
    note(engine, "a")
    note(engine, "b")
    full = verify(engine)

    assert (0, GENESIS, None) == (empty.count, empty.head, empty.broken)
    assert (2, None) == (full.count, full.broken)
    assert read(engine)[0].hash == full.head


Forgery = Callable[[sa.Connection], object]


def forge(statement: sa.Executable) -> Forgery:
    return lambda connection: connection.execute(statement)


FORGED = {
    "altered in place": (
        forge(sa.update(changes).where(changes.c.number == 2).values(by="eve")),
        (2, "altered"),
    ),
    "another instant": (
        forge(sa.update(changes).where(changes.c.number == 3).values(at=NOON)),
        (3, "altered"),
    ),
    "a whole number for its float": (
        forge(sa.update(changes).where(changes.c.number == 1).values(after={"x": 1})),
        (1, "altered"),
    ),
    "first removed": (
        forge(sa.delete(changes).where(changes.c.number == 1)),
        (1, "missing"),
    ),
    "two removed in the middle": (
        forge(sa.delete(changes).where(changes.c.number.in_([2, 3]))),
        (2, "missing"),
    ),
    "last removed": (
        forge(sa.delete(changes).where(changes.c.number == 4)),
        (4, "cut"),
    ),
    "all removed": (forge(sa.delete(changes)), (1, "cut")),
    "head removed": (forge(sa.delete(change_head)), (5, "head")),
    "head set back": (forge(sa.update(change_head).values(number=3)), (4, "head")),
    "head with another hash": (
        forge(sa.update(change_head).values(hash=GENESIS)),
        (4, "head"),
    ),
    "a row before the first": (
        forge(
            sa.insert(changes).values(
                number=0,
                at=NOON,
                by="eve",
                kind="key",
                subject="k",
                change="created",
                previous_hash=GENESIS,
                hash=GENESIS,
            )
        ),
        (0, "unchained"),
    ),
}


@pytest.mark.parametrize("how", FORGED)
def test_first_break_is_named(engine: sa.Engine, how: str):
    """Its number, and what is wrong there."""
    for subject in "abcd":
        note(engine, subject, after={"x": 1.0})
    forgery, expected = FORGED[how]
    write_by(engine, forgery)
    broken = verify(engine).broken

    assert broken is not None
    assert expected == (broken.number, broken.fault)


def test_row_that_was_replaced_with_its_hash_breaks_the_next(engine: sa.Engine):
    """Its own hash fits it, but not what comes after it."""
    for subject in "abc":
        note(engine, subject)
    row = get_members(read(engine)[1])
    forged = {**row, "by": "eve"}
    place(engine, 2, by="eve", hash=compute_hash(forged))
    broken = verify(engine).broken

    assert broken is not None
    assert (3, "unchained") == (broken.number, broken.fault)


def test_chain_that_was_made_anew_is_found_out_by_what_was_written_down(
    engine: sa.Engine,
):
    """Nothing inside the database can tell, so a number and hash are kept outside."""
    for subject in "abc":
        note(engine, subject)
    anchor = Anchor(3, verify(engine).head)
    whole = verify(engine, anchor).broken
    place(engine, 2, by="eve")
    rehash(engine)
    unseen, seen = verify(engine).broken, verify(engine, anchor).broken
    beyond = verify(engine, Anchor(4, GENESIS)).broken

    assert whole is None
    assert unseen is None
    assert seen is not None
    assert (3, "replaced") == (seen.number, seen.fault)
    assert beyond is not None
    assert (4, "cut") == (beyond.number, beyond.fault)


def test_changes_may_be_made_while_the_chain_is_verified(engine: sa.Engine):
    """Rows that are appended between two looks do not look like a broken end."""
    with writing(engine) as connection:
        for number in range(600):
            note_change(connection, "user", f"{number}", "posted", app="shop")
    looks = 0

    def append(*_given: object) -> None:
        nonlocal looks
        looks += 1
        if looks <= 4:
            note(engine, "meanwhile")

    with reading(engine) as connection:
        sa.event.listen(connection, "after_cursor_execute", append)
        found = verify_changes(connection)

    assert found.broken is None
    assert found.count >= 600


@pytest.mark.parametrize("column", ["at", "after"])
def test_row_that_cannot_be_read_is_a_break(sqlite_engine: sa.Engine, column: str):
    """SQLite keeps whatever somebody puts there; the rows before it are whole."""
    for subject in "abc":
        note(sqlite_engine, subject)
    forged = f"update changes set {column} = 'no' where number = 2"
    execute(sqlite_engine, sa.text(forged))
    found = verify(sqlite_engine)

    assert found.broken is not None
    assert (2, "altered") == (found.broken.number, found.broken.fault)
    assert 1 == found.count
