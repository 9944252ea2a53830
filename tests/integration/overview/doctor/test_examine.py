"""A look at an installation holds up nobody, however long it takes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import sqlalchemy as sa

from overview.doctor.checks import LOOKS
from overview.doctor.examine import find_trouble
from overview.doctor.finding import Finding, Health, View
from settings import Settings

STATE = sa.text("select state from pg_stat_activity where pid = :pid")


def test_look_keeps_no_transaction_while_it_asks_others(
    postgres_engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    PostgreSQL would end the session of a look that waits for a broker, or for its turn
    on a busy host, and doctor would say that the database does not answer.
    """
    states = []

    def look_at_others(view: View) -> Iterator[Finding]:
        pid = view.connection.execute(sa.text("select pg_backend_pid()")).scalar_one()
        with postgres_engine.connect() as other:
            states.append(other.execute(STATE, {"pid": pid}).scalar_one())
        yield Finding("others", Health.GOOD, "they answer")

    monkeypatch.setitem(LOOKS, "others", look_at_others)

    found = list(find_trouble(postgres_engine, Settings(), names=["others"]))

    assert ["others"] == [each.subject for each in found]
    assert ["idle"] == states
