"""
The databases of other schedulers, and Redis: read with deadlines, never written.

What went wrong is told without the address, which has a password in it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import redis
import sqlalchemy as sa

from actions.importing.origins.imported import Entry
from actions.importing.origins.redbeat import read_key
from models.database.engine import load_postgresql
from models.errors import RuleError, UnreachableError, UsageError
from models.fields.server_url import read_broker_url, read_database_url

#: For connecting, and for each statement.
TIMEOUT = timedelta(seconds=10)

#: How drivers say that a table or a column is not there.
_NO_TABLE = ("no such table", "no such column", "UndefinedTable", "UndefinedColumn")

#: Of schedules of django-celery-beat.
_KINDS = ("interval", "crontab", "solar", "clocked")


@contextmanager
def open_database(url: str, *, of: str) -> Iterator[sa.Connection]:
    """
    Yield a connection that cannot write.

    Args:
        url: ``postgresql://...`` (whichever driver it names) or ``sqlite:///path``.
        of: What it should be the database of, for messages.

    Raises:
        UsageError: If *url* is another database, names no file, or lacks the tables.
        UnreachableError: If it does not answer in time, or refuses.
    """
    engine = _make_engine(url)
    try:
        with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                connection.execute(sa.text("SET TRANSACTION READ ONLY"))
            yield connection
    except UnreachableError as error:
        _explain_missing(error, of)
        raise
    except sa.exc.DBAPIError as error:
        _explain_missing(error, of)
        said = str(error.orig).strip().partition("\n")[0]
        raise UnreachableError(f"the database of {of} cannot be read: {said}") from None
    finally:
        engine.dispose()


def _explain_missing(error: Exception, of: str) -> None:
    """Raise a better error if tables are missing."""
    text = f"{error} {type(getattr(error, 'orig', None)).__name__}"
    if any(each in text for each in _NO_TABLE):
        msg = f"the database has no tables of {of}. Is it the right one?"
        raise UsageError(msg) from None


def _make_engine(url: str) -> sa.Engine:
    scheme, colon, rest = url.partition("://")
    try:
        # whichever driver it names
        parsed = sa.make_url(
            read_database_url(f"{scheme.partition('+')[0]}{colon}{rest}")
        )
    except RuleError as error:
        raise UsageError(f"URL {error}") from None
    except sa.exc.ArgumentError:
        msg = "URL cannot be read. Write postgresql://user:password@host/name."
        raise UsageError(msg) from None
    if parsed.get_backend_name() == "postgresql":
        make_engine = load_postgresql().make_postgresql_engine
        engine: sa.Engine = make_engine(parsed, timeout=TIMEOUT, pool_size=1)
        return engine
    name = parsed.database or ""
    if not Path(name).is_file():
        raise UsageError(
            f"there is no file {name!r}. Write sqlite:////path/to/file (four slashes)."
        )
    place = f"file:{quote(str(Path(name).absolute()))}?mode=ro"
    seconds = TIMEOUT.total_seconds()
    return sa.create_engine(
        "sqlite://",
        creator=lambda: sqlite3.connect(
            place, uri=True, timeout=seconds, check_same_thread=False
        ),
        poolclass=sa.pool.NullPool,
    )


def read_periodic_tasks(url: str) -> tuple[Entry, ...]:
    """
    Return all periodic tasks of django-celery-beat, by name.

    Raises:
        UsageError, UnreachableError: As ``open_database``.
    """
    with open_database(url, of="django-celery-beat") as connection:
        schedules = {
            kind: {row["id"]: row for row in _read_all(connection, f"{kind}schedule")}
            for kind in _KINDS
        }
        tasks = _read_all(connection, "periodictask")
    found = []
    for task in sorted(tasks, key=lambda row: str(row["name"])):
        kind = next((each for each in _KINDS if task[f"{each}_id"] is not None), "")
        schedule = schedules.get(kind, {}).get(task.get(f"{kind}_id"))
        fields = {**task, "kind": kind, "schedule": schedule}
        found.append(Entry(str(task["name"]), fields))
    return tuple(found)


def _read_all(connection: sa.Connection, name: str) -> list[Mapping[str, Any]]:
    # Older versions lack some columns, so take those that there are.
    table = sa.table(f"django_celery_beat_{name}")
    query = sa.select(sa.text("*")).select_from(table)
    return [dict(row) for row in connection.execute(query).mappings()]


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
        raise UnreachableError(f"Redis of redbeat cannot be read: {said}") from None
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
