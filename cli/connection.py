"""
The settings and the database of one call.

The first call creates and migrates the embedded database. All other databases are
migrated by their operators (``minutehand migrate``).
"""

from __future__ import annotations

import fcntl
import os
import pwd
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import cache
from importlib import import_module
from typing import Concatenate, ParamSpec, TypeVar

import sqlalchemy as sa

import tracing
from migrations.schema_revisions import explaining_schema
from models.database.engine import Author, make_engine, reading, writing
from models.database.sqlite_place import find_sqlite_file, name_lock
from models.errors import UnreachableError, UsageError
from settings import Settings, find_collector, read_settings

_Answer = TypeVar("_Answer")
_Given = ParamSpec("_Given")

#: Nobody waits longer for what a shell offers.
_PEEK_WITHIN = timedelta(seconds=1)


@cache
def get_settings() -> Settings:
    """Return the settings of this call."""
    settings = read_settings()
    tracing.configure(find_collector("TRACES"))
    return settings


def get_actor() -> str:
    """Return who makes this call: MINUTEHAND_ACTOR, or ``user@host``."""
    actor = get_settings().actor
    if actor is not None:
        return actor
    uid = os.getuid()
    try:
        user = pwd.getpwuid(uid).pw_name
    except KeyError:  # a container may run as a number that has no name
        user = str(uid)
    return f"{user}@{socket.gethostname()}"


@cache
def get_engine() -> sa.Engine:
    """Return the engine of this call; create the embedded database if it is missing."""
    settings = get_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    if _is_missing_file(settings.database_url):
        _refuse_while_in_use(settings.database_url)
        # Alembic takes half a second to import, and is only needed here.
        import_module("migrations.schema").migrate(engine)
    return engine


def _is_missing_file(url: str) -> bool:
    path = find_sqlite_file(url)
    return path is not None and (not path.exists() or path.stat().st_size == 0)


def _refuse_while_in_use(url: str) -> None:
    """Refuse to make a new file beside that which ``minutehand up`` has open."""
    path = find_sqlite_file(url)
    assert path is not None  # as it is a file
    with suppress(FileNotFoundError), name_lock(path).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UnreachableError(
                f"{path} is not there, though minutehand up (pid {lock.read()}) runs on"
                " it. If it does not just begin, the file was deleted: stop it, put a"
                " backup back (docs/backup.md), and start anew"
            ) from None


@contextmanager
def peek_at_database() -> Iterator[sa.Connection]:
    """
    Yield a read-only connection to a database that is there; never create one.

    Raises:
        UsageError: There is no database yet.
    """
    settings = get_settings()
    if _is_missing_file(settings.database_url):
        raise UsageError("there is no database yet")
    engine = make_engine(settings.database_url, timeout=_PEEK_WITHIN)
    with reading(engine) as connection:
        yield connection


@contextmanager
def use_engine() -> Iterator[sa.Engine]:
    """Yield this call's engine, for functions that open their own transactions."""
    engine = get_engine()
    with explaining_schema(engine):
        yield engine


@contextmanager
def read_database(engine: sa.Engine | None = None) -> Iterator[sa.Connection]:
    """Yield a read-only connection of *engine*, by default this call's own."""
    engine = engine or get_engine()
    with explaining_schema(engine), reading(engine) as connection:
        yield connection


@contextmanager
def write_database(engine: sa.Engine | None = None) -> Iterator[sa.Connection]:
    """
    Yield a connection in one transaction, by default of this call's own engine.

    What it changes there is said to be the actor's; the demo, which has an engine of
    its own, has no actor, since it does not read the environment.
    """
    author = None if engine is not None else Author(get_actor())
    engine = engine or get_engine()
    with explaining_schema(engine), writing(engine, author=author) as connection:
        yield connection


def ask_database(
    fetch: Callable[Concatenate[sa.Connection, _Given], _Answer],
    *given: _Given.args,
    **named: _Given.kwargs,
) -> _Answer:
    """Return what *fetch* reads on this call's own engine."""
    with read_database() as connection:
        return fetch(connection, *given, **named)


def change_database(
    change: Callable[Concatenate[sa.Connection, _Given], _Answer],
    *given: _Given.args,
    **named: _Given.kwargs,
) -> _Answer:
    """Return what *change* does in one transaction, as the actor."""
    with write_database() as connection:
        return change(connection, *given, **named)
