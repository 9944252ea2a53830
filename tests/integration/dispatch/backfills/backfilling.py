"""What tests of backfills start from: a daily action of which a week has passed."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from dispatch.backfills.planning import Plan, plan_backfill
from dispatch.backfills.progress import Backfiller
from dispatch.backfills.requests import start_backfill
from models.database.engine import Author, writing
from models.database.tables import backfill_occurrences, backfills
from models.occurrence import make_operation_id
from models.requests.actions import BackfillModel, Which
from tests.database import fetch_rows, read_by
from tests.scheduling import (
    DAY,
    MONDAY,
    at,
    edit,
    edit_action,
    get_now,
    lead,
    make_operation,
    post_at,
    record_all,
)

#: Of the week that tests look at, from Monday.
SEVENS = [at("07:00", MONDAY + number * DAY) for number in range(7)]
UNTIL = MONDAY + 7 * DAY
KEPT = timedelta(days=36500)

ANN = Author("ann@example")


def post_daily(engine: sa.Engine, **changes: Any) -> str:
    """Post the daily action as if it was decided up to an hour from now."""
    uid = post_at(engine, **changes)
    edit_action(engine, uid, next_due_at=get_now(engine) + timedelta(hours=1))
    return uid


def record_state(
    engine: sa.Engine, uid: str, occurrence: datetime, state: str, **values: Any
) -> UUID:
    """Record what became of an occurrence; return the id of its operation."""
    operation_id = make_operation_id(uid, occurrence)
    made = make_operation(action_uid=uid, id=operation_id, occurrence=occurrence)
    record_all(engine, made)
    edit(engine, operation_id, state=state, **values)
    return operation_id


def ask(**changes: Any) -> BackfillModel:
    """Return what asks for a backfill of the week."""
    given = {"since": MONDAY, "until": UNTIL, "which": Which.ALL}
    return BackfillModel(**{**given, **changes})


def plan(
    engine: sa.Engine, uid: str, *, retention: timedelta = KEPT, **changes: Any
) -> Plan:
    asked = ask(**changes)
    return read_by(engine, plan_backfill, uid, asked, retention=retention)


def start(
    engine: sa.Engine, uid: str, *, app: str | None = None, **changes: Any
) -> UUID:
    asked = ask(**{"at_once": 3, **changes})
    with writing(engine, author=ANN) as connection:
        return start_backfill(connection, uid, asked, retention=KEPT, app=app)


def make_backfiller(engine: sa.Engine) -> Backfiller:
    leader = lead(engine)
    return Backfiller(engine, leader)


def fetch_outcomes(engine: sa.Engine, backfill_id: UUID) -> list[str | None]:
    """Return the outcomes of a backfill's occurrences, in their order."""
    noted = backfill_occurrences.c
    return list(
        fetch_rows(
            engine,
            sa.select(noted.outcome)
            .where(noted.backfill_id == backfill_id)
            .order_by(noted.occurrence),
        ).scalars()
    )


def get_backfill(engine: sa.Engine, backfill_id: UUID) -> sa.Row[Any]:
    return fetch_rows(
        engine, sa.select(backfills).where(backfills.c.id == backfill_id)
    ).one()
