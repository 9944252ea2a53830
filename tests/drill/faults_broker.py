"""Faults of Redis: emptied, restarted, away."""

from __future__ import annotations

import redis

from tests.chaos.faults import fill
from tests.chaos.apps import SEND
from tests.chaos.case import Case
from tests.drill.world import World

#: Messages that wait when Redis goes.
WAITING = 1000

_DOWN_S = 2.0
_AWAY_S = 30.0


def flush(world: World, case: Case) -> None:
    """Empty it while messages wait; what was in it is sent again."""
    case.must_end += world.ask_for(SEND, 20)
    world.wait(
        lambda: world.count_waiting() > 20, what="messages that wait", every_s=0.01
    )
    case.start()
    with redis.Redis.from_url(world.broker.url) as client:
        lost = world.count_waiting()
        client.flushall()
    case.notes.append(f"{lost} messages gone; mends itself, doctor not asked")
    world.pause(2)


def restart(world: World, case: Case) -> None:
    """Restart it three times, each with a thousand messages waiting."""
    case.start()
    waited = []
    for _ in range(3):
        case.must_end += world.ask_for(SEND, 15)
        world.wait(lambda: world.count_waiting() > 20, what="messages", every_s=0.01)
        fill(world.installation, max(0, WAITING - world.count_waiting()))
        waited.append(str(world.count_waiting()))
        world.broker.kill()
        world.pause(_DOWN_S)
        world.broker.start()
    case.notes.append(f"{', '.join(waited)} messages waited")
    world.wait(lambda: world.count_waiting() < 20, what="workers to take the rest")
    case.notes.append(f"taken after {case.age_s:.0f} s; doctor not asked")


def take_away(world: World, case: Case) -> None:
    """Take it away until doctor has said so, and a while longer."""
    case.start()
    world.broker.kill()
    try:
        case.must_end += world.ask_for(SEND, 1)
        case.expect_doctor(world.ask_doctor, r"^bad (broker|sending)")
        world.pause(_AWAY_S - case.age_s)
    finally:
        world.broker.start()
    case.notes.append(f"back after {case.age_s:.0f} s")
