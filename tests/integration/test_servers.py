"""The servers of the tests themselves."""

from __future__ import annotations

import smtplib

import redis
import sqlalchemy as sa

from models.database.engine import make_engine
from tests.mail_server import MailServer


def test_each_test_gets_a_migrated_database_of_its_own(engine: sa.Engine) -> None:
    """All tables exist and hold nothing, on both dialects."""
    with engine.connect() as connection:
        rows = connection.scalar(sa.text("select count(*) from operations"))

    assert rows == 0


def test_an_unmigrated_database_has_no_tables(unmigrated_url: str) -> None:
    """Tests of migrations can start from nothing, on both dialects."""
    engine = make_engine(unmigrated_url)
    tables = sa.inspect(engine).get_table_names()
    engine.dispose()

    assert tables == []


def test_redis_starts_empty(redis_url: str) -> None:
    """What a former test left in Redis is gone."""
    with redis.Redis.from_url(redis_url) as client:
        keys = client.dbsize()

    assert keys == 0


def test_mail_server_keeps_messages_and_refuses_whom_it_is_told(
    smtp_server: MailServer,
) -> None:
    """A message can be looked at; a refused recipient gets none."""
    smtp_server.refused.add("b@example.org")
    host, port = smtp_server.url.removeprefix("smtp://").split(":")

    with smtplib.SMTP(host, int(port)) as client:
        client.sendmail(
            "m@example.org",
            ["a@example.org", "b@example.org"],
            "Subject: News\r\n\r\nNone.",
        )

    assert [["a@example.org"]] == smtp_server.envelopes
    assert ["News"] == [message["Subject"] for message in smtp_server.messages]
