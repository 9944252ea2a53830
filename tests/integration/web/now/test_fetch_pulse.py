"""Whether the installation lives, as Now shows it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.lease import Leader
from models.database.engine import db_now
from models.database.tables import leases, processes
from models.errors import NotFoundError
from models.operation_state import Queue
from tests.database import execute, read_by
from tests.presence import SETTINGS, give_sign, make_worker
from tests.scheduling import MINUTE, add_app, get_now, put
from web.now.fetch_pulse import Pulse, fetch_pulse


def fetch(engine: sa.Engine, app: str | None = None) -> Pulse:
    return read_by(engine, fetch_pulse, SETTINGS, app=app)


def test_queue_without_worker_is_told(engine: sa.Engine):
    """What is to be sent later does not wait."""
    give_sign(engine, make_worker("a", queues=["heavy"]))
    give_sign(engine, make_worker("b"), age=30 * MINUTE)
    past = get_now(engine) - 5 * MINUTE
    put(engine, 0, recorded_at=past, send_at=past, state="queued", sent_at=past)
    put(engine, 1, send_at=get_now(engine) + MINUTE)

    found = fetch(engine)

    quick = found.queues[Queue.QUICK]
    assert (1, 0) == (quick.due, quick.workers)
    assert (1, 1) == (found.alive, len(found.silent))
    assert not found.has_actions


def test_app_is_told_no_host(engine: sa.Engine):
    """Neither who leads, nor what the broker said, nor which workers rest."""
    add_app(engine)
    Leader(engine).hold()
    silent = {"hostname": "Qhost", "heartbeat_at": db_now(-MINUTE / 2)}
    failing = {"send_failing_since": db_now(), "send_error": "Qsent"}
    execute(engine, sa.update(leases).values(**silent, **failing))
    give_sign(engine, make_worker("Qresting", queues=[]))
    execute(engine, sa.update(processes).values(drain_asked_at=db_now()))
    put(engine, 3, state="queued")

    mine, all_ = (
        " ".join(each.detail for each in fetch(engine, app).findings)
        for app in ("app", None)
    )

    assert "Q" not in mine
    for word in ("Qhost", "Qsent", "Qresting"):
        assert word in all_


def test_unknown_app_is_unknown(engine: sa.Engine):
    """It has no state."""
    with pytest.raises(NotFoundError):
        fetch(engine, app="never")
