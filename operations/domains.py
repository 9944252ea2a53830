"""
The data of small apps, as steps see it: domains, versions, and what was read. Pure.

operations/adapters/workspace stores it, operations/adapters/sources reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

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
class Reading:
    """The result of reading a source into a Parquet file of *rows* rows."""

    rows: int
    fingerprint: Fingerprint


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
class Limits:
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


def format_bytes(count: int) -> str:
    """
    Return *count* in the largest unit in which it is a short number.

    >>> format_bytes(4 << 30), format_bytes(1_500_000), format_bytes(12)
    ('4 GiB', '1.43 MiB', '12 bytes')
    """
    for power, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.3g} {unit}"
    return f"{count} bytes"


@dataclass(frozen=True, slots=True)
class Draft:
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

        count: How many values there are, without those that are missing.
    """

    name: str
    kind: str
    minimum: float | int | None = None
    maximum: float | int | None = None
    total: float | int | None = None
    count: int = 0


@dataclass(frozen=True, slots=True)
class DomainSummary:
    """What a live domain holds; *head* are its first rows, as Python has them."""

    domain: str
    version: Version
    columns: tuple[Column, ...]
    head: tuple[tuple[object, ...], ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A pointer that moved. *kind*: "data", "design" or "permissions"."""

    kind: str
    name: str
    before: int | None
    after: int | None
