"""Who may be asked to rest, and what is recorded of it."""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.engine import Author, reading, writing
from models.database.tables import ALIVE_FOR
from models.errors import ConflictError, NotFoundError
from models.paging import Page
from operations.fleet.draining import drain_worker, find_worker, resume_worker
from operations.fleet.processes import ProcessRole, fetch_processes, record_sign
from overview.changes import ChangeFilter, fetch_changes
from tests.database import read_by, write_by
from tests.presence import give_sign, make_worker

WORKER = make_worker("host", name="quick@host", queues=("quick",))


def drain(engine: sa.Engine, worker_id: UUID = WORKER.id) -> bool:
    with writing(engine, author=Author("ada", None, None)) as connection:
        return drain_worker(connection, worker_id, by="ada", note="new kernel")


def test_the_worker_is_told_when_it_renews_its_row(engine: sa.Engine):
    """Until it is resumed; its own sign of life does not end it."""
    give_sign(engine, WORKER)
    drain(engine)
    with writing(engine) as connection:
        asked = [record_sign(connection, WORKER) for _ in range(2)]
        (seen,) = fetch_processes(connection)
    with writing(engine) as connection:
        resumed = resume_worker(connection, WORKER.id, note=None)
        then = record_sign(connection, WORKER)

    assert [True, True] == asked
    assert ("ada", True) == (seen.drain_asked_by, seen.drain_asked_at is not None)
    assert (True, False) == (resumed, then)


def test_it_is_recorded_once(engine: sa.Engine):
    """To ask again changes nothing."""
    give_sign(engine, WORKER)
    first, second = drain(engine), drain(engine)
    with writing(engine, author=Author("bob", None, None)) as connection:
        resume_worker(connection, WORKER.id, note="back")
    again = write_by(engine, resume_worker, WORKER.id, note=None)

    found = read_by(
        engine, fetch_changes, ChangeFilter(kind="worker"), Page(10)
    ).entries
    assert (True, False, False) == (first, second, again)
    assert [
        ("bob", "resumed", "quick@host", "back"),
        ("ada", "drained", "quick@host", "new kernel"),
    ] == [(each.by, each.change, each.subject, each.note) for each in found]
    assert {"id": str(WORKER.id), "queues": ["quick"]} == found[1].after


def test_a_new_start_takes_work(engine: sa.Engine):
    """The wish is that of one start of the worker: its id is another afterwards."""
    give_sign(engine, WORKER)
    drain(engine)
    anew = make_worker("host", name="quick@host")
    assert not write_by(engine, record_sign, anew)


def test_who_is_gone_cannot_be_drained(engine: sa.Engine):
    """Nor a scheduler, nor nobody."""
    give_sign(engine, WORKER, age=ALIVE_FOR * 2)
    leader = make_worker("leader", role=ProcessRole.SCHEDULER)
    give_sign(engine, leader)

    with pytest.raises(ConflictError, match=r"quick@host has given no sign of life"):
        drain(engine)
    for unknown in (leader.id, UUID(int=0)):
        with pytest.raises(NotFoundError):
            drain(engine, unknown)


def test_a_worker_is_found_by_its_name(engine: sa.Engine):
    """The living one; two of one name are told apart by nobody."""
    give_sign(engine, make_worker("gone", name="quick@host"), age=ALIVE_FOR * 2)
    give_sign(engine, WORKER)
    with reading(engine) as connection:
        found = find_worker(connection, "quick@host")
        with pytest.raises(NotFoundError, match="minutehand workers list"):
            find_worker(connection, "quick@elsewhere")
    give_sign(engine, make_worker("host", name="quick@host"))
    with (
        reading(engine) as connection,
        pytest.raises(ConflictError, match="2 workers are called 'quick@host'"),
    ):
        find_worker(connection, "quick@host")

    assert WORKER.id == found
