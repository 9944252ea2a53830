"""
The servers of a benchmark: a PostgreSQL that keeps what it commits, and a Redis.

They come from where those of the tests come from; see tests/chaos/servers.py.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import psutil
import psycopg
import redis

from tests.chaos.servers import run_postgres, run_redis

#: Unlike in tests, a commit is on the disk before it is told.
_DURABLE = (
    *("-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on"),
    *("-c", "shared_buffers=512MB", "-c", "work_mem=32MB"),
    *("-c", "max_wal_size=4GB", "-c", "checkpoint_timeout=15min"),
    *("-c", "unix_socket_directories=", "-c", "log_min_messages=fatal"),
)


@dataclass(frozen=True, slots=True)
class Servers:
    """Where a case finds them; *postgres* in the form of SQLAlchemy, by psycopg."""

    postgres: str
    redis: str

    @property
    def dsn(self) -> str:
        """The PostgreSQL as libpq wants it."""
        return self.postgres.replace("postgresql+psycopg://", "postgresql://")

    @property
    def settings(self) -> dict[str, str]:
        return {
            "MINUTEHAND_DATABASE_URL": self.postgres,
            "MINUTEHAND_BROKER_URL": self.redis,
        }


@contextmanager
def run_servers(options: tuple[str, ...] = ()) -> Iterator[Servers]:
    """Run both, PostgreSQL with these *options* beside those that all have."""
    with run_postgres((*_DURABLE, *options)) as postgres, run_redis() as broker:
        yield Servers(postgres, broker)


def empty(servers: Servers, database: str = "bench") -> Servers:
    """Return *servers* with an empty Redis and a new *database*."""
    with redis.Redis.from_url(servers.redis) as client:
        client.flushall()
    with psycopg.connect(servers.dsn, autocommit=True) as connection:
        connection.execute(f"drop database if exists {database} with (force)")
        connection.execute(f"create database {database}")
        connection.execute("checkpoint")
    server, _, _ = servers.postgres.rpartition("/")
    return replace(servers, postgres=f"{server}/{database}")


def from_environment() -> Servers:
    """Return the servers whose ``settings`` are in the environment."""
    postgres = os.environ["MINUTEHAND_DATABASE_URL"]
    return Servers(postgres, os.environ["MINUTEHAND_BROKER_URL"])


def cpu_of(root: psutil.Process) -> float:
    """Return the seconds of CPU of *root* and its children, of those that ended too."""
    children = root.children(recursive=True)
    times = root.cpu_times()
    ended = times.children_user + times.children_system
    return ended + sum(sum(each.cpu_times()[:2]) for each in (root, *children))
