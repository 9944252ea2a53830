"""Faults of what we run on: database, grants, disk."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from tests.chaos.apps import APPS, DATA, SEND, find_source
from tests.chaos.case import Case
from tests.drill.world import ROLE, World, find_tree

_REVOKED_S = 15.0
_AWAY_S = 60.0


def revoke(world: World, case: Case) -> None:
    """Take a grant from all processes, and give it back."""
    case.start()
    _execute(world, f"REVOKE UPDATE ON operations FROM {ROLE}")
    try:
        case.must_end += world.ask_for(SEND, 1)
        case.expect_doctor(world.ask_doctor, r"^bad .*\bUPDATE\b.*\boperations\b")
        world.pause(_REVOKED_S - case.age_s)
    finally:
        _execute(world, f"GRANT UPDATE ON operations TO {ROLE}")
    case.notes.append(f"granted again after {case.age_s:.0f} s")


def _execute(world: World, statement: str) -> None:
    with world.engine.begin() as connection:
        connection.execute(sa.text(statement))


def fill_disk(world: World, case: Case) -> None:
    """Leave no room in the workspace, while new data is to be kept."""
    workers = find_tree(world.workers["heavy"])[:1]
    case.start()
    world.space.fill(workers)
    try:
        for app in APPS:
            with find_source(world.installation.folder, app).open("a") as source:
                source.write("2026-01-02,2\n")
            case.must_end += world.run(DATA, app=app, force=True)
        case.expect_doctor(
            world.ask_doctor,
            r"(?i)^(bad|look) .*(is full|a file that large|no space|refreshes fail)",
        )
    finally:
        world.space.free(workers)
    case.notes.append(f"by {world.space.how}; room again after {case.age_s:.0f} s")


def set_clock_back(world: World, case: Case) -> None:
    """Let the database live an hour in the past for a minute, and come back."""
    if world.clock is None:
        case.notes.append("left out, for it needs Debian's libfaketime")
        return
    waiting = world.ask_for(SEND, 5)
    case.start()
    world.clock.set(-timedelta(hours=1))
    try:
        asked = [*waiting, *world.ask_for(SEND, 1)]
        case.must_end += asked
        case.expect_doctor(world.ask_doctor, r"(?i)^(bad|look) .*clock.*set back")
        world.wait(lambda: not world.count_live(asked), what="runs asked for")
        case.notes.append(f"all asked for ended after {case.age_s:.0f} s, in the past")
        world.pause(_AWAY_S - case.age_s)
    finally:
        world.clock.set(timedelta(0))
    case.notes.append(f"set right after {case.age_s:.0f} s")


def stop_pooler(world: World, case: Case) -> None:
    """Kill PgBouncer, which half of the processes need, and start it again."""
    if world.pooler is None:
        case.notes.append("left out, for it needs pgbouncer")
        return
    case.start()
    world.pooler.kill()
    try:
        case.must_end += world.ask_for(SEND, 2)
        world.pause(_REVOKED_S)
    finally:
        world.pooler.start()
    case.notes.append(f"back after {case.age_s:.0f} s")


def stop_database(world: World, case: Case) -> None:
    """Kill PostgreSQL, and start it a minute later."""
    case.start()
    world.database.kill()
    try:
        case.expect_doctor(world.ask_doctor, r"(?i)^bad .*database")
        world.pause(_AWAY_S - case.age_s)
    finally:
        world.database.start()
    case.notes.append(f"back after {case.age_s:.0f} s")
    world.wait_for_leader()
    case.must_end += world.ask_for(SEND, 1)
