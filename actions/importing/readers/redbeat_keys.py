"""The keys of redbeat in Redis, read with deadlines."""

from __future__ import annotations

from typing import Any

import redis

from actions.importing.origins.imported import Entry
from actions.importing.origins.redbeat import read_key
from models.errors import RuleError, UnreachableError, UsageError
from models.fields.server_url import read_broker_url

#: For connecting, and for each answer.
_TIMEOUT_S = 10

#: Keys that are asked for at once.
_CHUNK = 500


def read_redbeat(url: str, *, prefix: str) -> tuple[Entry, ...]:
    """
    Return the entries of redbeat, by key.

    Args:
        url: ``redis://...``, ``rediss://...`` or ``redis+socket://...``.
        prefix: Of its keys: ``redbeat_key_prefix``, "redbeat:".

    Raises:
        UsageError: If *url* is not a Redis server.
        UnreachableError: If it does not answer in time, or refuses.
    """
    client = _make_client(url)
    found: list[Entry] = []
    try:
        keys: Any = client.zrange(f"{prefix}:schedule", 0, -1)
        keys = sorted(keys)
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            with client.pipeline(transaction=False) as pipe:
                for key in chunk:
                    pipe.hmget(key, "definition", "meta")
                answers = pipe.execute(raise_on_error=False)
            for key, answer in zip(chunk, answers, strict=True):
                # what is no hash answers with an error
                parts = answer if isinstance(answer, list) else (None, None)
                found.append(read_key(*map(_text, (key, *parts))))
    except (redis.RedisError, OSError) as error:
        said = str(error).strip() or type(error).__name__
        msg = f"Redis of redbeat cannot be read: {said}"
        raise UnreachableError(msg) from None
    finally:
        client.close()
    return tuple(found)


def _text(value: bytes | None) -> str:
    return "" if value is None else value.decode(errors="replace")


def _make_client(url: str) -> redis.Redis:
    try:
        read = read_broker_url(url)
    except RuleError as error:
        msg = f"URL {error.message} Write redis://:password@host:6379/0."
        raise UsageError(msg) from None
    if not read.startswith("redis"):
        raise UsageError("URL is not Redis. Write redis://:password@host:6379/0.")
    read = read.replace("redis+socket://", "unix://", 1).replace("virtual_host", "db")
    try:
        return redis.Redis.from_url(
            read, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S
        )
    except ValueError:
        # whose text may hold a part of the address
        msg = "URL cannot be read. Write redis://:password@host:6379/0."
        raise UsageError(msg) from None
