"""
What completes the word that somebody types: ids of operations, names of workers.

It imports only tables, since every command that completes something imports it.
"""

from __future__ import annotations

import sqlalchemy as sa

from actions.lookup import Suggestion, make_plain
from models.database.lists import SHOWN_DIGITS
from models.database.tables import operations, processes
from models.decision import get_action_name

#: The latest operations that are offered; more would not fit on a screen.
OFFERED = 20

#: Among so many of the latest, those that begin as was typed are looked for.
_LOOKED_AT = 1000

#: As ProcessRole.WORKER of operations/fleet/processes.py is stored, which imports more.
_WORKER = "worker"


def suggest_operations(connection: sa.Connection, start: str) -> list[Suggestion]:
    """
    Return the latest operations whose ids begin with *start*, with what each did.

    As many digits are offered as tables show, or the whole id if *start* has more.
    """
    kept = operations.c
    rows = connection.execute(
        sa.select(kept.id, kept.state, kept.triggered_by)
        .order_by(kept.recorded_at.desc())
        .limit(_LOOKED_AT if start else OFFERED)
    )
    found = [
        (str(row.id), f"{row.state} {get_action_name(row.triggered_by)}")
        for row in rows
        if str(row.id).startswith(start)
    ]
    length = SHOWN_DIGITS if len(start) <= SHOWN_DIGITS else None
    return [make_plain(id_[:length], about) for id_, about in found[:OFFERED]]


def suggest_workers(connection: sa.Connection, start: str) -> list[Suggestion]:
    """Return the names of workers that begin with *start*, with their queues."""
    kept = processes.c
    rows = connection.execute(
        sa.select(kept.name, kept.queues)
        .where(kept.role == _WORKER, kept.name.startswith(start, autoescape=True))
        .order_by(kept.heartbeat_at.desc())
        .limit(OFFERED)
    )
    found = {row.name: make_plain(row.name, ", ".join(row.queues)) for row in rows}
    return list(found.values())
