"""
The jobs of APScheduler's SQLAlchemy job store, read without running any of them.

A job is a pickle, and whoever can write to that table can put a program into it. So
nothing that it names is imported: dates and zones are made by us, and any other class
becomes a record of what it was called and what it held.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta, timezone
from typing import Any, Self

import sqlalchemy as sa

from actions.importing.origins.apscheduler import get_title
from actions.importing.origins.imported import (
    UNREADABLE_ERRORS,
    Entry,
    Stored,
    explain_unreadable,
)
from actions.importing.readers.databases import open_database
from models.errors import RuleError
from models.fields.zone import load_zone

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
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a class or function; nothing is imported."""
        made = _MADE.get((module, name))
        return made or type("Inert", (_Inert,), {"kind": f"{module}:{name}"})

    def load(self) -> Any:
        """Return the whole of it, with Stored in the place of objects."""
        return _Settler().settle(super().load())


class _Settler:
    """
    Turns what stands for objects into Stored, also inside of lists and dicts.

    A pickle may hold one list in many places, twice in each of forty levels. So the
    values are counted, of which there are too many in what was made up.
    """

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def settle(self, value: Any) -> Any:
        """Return *value* without inert objects."""
        self._left -= 1
        if self._left < 0:
            raise ValueError(f"it has more than {_MOST_VALUES:,} values")
        if isinstance(value, _Inert):
            # slots come as a pair of two dicts
            state = value.__dict__.get("state", {})
            parts = state if isinstance(state, tuple) else (state,)
            known = [self.settle(part) for part in parts if isinstance(part, dict)]
            held = {str(name): each for part in known for name, each in part.items()}
            return Stored(value.kind, held)
        if isinstance(value, dict):
            keys = (
                key if isinstance(key, str | int | float) else type(key).__name__
                for key in value
            )
            return dict(zip(keys, map(self.settle, value.values()), strict=True))
        if isinstance(value, list | tuple):
            return type(value)(self.settle(each) for each in value)
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
    ("builtins", "getattr"): _get_maker,
    ("__builtin__", "getattr"): _get_maker,
    ("_codecs", "encode"): _encode,
    ("builtins", "set"): set,
    ("__builtin__", "set"): set,
    ("builtins", "frozenset"): frozenset,
}
