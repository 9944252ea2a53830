"""Two projects of others and an installation of ours, at work on one broker."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import UUID, uuid4

import sqlalchemy as sa

from celery_app.app import make_app
from models.database.engine import read_clock, writing
from models.database.tables import operations
from models.decision import NewOperation
from models.operation_state import FINAL_STATES, Overlap, Queue, Trigger
from operations.record import record
from tests.chaos.installation import Installation
from tests.neighbours.project import Project
from tests.servers import PATIENCE_S, wait_until

#: Tasks of each side.
MANY = 60

#: Of ours, where each waits for strangers, which are put back once in a second.
SOME = 6


def record_many(installation: Installation, count: int = MANY) -> list[UUID]:
    """Record so many runs of one quick action; return their ids."""
    return record_runs(installation, installation.add("sleep", 0), count)


def record_runs(installation: Installation, uid: str, count: int) -> list[UUID]:
    """Record so many runs of the quick action *uid*; return their ids."""
    with writing(installation.engine) as connection:
        now = read_clock(connection).replace(microsecond=0)
        new = [
            NewOperation(
                id=uuid4(),
                action_uid=uid,
                action_revision=1,
                app="app",
                trigger=Trigger.MANUAL,
                triggered_by="a test",
                occurrence=now,
                queue=Queue.QUICK,
                overlap=Overlap.ALLOW,
            )
            for _ in range(count)
        ]
        record(connection, new)
    return [each.id for each in new]


def wait_until_all_are_done(
    installation: Installation, projects: list[Project], count: int = MANY
) -> None:
    """Wait until nothing of ours is under way, and *count* tasks of theirs ran."""

    def is_over() -> bool:
        theirs = sum(len(each.fetch_done()) for each in projects)
        return theirs >= count and installation.count_live() == 0

    wait_until(is_over, timeout_s=200, every_s=0.2, what="the tasks of both sides")


def count_states(installation: Installation) -> dict[str, int]:
    column = operations.c.state
    with installation.engine.connect() as connection:
        rows = connection.execute(
            sa.select(column, sa.func.count().label("number")).group_by(column)
        )
        return {row.state: row.number for row in rows}


def count_effects(installation: Installation) -> dict[str, int]:
    """Return how often each operation came through."""
    found: dict[str, int] = {}
    path = installation.folder / "effects"
    for line in path.read_text().splitlines() if path.exists() else []:
        operation_id, _attempt, what = line.split()
        if what == "done":
            found[operation_id] = found.get(operation_id, 0) + 1
    return found


def check_that_each_minds_its_own(
    installation: Installation, projects: list[Project]
) -> None:
    """
    Let each side send MANY tasks, and assert that each ran once, where it should; then,
    that what either side tells its workers is heard by nobody else.
    """
    half = MANY // len(projects)
    with ExitStack() as stack:
        theirs = [stack.enter_context(each.worker()) for each in projects]
        ours = stack.enter_context(installation.worker())
        ids = record_many(installation)
        stack.enter_context(installation.scheduler())
        for each in projects:
            each.send(half)
        wait_until_all_are_done(installation, projects)

        assert [list(range(half))] * len(projects) == [p.fetch_done() for p in projects]
        assert {str(each): 1 for each in ids} == count_effects(installation)
        assert {"succeeded": MANY} == count_states(installation)

        plain = projects[0]
        found = wait_until(plain.ping, what="their worker to answer")
        ours_found = wait_until(lambda: ping(installation), what="ours to answer")
        plain.shut_down()
        theirs[0].wait(PATIENCE_S)

        assert {"plain@x", "django_site@x"} >= set(found)
        assert ["worker@tests"] == ours_found
        assert ours.poll() is None
        (last,) = record_many(installation, 1)
        assert installation.wait_for_state(last, *FINAL_STATES).state == "succeeded"


def ping(installation: Installation) -> list[str]:
    app = make_app(installation.settings)
    return [name for reply in app.control.ping(timeout=2) for name in reply]
