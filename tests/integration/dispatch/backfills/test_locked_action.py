"""The leader waits for nobody who changes an action."""

from __future__ import annotations

import sqlalchemy as sa

from actions.posting.revisions import require_action
from models.database.engine import writing
from tests.integration.dispatch.backfills.backfilling import (
    fetch_outcomes,
    make_backfiller,
    post_daily,
    start,
)
from tests.scheduling import add_app


def test_action_that_is_locked_has_its_turn_later(postgres_engine: sa.Engine):
    """The leader, for which all others wait, does not wait for one action."""
    engine = postgres_engine
    add_app(engine)
    uid = post_daily(engine)
    backfill = start(engine, uid, at_once=7)
    backfiller = make_backfiller(engine)
    with writing(engine) as connection:
        require_action(connection, uid, lock=True)
        backfiller.look()
    assert [None] * 7 == fetch_outcomes(engine, backfill)

    backfiller.look()

    assert ["recorded"] * 7 == fetch_outcomes(engine, backfill)
