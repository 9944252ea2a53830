"""
Notice a Redis that is a node of a cluster; its URL does not show it.

A cluster keeps each key on one of its nodes. A worker waits for several queues in one
command, and a node refuses that, as it refuses messages whose keys are on another node.
Without this check it would look like a broker that is away for ever.
"""

from __future__ import annotations

import re
from contextlib import suppress

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from models.errors import UsageError
from settings import Settings

#: How a node answers a command whose keys belong to another node, or to several.
_SAID_BY_NODES = re.compile(r"\b(MOVED \d|ASK \d|CROSSSLOT|CLUSTERDOWN)")

REFUSAL = (
    "this Redis is a node of a Redis Cluster, which spreads the keys of one queue over "
    "its nodes. Write a single Redis server, redis://host:6379/0, or RabbitMQ"
)


def refuse_cluster(settings: Settings) -> None:
    """
    Refuse a broker that answers in time and says that it is a node of a cluster.

    A broker that is away, or that forbids the question (``INFO``), is not refused.

    Raises:
        UsageError: The broker is a node of a cluster.
    """
    if not settings.broker_url.startswith("redis"):
        return
    # Other errors, even in the URL, are reported by the code that really connects.
    with (
        suppress(redis.RedisError, OSError, ValueError),
        open_redis(
            settings.broker_url, settings.broker_timeout.total_seconds()
        ) as client,
    ):
        if client.info("cluster").get("cluster_enabled"):
            raise UsageError(f"MINUTEHAND_BROKER_URL: {REFUSAL}.")


def open_redis(url: str, timeout_s: float) -> redis.Redis:
    """
    Return a client of a Redis, which tries each call once.

    Args:
        url: As kombu writes it; redis-py writes sockets otherwise.
        timeout_s: For each of connecting and a call.
    """
    if url.startswith("redis+socket"):
        url = url.replace("redis+socket", "unix", 1).replace("virtual_host=", "db=")
    once = Retry(NoBackoff(), 0)
    return redis.Redis.from_url(
        url, socket_timeout=timeout_s, socket_connect_timeout=timeout_s, retry=once
    )


def is_said_by_cluster(text: str) -> bool:
    """Tell whether *text*, an error of Redis, comes from a node of a cluster."""
    return _SAID_BY_NODES.search(text) is not None
