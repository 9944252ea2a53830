"""The mails of one operation, in parts."""

from __future__ import annotations

from uuid import uuid4

import pytest
import sqlalchemy as sa

from models.database.engine import reading, writing
from models.database.tables import deliveries
from models.errors import NotFoundError
from models.paging import Page
from operations.mail.list_mails import fetch_deliveries
from tests.scheduling import MONDAY, make_operation, record_all

DAILY, OTHER = make_operation(1), make_operation(2)


@pytest.fixture
def mailed(engine: sa.Engine) -> sa.Engine:
    """Give a database with mails of two steps, and one of another operation."""
    record_all(engine, DAILY, OTHER)
    marks = [
        *((DAILY, "send_email", who) for who in ("ann", "bob", "zoe")),
        *((DAILY, "send_execsum", who) for who in ("ann", "bob")),
        (OTHER, "send_email", "eve"),
    ]
    with writing(engine) as connection:
        for operation, step, recipient in marks:
            connection.execute(
                sa.insert(deliveries).values(
                    operation_id=operation.id,
                    step=step,
                    recipient=recipient,
                    state="sent",
                    updated_at=MONDAY,
                )
            )
    return engine


@pytest.mark.parametrize("limit", [1, 2, 5, 50])
def test_mails_are_listed_in_parts(mailed: sa.Engine, limit: int):
    """By step and recipient, and none of another operation."""
    found = []
    page = Page(limit)
    while True:
        with reading(mailed) as connection:
            part = fetch_deliveries(connection, DAILY.id, page, app="app")
        found += [(each.step, each.recipient) for each in part.entries]
        if part.following is None:
            break
        page = Page(limit, part.following)

    assert [
        ("send_email", "ann"),
        ("send_email", "bob"),
        ("send_email", "zoe"),
        ("send_execsum", "ann"),
        ("send_execsum", "bob"),
    ] == found


def test_mails_of_what_is_unknown_are_not_found(mailed: sa.Engine):
    """Also if it belongs to another small app."""
    for id_, app in ((uuid4(), None), (DAILY.id, "other")):
        with (
            reading(mailed) as connection,
            pytest.raises(NotFoundError, match=f"there is no operation {id_}"),
        ):
            fetch_deliveries(connection, id_, Page(), app=app)
