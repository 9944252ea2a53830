"""Four ways in which a mail server breaks."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import breakers, deliveries
from models.operation_state import DeliveryState
from tests.chaos.apps import MAIL
from tests.chaos.case import Case
from tests.chaos.mails import Mood
from tests.drill.world import World

#: Each lasts at least so long; a minute of ticks meets most of them.
_LASTS_S = 20.0


def refuse(world: World, case: Case) -> None:
    """Nothing listens."""
    _break(world, case, Mood.REFUSES, "^bad mail: .*refused")


def hang(world: World, case: Case) -> None:
    """It accepts connections, and says nothing."""
    _break(world, case, Mood.HANGS, "^bad mail: .*timed out")


def defer(world: World, case: Case) -> None:
    """It asks everybody to come again later."""
    _break(world, case, Mood.DEFERS, "^bad mail: .*451")


def drop(world: World, case: Case) -> None:
    """It breaks off in the content: nobody knows whether it has kept the mail."""
    before = _count_uncertain(world)
    dropped = world.mails.dropped
    _break(world, case, Mood.DROPS, "^(bad|look) .*uncertain")
    uncertain = _count_uncertain(world) - before
    if not uncertain:
        case.wrong.append("no mail became uncertain")
    case.notes.append(
        f"{uncertain} mails uncertain, {world.mails.dropped - dropped} dropped"
    )


def _break(world: World, case: Case, mood: Mood, pattern: str) -> None:
    case.start()
    world.mails.become(mood)
    try:
        case.must_end += world.ask_for(MAIL, 1)
        case.expect_doctor(world.ask_doctor, pattern)
        world.pause(_LASTS_S - case.age_s)
    finally:
        world.mails.become(Mood.WELL)
    mended_s = case.age_s
    world.wait(lambda: not _is_known_broken(world), what="the next trial")
    case.notes.append(
        f"mended after {mended_s:.0f} s, found so {case.age_s - mended_s:.0f} s later"
    )


def _is_known_broken(world: World) -> bool:
    with reading(world.engine) as connection:
        return connection.execute(sa.select(breakers.c.name)).first() is not None


def _count_uncertain(world: World) -> int:
    with reading(world.engine) as connection:
        return connection.execute(
            sa.select(sa.func.count()).where(
                deliveries.c.state == DeliveryState.UNCERTAIN
            )
        ).scalar_one()
