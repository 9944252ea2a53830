"""Scheduled actions as faces show them."""

from __future__ import annotations

import sqlalchemy as sa

from overview.actions import fetch_listed_actions
from tests.database import read_by
from tests.scheduling import add_app, post


def test_list_is_told_once_its_transaction_has_ended(engine: sa.Engine):
    """Or PostgreSQL would end the session of a long one."""
    add_app(engine)
    for number in range(3):
        post(engine, name=f"n{number}")

    read = read_by(engine, fetch_listed_actions, app="app")

    assert iter(read) is read  # nothing is told yet
    assert {"n0", "n1", "n2"} == {each.name for each in read}
