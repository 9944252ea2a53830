"""
The databases of other schedulers, and Redis: read with deadlines, never written.

What went wrong is told without the address, which has a password in it.

A job of APScheduler is a pickle, and whoever can write to that table can put a program
into it. So nothing that it names is imported: dates and zones are made by us, and any
other class becomes a record of what it was called and what it held.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime, time, timedelta, timezone
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import redis
import sqlalchemy as sa

from actions.importing.origins.apscheduler import get_title
from actions.importing.origins.imported import (
    UNREADABLE_ERRORS,
    Entry,
    Stored,
    explain_unreadable,
)
from actions.importing.origins.redbeat import read_key
from models.database.engine import make_engine
from models.errors import RuleError, UnreachableError, UsageError
from models.fields.server_url import read_broker_url, read_database_url
from models.fields.zone import load_zone

#: For connecting, and for each statement or answer.
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
    except (UnreachableError, sa.exc.DBAPIError) as error:
        original = getattr(error, "orig", None)
        text = f"{error} {type(original).__name__}"
        if any(each in text for each in _NO_TABLE):
            msg = f"the database has no tables of {of}. Is it the right one?"
            raise UsageError(msg) from None
        if original is None:
            raise
        said = str(original).strip().partition("\n")[0]
        raise UnreachableError(f"the database of {of} cannot be read: {said}") from None
    finally:
        engine.dispose()


def _make_engine(url: str) -> sa.Engine:
    scheme, colon, rest = url.partition("://")
    try:
        # whichever driver it names
        url = read_database_url(f"{scheme.partition('+')[0]}{colon}{rest}")
        parsed = sa.make_url(url)
    except RuleError as error:
        raise UsageError(f"URL {error}") from None
    except sa.exc.ArgumentError:
        msg = "URL cannot be read. Write postgresql://user:password@host/name."
        raise UsageError(msg) from None
    if parsed.get_backend_name() == "postgresql":
        return make_engine(url, timeout=TIMEOUT, pool_size=1)
    name = parsed.database or ""
    if not Path(name).is_file():
        raise UsageError(
            f"there is no file {name!r}. Write sqlite:////path/to/file (four slashes)."
        )
    place = f"file:{quote(str(Path(name).absolute()))}"
    return sa.create_engine(
        f"sqlite:///{place}?mode=ro&uri=true",
        connect_args={"timeout": TIMEOUT.total_seconds()},
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
        seconds = TIMEOUT.total_seconds()
        return redis.Redis.from_url(
            read, socket_timeout=seconds, socket_connect_timeout=seconds
        )
    except ValueError:
        # whose text may hold a part of the address
        msg = "URL cannot be read. Write redis://:password@host:6379/0."
        raise UsageError(msg) from None


#: Bytes of one job; its arguments are in it.
_LARGEST = 1 << 20

#: Values of one job: texts, numbers, lists, and what is in them.
_MOST_VALUES = 100_000

#: What a pickle that was cut off, altered or made up may raise.
_BROKEN = (
    *UNREADABLE_ERRORS,
    *(pickle.UnpicklingError, AssertionError, EOFError, MemoryError, struct.error),
)

_LATIN = frozenset({"latin1", "latin-1"})
_DATES = (datetime, date, time, timedelta, timezone)


def read_jobs(url: str, *, table: str) -> tuple[Entry, ...]:
    """
    Return all jobs, by id.

    Args:
        url: Of the database; see ``open_database``.
        table: Name of the table, ``apscheduler_jobs``; with a schema before a dot.

    Raises:
        UsageError, UnreachableError: As ``open_database``.
    """
    schema, _, name = table.rpartition(".")
    jobs = sa.table(
        name, sa.column("id"), sa.column("job_state"), schema=schema or None
    )
    query = sa.select(jobs.c.id, jobs.c.job_state).order_by(jobs.c.id)
    with open_database(url, of=f"APScheduler ({table})") as connection:
        rows = connection.execute(query).all()
    return tuple(read_job(str(row.id), bytes(row.job_state)) for row in rows)


def read_job(name: str, state: bytes) -> Entry:
    """
    Return the job *name*, whose pickle is *state*; or why it cannot be read.

    >>> read_job("it", pickle.dumps({"func": "shop.jobs:report"})).fields
    {'func': 'shop.jobs:report'}
    """
    if len(state) > _LARGEST:
        told = f"It has {len(state):,} bytes, which is too many."
        return Entry(name, problem=told)
    try:
        found = InertUnpickler(io.BytesIO(state)).load()
    except _BROKEN as error:
        return Entry(name, problem=explain_unreadable(error))
    if not isinstance(found, Mapping):
        return Entry(name, problem="It is not a job of APScheduler 3.")
    return Entry(get_title(name, found), found)


class _Inert:
    """An object of a class that is not imported: it keeps its state, no more."""

    kind = ""

    def __new__(cls, *_args: object, **_named: object) -> Self:
        """Take whatever a pickle gives to a class that is called."""
        return object.__new__(cls)

    def __setstate__(self, state: object) -> None:
        """Keep the state as it is."""
        self.__dict__["state"] = state

    def _ignore(self, *_: object) -> None:
        """Take what would fill a list, a dict or a set of the project's own."""

    append = extend = add = __setitem__ = _ignore


