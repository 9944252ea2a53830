"""What small apps need and lack, as doctor judges it."""

from __future__ import annotations

import json
import re

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import breakers, scheduled_actions, zones
from operations.adapters.breaker import Breaker
from tests.database import execute
from tests.scheduling import MINUTE, add_app, edit_action, examine, post

TOKYO = {"cron_rule": "0 7 * * *", "timezone": "Asia/Tokyo"}


def test_provider_that_does_not_answer_is_seen(engine: sa.Engine):
    """And a small app of its table that there is not."""
    issuer = {"OIDC_ISSUER": "http://127.0.0.1:1", "OIDC_CLIENT_ID": "minutehand"}
    groups = '{"ops": {"*": "admin", "x": "viewer"}}'

    away, unknown = examine(engine, "sign-in", **issuer, OIDC_GROUPS=groups)

    told = "127.0.0.1:1, which signs people in, cannot be asked"
    assert away.detail.startswith(told)
    assert "MINUTEHAND_OIDC_GROUPS names 'x', which is no small app" == unknown.detail


def test_small_apps_that_share_a_role_are_told(postgres_engine: sa.Engine):
    """Whether they share a connection or two of the same role; files have no role."""
    url = "postgresql://{0}:x@{1}/sales"
    connections = {
        "one": {"url": url.format("a", "db"), "apps": ["shop", "other"]},
        "every": {"url": url.format("b", "db"), "apps": ["*"]},
        "first": {"url": url.format("c", "db"), "apps": ["shop"]},
        "second": {"url": url.format("c", "db:5432"), "apps": ["other"]},
        "elsewhere": {"url": url.format("c", "db2"), "apps": ["other"]},
        "file": {"url": "sqlite:////tmp/s.db", "apps": ["*"]},
    }

    found = examine(postgres_engine, "sources", SQL_CONNECTIONS=json.dumps(connections))

    roles = re.findall(r"as one role \((.*?)\)", "\n".join(e.detail for e in found))
    assert ["every", "first, second", "one"] == roles
    assert all("MINUTEHAND_SQL_CONNECTIONS" in each.detail for each in found)


def test_mail_server_that_does_not_serve_is_named(postgres_engine: sa.Engine):
    """While it is tried again; one that nobody needs any more is only mentioned."""
    breaker = Breaker(postgres_engine, "mail server mail.example.org:25")
    breaker.fail("it hangs", tried=False)

    (found,) = examine(postgres_engine, "mail")
    values = {"retry_at": db_now(-60 * MINUTE)}
    execute(postgres_engine, sa.update(breakers).values(values))
    (later,) = examine(postgres_engine, "mail")

    assert ("bad", "look") == (found.health, later.health)
    told = "the mail server mail.example.org:25 has been unavailable since"
    assert found.detail.startswith(told)
    assert found.detail.endswith("goes on when it serves again.")


def test_new_tz_database_is_told_with_what_it_moves(engine: sa.Engine):
    add_app(engine)
    post(engine, name="hello", when=TOKYO)
    post(engine, name="other")
    utc = sa.select(zones.c.data).where(zones.c.name == "UTC").scalar_subquery()
    tokyo = zones.c.name == "Asia/Tokyo"
    execute(engine, sa.update(zones).where(tokyo).values(data=utc))

    found = examine(engine, "tzdata")

    assert found
    assert {"look"} == {each.health for each in found}
    assert all(each.detail.startswith("'hello' (app app): ") for each in found)


def test_zone_that_is_gone_is_told_with_its_actions(engine: sa.Engine):
    """An older tz database, or a name that was withdrawn."""
    add_app(engine)
    uid = post(engine, name="hello", when=TOKYO).uid
    gone = sa.update(zones).where(zones.c.name == "Asia/Tokyo").values(name="Asia/Edo")
    timing = sa.func.replace(scheduled_actions.c.timing, "Asia/Tokyo", "Asia/Edo")
    execute(engine, gone)
    edit_action(engine, uid, timing=timing)

    (found,) = examine(engine, "tzdata")

    assert "look" == found.health
    said = "'hello' (app app): 'Asia/Edo' is not a time zone of the tz database."
    assert found.detail.startswith(said)
