"""What could have been sent, and was not."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.engine import reading
from models.operation_state import Queue
from overview.doctor.checks.work import fetch_unsent
from tests.scheduling import MINUTE, edit, get_now, make_operation, record_all

FIRST, SECOND = (make_operation(n, queue=Queue.HEAVY) for n in (1, 2))


def test_only_what_could_have_been_sent_is_late(engine: sa.Engine):
    """What waits for another operation, or for less than that long, is no trouble."""
    quick, now = make_operation(3), get_now(engine)
    record_all(engine, FIRST, SECOND, quick)
    edit(engine, FIRST.id, state="queued")
    for each in (SECOND, quick):
        edit(engine, each.id, send_at=now - 2 * MINUTE)

    with reading(engine) as connection:
        late = fetch_unsent(connection, now=now)
        later = fetch_unsent(connection, now=now - 2 * MINUTE)

    assert [quick.id] == [each.id for each in late]
    assert [] == later
