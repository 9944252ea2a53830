"""When something last went well, on both databases."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa

from models.database.engine import writing
from models.database.tables import domains
from operations.record import record
from overview.installation.status import fetch_app_status, fetch_status
from tests.database import write_by
from tests.presence import SETTINGS
from tests.scheduling import MONDAY, add_app, edit, make_operation


def test_last_success_and_last_data_are_told(engine: sa.Engine):
    """Of the installation and of each app; null where there has been none."""
    hour = timedelta(hours=1)
    for uid in ("shop", "books", "new"):
        add_app(engine, uid)
    for number, (app, state) in enumerate(
        [("shop", "succeeded"), ("books", "succeeded"), ("shop", "failed")]
    ):
        made = make_operation(number, app=app)
        write_by(engine, record, [made])
        edit(engine, made.id, state=state, finished_at=MONDAY + number * hour)
    with writing(engine) as connection:
        connection.execute(
            sa.insert(domains).values(
                app="shop", name="a", source={"file": "a.csv"}, published_at=MONDAY
            )
        )
        whole = fetch_status(connection, SETTINGS)
        apps = {
            uid: fetch_app_status(connection, SETTINGS, uid)
            for uid in ("shop", "books", "new")
        }

    assert (MONDAY + hour, MONDAY) == (whole.last_success_at, whole.data_updated_at)
    told = {
        uid: (each.last_success_at, each.data_updated_at) for uid, each in apps.items()
    }
    assert {
        "shop": (MONDAY, MONDAY),
        "books": (MONDAY + hour, None),
        "new": (None, None),
    } == told
