"""When nobody led, as the leaderships that were recorded tell."""

from __future__ import annotations

import sqlalchemy as sa

from models.database.tables import leaderships
from overview.installation.leaders import SHORTEST, fetch_unled
from tests.database import execute, read_by
from tests.scheduling import MINUTE, get_now


def test_nobody_led_between_those_who_did(engine: sa.Engine):
    """Oldest first, as far as it reaches after the instant; long enough to matter."""
    now = get_now(engine)
    short = SHORTEST / MINUTE / 2
    ago = [(90, 80), (60, 40), (40 - short, 20), (10, 5)]
    rows = [
        {
            "fence": fence,
            "hostname": "host",
            "pid": fence,
            "acquired_at": now - since * MINUTE,
            "released_at": now - until * MINUTE,
        }
        for fence, (since, until) in enumerate(ago, 1)
    ]
    execute(engine, sa.insert(leaderships), rows)

    found = read_by(engine, fetch_unled, since=now - 60 * MINUTE)
    more = read_by(engine, fetch_unled, since=now - 61 * MINUTE)

    latest = [(now - 20 * MINUTE, now - 10 * MINUTE), (now - 5 * MINUTE, None)]
    assert latest == [(each.since, each.until) for each in found]
    first = now - 80 * MINUTE, now - 60 * MINUTE
    assert [first, *latest] == [(each.since, each.until) for each in more]
