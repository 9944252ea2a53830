"""
Why an action ran or did not at an instant, which its rules and its history say.

Apart from what operations wait for: lists of these need not import any rule.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from actions.explaining.history import fetch_history
from actions.explaining.why import History, Verdict, WhyAnswer, explain
from models.database.engine import read_clock
from models.database.tables import operations
from models.fields.instants import parse_typed_instant
from models.fields.zone import load_zone
from models.operation_state import LIVE_STATES
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
    return explain(add_told(connection, history), at)


def add_told(connection: sa.Connection, history: History) -> History:
    """Return *history* with why its operations did not run, or wait."""
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
    return replace(history, told=told)


def explain_asked(
    connection: sa.Connection, uid: str, asked: str | None, *, app: str | None = None
) -> list[WhyAnswer]:
    """
    Explain an instant as somebody types it; without one, the last and the next run.

    Raises:
        RuleError: Of *asked*, as ``read_asked``.
        NotFoundError: There has never been an action with this uid.
    """
    if asked is not None:
        at = read_asked(connection, uid, asked, app=app)
        return explain_instant(connection, uid, at, app=app)
    now = read_clock(connection)
    history = fetch_history(connection, uid, since=now, until=now, app=app)
    kept = operations.c
    last = connection.scalar(
        sa.select(sa.func.max(kept.occurrence)).where(
            kept.action_uid == uid, kept.occurrence <= now
        )
    )
    # What follows another action, and what a tick --at decided, is recorded before.
    planned = connection.scalar(
        sa.select(sa.func.min(kept.occurrence)).where(
            kept.action_uid == uid, kept.occurrence > now, kept.state.in_(LIVE_STATES)
        )
    )
    answers = [
        answer
        for at in (last, now, planned, history.next_due_at)
        if at is not None
        for answer in explain_instant(connection, uid, at, app=app)
        # Between two runs, that says nothing, unless another action decides about it.
        if answer.verdict is not Verdict.NOT_DUE
        or (history.former is not None and planned is None)
    ]
    # One pause, say, is the answer to all of them.
    told = {(each.text, each.operation_id): each for each in answers}
    return list(told.values()) or explain_instant(connection, uid, now, app=app)


def read_asked(
    connection: sa.Connection, uid: str, asked: str, *, app: str | None = None
) -> datetime:
    """
    Return the instant, aware UTC, that *asked* names by the clock of an action's rule.

    Raises:
        RuleError: It names none, or one that this clock never shows.
        NotFoundError: There has never been an action with this uid.
    """
    now = read_clock(connection)
    zone = fetch_history(connection, uid, since=now, until=now, app=app).zone
    return parse_typed_instant(asked, now=now, zone=zone or load_zone("UTC"))
