"""
Why an action ran or did not at an instant, which its rules and its history say.

Apart from what operations wait for: lists of these need not import any rule.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.explaining.history import fetch_history
from actions.explaining.why import WhyAnswer, explain
from models.database.tables import operations
from overview.why.circumstances import fetch_circumstances
from overview.why.sentences import ALONE, tell_why

#: Decisions this close to the instant are read; an explanation covers one minute.
_AROUND = timedelta(minutes=1)


def explain_instant(
    connection: sa.Connection, uid: str, at: datetime, *, app: str | None = None
) -> list[WhyAnswer]:
    """
    Explain why an action ran in the minute of *at*, or did not run.

    Args:
        uid: Of an action, deleted or not.
        at: Aware, past or future.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Returns:
        One answer for each operation of that minute, else exactly one.

    Raises:
        NotFoundError: There has never been an action with this uid.
    """
    since, until = at - _AROUND, at + _AROUND
    history = fetch_history(connection, uid, since=since, until=until, app=app)
    ids = [each.id for each in history.operations]
    rows = connection.execute(
        sa.select(operations).where(operations.c.id.in_(ids))
    ).all()
    known = fetch_circumstances(connection, rows, now=history.now)
    told = {}
    for row in rows:
        circumstances = known.get(row.id, ALONE)
        why = tell_why(row, circumstances, now=history.now, zone=history.zone)
        if why is not None:
            told[row.id] = why.text.removesuffix(".")
    return explain(replace(history, told=told), at)
