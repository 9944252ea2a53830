"""
Notice a Redis that is a node of a cluster, which its URL does not tell.

A cluster keeps each key on one of its nodes. A worker waits for several queues in one
command, which no node of a cluster takes, and what is sent to another node is refused;
without this it would look like a broker that is away for ever.
"""

from __future__ import annotations

import re
from contextlib import suppress

import redis

from models.errors import UsageError
from settings import Settings

#: How a node answers what belongs to another one, or to several.
_SAID_BY_NODES = re.compile(r"\b(MOVED \d|ASK \d|CROSSSLOT|CLUSTERDOWN)")

REFUSAL = (
    "this Redis is a node of a Redis Cluster, which spreads the keys of one queue over "
    "its nodes. Write a Redis that is not part of one, redis://host:6379/0, or RabbitMQ"
)


def refuse_cluster(settings: Settings) -> None:
    """
    Refuse a node of a cluster, if the broker answers in time and says that it is one.

    A broker that is away, or does not let us ask (``INFO``), is not refused.

    Raises:
        UsageError: It is one.
    """
    if not settings.broker_url.startswith("redis"):
        return
    url = settings.broker_url
    if url.startswith("redis+socket"):
        url = url.replace("redis+socket", "unix", 1).replace("virtual_host=", "db=")
    timeout_s = settings.broker_timeout.total_seconds()
    # What is wrong with the URL, too, is told by whoever connects for good.
    with (
        suppress(redis.RedisError, OSError, ValueError),
        redis.Redis.from_url(
            url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s
        ) as client,
    ):
        if client.info("cluster").get("cluster_enabled"):
            msg = f"MINUTEHAND_BROKER_URL: {REFUSAL}."
            raise UsageError(msg)


def is_said_by_cluster(text: str) -> bool:
    """Tell whether *text*, an error of Redis, comes from a node of a cluster."""
    return _SAID_BY_NODES.search(text) is not None
