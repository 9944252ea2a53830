"""Which installation a database is of, and which messages say so."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID, uuid4

import redis
import sqlalchemy as sa
from kombu.utils.json import loads

from celery_app.app import make_app
from celery_app.operation_sender import CelerySender
from celery_app.routing import INSTALLATION_HEADER
from models.operation_state import Queue
from operations.fleet.processes import fetch_installation
from operations.sending.order import Message
from settings import read_settings
from tests.database import read_by


def test_migration_makes_one_id(engine: sa.Engine):
    """It is what messages carry, as text."""
    found = read_by(engine, fetch_installation)

    assert found is not None
    assert str(UUID(found)) == found


def test_every_message_says_which_installation_it_is_of(redis_url: str):
    """It is read once, however many are sent."""
    settings = read_settings({"MINUTEHAND_BROKER_URL": redis_url}, env_file=None)
    reads: list[str] = []

    def read() -> str:
        reads.append("read")
        return "an installation"

    sender = CelerySender(
        make_app(settings), timeout=timedelta(seconds=5), read_installation=read
    )
    for _ in range(2):
        sender.send([Message(uuid4(), Queue.QUICK, "a test", 0) for _ in range(2)])
    sender.close()
    with redis.Redis.from_url(redis_url) as client:
        texts = client.lrange("minutehand.quick", 0, -1)

    assert ["an installation"] * 4 == [
        loads(text)["headers"][INSTALLATION_HEADER] for text in texts
    ]
    assert ["read"] == reads
