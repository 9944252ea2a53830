"""
The data of small apps, as steps see it: domains, versions, and what was read. Pure.

operations/adapters/workspace.py stores it, operations/adapters/sources reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    # The process that reads a source does not need it, and starts faster without it.
    from pydantic import JsonValue


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """
    What identified the content of a source when it was read.

    Args:
        source: Digest of the source's definition: an equal ETag of another URL means
            nothing.
        etag: HTTP: the ETag. File: size and inode. None: not given.
        last_modified: HTTP: the Last-Modified header. File: modification time in
            nanoseconds. None: not given.
    """

    source: str
    etag: str | None = None
    last_modified: str | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """
    How far the reading of one source is.

    Args:
        doing: What is done at the moment: "download", "unpack", "read".
        done: Units that are done.
        total: Units there are. None: nobody knows.
        unit: "bytes" or "rows".
    """

    doing: str
    done: int
    total: int | None
    unit: str


#: Called while a source is read, with how far that is; None: nobody knows how far. May
#: raise what ends the reading.
Tell = Callable[[Reached | None], None]


#: Changes of columns that are kept of one reading; further ones are counted.
MOST_CHANGES = 50


@dataclass(frozen=True, slots=True)
class Drift:
    """
    How the columns differ from those of the version before.

    Args:
        added: Names of new columns, with their types.
        removed: Names of columns that are gone, with the types they had.
        retyped: Names of columns of another type, with the types before and after.
        more: Changes beyond MOST_CHANGES.
    """

    added: tuple[tuple[str, str], ...] = ()
    removed: tuple[tuple[str, str], ...] = ()
    retyped: tuple[tuple[str, str, str], ...] = ()
    more: int = 0

    def as_json(self) -> dict[str, JsonValue]:
        """Return the documented object of the result of ``refresh``."""
        return {
            "added": dict(self.added),
            "removed": dict(self.removed),
            "retyped": {name: f"{was} to {now}" for name, was, now in self.retyped},
            "more": self.more,
        }

    def describe(self) -> str:
        """Return the changes in words: ``added vat (Float64); removed note``."""
        told = []
        if self.added:
            listed = ", ".join(f"{name} ({kind})" for name, kind in self.added)
            told.append(f"added {listed}")
        if self.removed:
            told.append(f"removed {', '.join(name for name, _ in self.removed)}")
        told += [f"{name} is {now}, was {was}" for name, was, now in self.retyped]
        if self.more:
            told.append(f"{self.more:,} more")
        return "; ".join(told)


def find_drift(
    before: Sequence[tuple[str, str]], after: Sequence[tuple[str, str]]
) -> Drift | None:
    """
    Return how columns changed; None if they did not, whatever their order.

    Args:
        before: Names and types of the columns of the version before.
        after: Those of the new one.
    """
    had, has = dict(before), dict(after)
    changes = [
        *((name, "", kind) for name, kind in has.items() if name not in had),
        *((name, kind, "") for name, kind in had.items() if name not in has),
        *((n, had[n], kind) for n, kind in has.items() if had.get(n, kind) != kind),
    ]
    if not changes:
        return None
    kept = [(_cut(n), _cut(was), _cut(now)) for n, was, now in changes[:MOST_CHANGES]]
    return Drift(
        added=tuple((name, now) for name, was, now in kept if not was),
        removed=tuple((name, was) for name, was, now in kept if not now),
        retyped=tuple(each for each in kept if each[1] and each[2]),
        more=len(changes) - len(kept),
    )


def _cut(text: str, most: int = 100) -> str:
    return text if len(text) <= most else f"{text[:most]}..."


@dataclass(frozen=True, slots=True)
class Reading:
    """
    The result of reading a source into a Parquet file of *rows* rows.

    *drift*: how its columns differ from those of the staged version; None: not at all,
    or nobody can tell.
    """

    rows: int
    fingerprint: Fingerprint
    drift: Drift | None = None


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a domain's data; *path* is absolute, *created_at* aware UTC."""

    number: int
    path: Path
    rows: int
    size: int
    created_at: datetime
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Domain:
    """
    A named data set of a small app, with the versions to which its pointers refer.

    Args:
        folder: The absolute path of the app's files. None: the app may read no files.
        labels: How people are shown it: "title", "description", "columns", as posted.
        summarized: The figures of the last executive summary, by the uid of the action.
    """

    name: str
    source: Mapping[str, JsonValue]
    staged: Version | None = None
    live: Version | None = None
    folder: Path | None = None
    labels: Mapping[str, JsonValue] = field(default_factory=dict)
    summarized: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """
    What is read into which file.

    Args:
        app: Uid of the small app, which decides what may be read.
        domain: Its source is as posted: {"file" | "url" | "sql": ..., ...}.
        target: A Parquet file that does not exist yet; it may be left half-written on
            errors.
        known: Fingerprint of the staged version. None: read in any case.
        tell: Called about once a second while it is read. None: nobody listens.
    """

    app: str
    domain: Domain
    target: Path
    known: Fingerprint | None = None
    tell: Tell | None = None


@dataclass(frozen=True, slots=True)
class DomainLimits:
    """
    Limits for reading one domain.

    Args:
        bytes: Size of a source, uncompressed.
        rows: Rows of a source.
        columns: Columns of a source.
        memory: Bytes of memory of the process that reads a source.
        time: For one download, and for one conversion or query.
    """

    bytes: int = 4 << 30
    rows: int = 50_000_000
    columns: int = 2_000
    memory: int = 2 << 30
    time: timedelta = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class DomainDraft:
    """Data that was read, but to which no pointer refers yet."""

    domain: str
    path: Path
    reading: Reading


@dataclass(frozen=True, slots=True)
class Column:
    """
    A column in the executive summary; only numbers have figures.

    Args:
        kind: The type of its values, as Polars names it.
    """

    name: str
    kind: str
    minimum: float | int | None = None
    maximum: float | int | None = None
    total: float | int | None = None


@dataclass(frozen=True, slots=True)
class DomainSummary:
    """What a live domain holds; *head* are its first rows, as Python has them."""

    domain: str
    version: Version
    columns: tuple[Column, ...]
    head: tuple[tuple[object, ...], ...]


MoveKind = Literal["data", "design", "permissions"]


@dataclass(frozen=True, slots=True)
class Move:
    """What is live now instead of what was; documents have no versions."""

    kind: MoveKind
    name: str
    before: int | None
    after: int | None
