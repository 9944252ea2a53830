"""What keeps the leader's transactions and those of others apart."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import leases


def keep_leader_out(connection: sa.Connection) -> None:
    """
    Wait for the leader's transaction, and make its next one wait until our commit.

    Each of its transactions locks the lease first, and then many rows in an order of
    its own; without this lock, the two could deadlock.
    """
    connection.execute(sa.select(leases.c.name).with_for_update())
