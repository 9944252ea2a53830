"""Others on our Redis: a project, an installation called as ours is, and poison."""

from __future__ import annotations

from contextlib import ExitStack
from uuid import uuid4

import redis
import sqlalchemy as sa

from celery_app.app import make_app
from celery_app.routing import find_broker_names
from models.operation_state import Queue
from tests.chaos.installation import Installation
from tests.chaos.apps import APPS, SEND
from tests.chaos.case import Case
from tests.drill.world import World
from tests.neighbours.hostile import FORMS, make_envelope
from tests.neighbours.meeting import (
    MANY,
    count_effects,
    count_states,
    record_many,
)
from tests.neighbours.project import make_projects

#: Operations of the second installation; its worker meets as many of ours.
FEW = 100

#: Of each kind of hostile message, for each of two queues.
POISON = 20


def meet_project(world: World, case: Case) -> None:
    """Let a plain Celery project work on its own default queue, beside us."""
    folder = world.installation.folder / "stranger"
    folder.mkdir()
    project, *_ = make_projects(world.broker.url, folder)
    with project.worker():
        case.start()
        case.must_end += world.ask_for(SEND, MANY // len(APPS))
        project.send(MANY)
        try:
            world.wait(
                lambda: len(project.fetch_done()) >= MANY, what="its tasks", every_s=1
            )
        except AssertionError:
            case.wrong.append(f"only {len(project.fetch_done())} of its tasks ran")
        case.notes.append(f"its {MANY} tasks ran in {case.age_s:.0f} s; no trouble")
    done = project.fetch_done()
    if len(done) != len(set(done)):
        case.wrong.append(f"{len(done) - len(set(done))} of its tasks ran twice")


def meet_installation(world: World, case: Case) -> None:
    """Let another installation use the same names on the same broker."""
    folder = world.installation.folder / "second"
    folder.mkdir()
    outside = world.engine.execution_options(isolation_level="AUTOCOMMIT")
    with outside.connect() as connection:
        connection.execute(sa.text("CREATE DATABASE second"))
    url = world.database.url.rpartition("/")[0] + "/second"
    second = Installation(url, world.broker.url, folder)
    with ExitStack() as stack:
        stack.callback(second.engine.dispose)
        stack.enter_context(second.scheduler())
        stack.enter_context(second.worker("second-worker"))
        case.start()
        theirs = {str(each): 1 for each in record_many(second, FEW)}
        case.must_end += world.ask_for(SEND, FEW // len(APPS))
        case.expect_doctor(world.ask_doctor, r"(?i)^bad .*installation")
        world.wait(lambda: second.count_live() == 0, what="its operations")
        if count_effects(second) != theirs:
            case.wrong.append("not each of its operations was done once")
        states = count_states(second)
        if states != {"succeeded": FEW}:
            case.wrong.append(f"its operations: {states}")
    case.notes.append(f"its {FEW} operations ran")


def poison(world: World, case: Case) -> None:
    """Push what cannot be read onto our queues, between what can."""
    installation = world.installation
    app, prefix = make_app(installation.settings), installation.settings.queue_prefix
    lanes = [*find_broker_names(Queue.QUICK, prefix)[:1]]
    lanes += find_broker_names(Queue.HEAVY, prefix)[:1]
    case.start()
    case.must_end += world.ask_for(SEND, 2)
    with redis.Redis.from_url(world.broker.url) as client:
        for _ in range(POISON):
            for spoil in FORMS.values():
                for lane in lanes:
                    text = spoil(make_envelope(app, uuid4()))
                    client.lpush(lane, text.encode(errors="surrogateescape"))
    case.must_end += world.ask_for(SEND, 2)
    case.expect_doctor(world.ask_doctor, r"(?i)^(bad|look) .*aside")
    world.wait(lambda: world.count_waiting() < len(FORMS), what="workers to go on")
    case.notes.append(f"{POISON * len(FORMS) * len(lanes)} messages put aside")