class InertUnpickler(pickle._Unpickler):  # noqa: SLF001 - see its docstring
    """
    Reads a pickle as data: dicts, lists, text, numbers, dates, and Stored objects.

    It is Python's own implementation in Python, whose memory grows with the pickle; the
    one in C would reserve as much as a forged pickle asks for.

    A pickle may hold one list in many places, twice in each of forty levels. So the
    values are counted, of which there are too many in what was made up.
    """

    _left = _MOST_VALUES

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class or function; nothing is imported."""
        made = _MADE.get((module, name))
        return made or type("Inert", (_Inert,), {"kind": f"{module}:{name}"})

    def load(self) -> Any:
        """Return the whole of it, with Stored in the place of objects."""
        return self._settle(super().load())

    def _settle(self, value: Any) -> Any:
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        if isinstance(value, _Inert):
            # slots come as a pair of two dicts
            state = value.__dict__.get("state", {})
            parts = state if isinstance(state, tuple) else (state,)
            known = [self._settle(part) for part in parts if isinstance(part, dict)]
            held = {str(name): each for part in known for name, each in part.items()}
            return Stored(value.kind, held)
        if isinstance(value, dict):
            keys = (
                key if isinstance(key, str | int | float) else type(key).__name__
                for key in value
            )
            return dict(zip(keys, map(self._settle, value.values()), strict=True))
        if isinstance(value, list | tuple):
            return type(value)(self._settle(each) for each in value)
        if isinstance(value, type):
            return Stored(getattr(value, "kind", value.__name__))
        return value


def _make_zone(name: str, *_: object) -> Any:
    """Stand in for ``ZoneInfo._unpickle`` and for pytz."""
    try:
        return load_zone(name)
    except RuleError as error:
        raise ValueError(str(error)) from None


def _get_maker(owner: object, name: str) -> Callable[..., Any]:
    """Stand in for ``getattr``, with which a ZoneInfo is pickled, and nothing else."""
    if owner is _make_zone and name == "_unpickle":
        return _make_zone
    raise pickle.UnpicklingError(f"getattr of {name!r} is not allowed")


def _encode(text: str, encoding: str) -> bytes:
    """Stand in for ``_codecs.encode``, with which old pickles hold bytes."""
    if encoding not in _LATIN:
        raise pickle.UnpicklingError(f"the encoding {encoding!r} is not allowed")
    return text.encode("latin-1")


#: What is made, by module and name; all of it is harmless, whatever it is called with.
_MADE: dict[tuple[str, str], Any] = {
    **{("datetime", each.__name__): each for each in _DATES},
    ("zoneinfo", "ZoneInfo"): _make_zone,
    ("backports.zoneinfo", "ZoneInfo"): _make_zone,
    ("pytz", "_p"): _make_zone,
    ("pytz", "_UTC"): lambda: UTC,
    **dict.fromkeys([("builtins", "getattr"), ("__builtin__", "getattr")], _get_maker),
    ("_codecs", "encode"): _encode,
    **dict.fromkeys([("builtins", "set"), ("__builtin__", "set")], set),
    ("builtins", "frozenset"): frozenset,
}
