"""A first scheduled action needs nothing but an address."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.posting.edit import PostedAction, Terms
from models.database.engine import reading
from models.errors import InvalidDocumentError, StaleError
from overview.recipients import count_inside, read_stored
from overview.small_apps import fetch_detailed_app
from tests.database import read_by, write_by
from tests.presence import SETTINGS
from tests.scheduling import fetch_action
from web.now.begin import APP, post_first_action
from web.now.fetch_pulse import fetch_pulse
from web.now.fetch_running import fetch_coming

ME = "ada@example.com"


def begin(
    engine: sa.Engine, email: str = ME, zone: str = "Europe/Paris"
) -> PostedAction:
    return write_by(engine, post_first_action, email, zone=zone, terms=Terms(by="ada"))


def test_action_is_scheduled_and_mails_whoever_asked(engine: sa.Engine):
    """In the zone of who asks, on weekdays at nine."""
    posted = begin(engine)

    with reading(engine) as connection:
        found = fetch_pulse(connection, SETTINGS)
        first, *_ = fetch_coming(connection)
        app = fetch_detailed_app(connection, APP)
        row = fetch_action(engine, str(posted.uid))
        stored = read_stored(row.uid, row.document)
        inside = count_inside(connection, APP, stored)

    assert found.has_actions
    local = first.occurrence.astimezone(first.zone)
    assert (APP, "Europe/Paris", 9) == (first.app, first.zone.key, local.hour)
    assert local.weekday() < 5
    assert 1 == inside
    assert "Hello" == app.name


def test_second_time_is_refused(engine: sa.Engine):
    """What is there stays as it is."""
    begin(engine)

    with pytest.raises(StaleError):
        begin(engine, "other@example.com")


@pytest.mark.parametrize(
    ("email", "zone"), [("nobody", "UTC"), ("", "UTC"), (ME, "Mars/Phobos")]
)
def test_bad_input_stores_nothing(engine: sa.Engine, email: str, zone: str):
    """Neither an app nor an action."""
    with pytest.raises(InvalidDocumentError):
        begin(engine, email, zone)

    assert not read_by(engine, fetch_pulse, SETTINGS).has_actions
