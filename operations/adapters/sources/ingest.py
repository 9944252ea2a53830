"""
The process that reads one source into Parquet, within limits of memory and time.

``main`` reads a job, one line of JSON, from standard input, and answers with one JSON
object, after lines that say how far it is. It ends when standard input ends, so a
killed worker leaves nothing behind. Whatever a source does to the memory of this
process, to Polars or to a driver in C, the worker goes on.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import timedelta
from os import SEEK_END
from pathlib import Path
from typing import Any, BinaryIO

from models.errors import StepError
from operations.adapters import polars_io
from operations.adapters.confinement import confine
from operations.domains import DomainLimits, Drift, Reached, Tell, find_drift

GZIP = b"\x1f\x8b"

#: Compressions that Polars would undo by itself, all of it in memory.
_OTHERS = (
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x78\x01", "zlib"),
    (b"\x78\x9c", "zlib"),
    (b"\x78\xda", "zlib"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ", "xz"),
    (b"PK\x03\x04", "zip"),
)

#: Bytes that are uncompressed at once.
_CHUNK = 1 << 20


def find_other_compression(head: bytes) -> str | None:
    """Return how a file that begins with *head* is compressed, if not by gzip."""
    return next((name for magic, name in _OTHERS if head.startswith(magic)), None)


def gunzip(
    source: BinaryIO, target: BinaryIO, shown: str, limits: DomainLimits, tell: Tell
) -> None:
    """
    Write the uncompressed data of *source* to *target*.

    Args:
        source: One gzip member or several, from its beginning.
        target: Opened for writing.
        shown: What messages call it.
        limits: Bounds of bytes.
        tell: Called with how far *source* is read.

    Raises:
        StepError: Permanent: the data is larger.
        gzip.BadGzipFile, zlib.error, EOFError: *source* is damaged, or ends too early.
        OSError: The file system failed.
    """
    written = 0
    size = source.seek(0, SEEK_END)
    source.seek(0)
    with gzip.GzipFile(fileobj=source, mode="rb") as plain:
        while part := plain.read(_CHUNK):
            written += len(part)
            if written > limits.bytes:
                raise polars_io.explain_too_large(shown, limits)
            target.write(part)
            tell(Reached("unpack", source.tell(), size, "bytes"))


#: gzip within gzip: a compressed file that was sent compressed.
_MOST_LAYERS = 2

#: Seconds between two lines that say how far it is.
_REPORT_S = 0.5

#: Scratch files with numbers from here on contain uncompressed data.
_PLAIN = 1_000_000

_Batch = Sequence[Sequence[object]]

#: Functions that are called before this process ends early.
_on_end: list[Callable[[], None]] = []


def main() -> None:
    """Do the job on standard input."""
    job = json.loads(_read_line())
    # Before there is another thread, of ours or of Polars: it would keep all it has.
    _confine(job)
    threading.Thread(target=_end_with_worker, daemon=True).start()
    answer = _answer(job)
    _write(json.dumps(answer))
    # Exit without clean-up: Polars has threads, and nothing here needs it.
    os._exit(0)


def _confine(job: Mapping[str, Any]) -> None:
    """Give up what *job* needs not; a query needs its driver's files, and a network."""
    if job["work"] != "query":
        known = (job["path"], job["before"])
        confine(
            readable=[Path(each) for each in known if each is not None],
            writable=[Path(job["target"]).parent],
        )


def _write(text: str) -> None:
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


class _Reporter:
    """Writes lines that say how far the reading is, but not too many."""

    def __init__(self) -> None:
        self._next_at = 0.0

    def __call__(self, reached: Reached | None) -> None:
        now = time.monotonic()
        if reached is not None and now >= self._next_at:
            self._next_at = now + _REPORT_S
            _write(f"{json.dumps(asdict(reached))}\n")


def _read_line() -> bytes:
    line = b""
    while not line.endswith(b"\n"):
        more = os.read(0, 1 << 16)
        if not more:
            os._exit(1)
        line += more
    return line


def _end_with_worker() -> None:
    """Wait for the end of standard input, then end this process."""
    while os.read(0, 1):
        pass
    for end in _on_end:
        with suppress(Exception):
            end()
    os._exit(1)


def _answer(job: Mapping[str, Any]) -> dict[str, object]:
    """Do *job* and return its number of rows, or its error."""
    limits = DomainLimits(
        **{**job["limits"], "time": timedelta(seconds=job["limits"]["time"])}
    )
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # Memory that is mapped from files does not count.
    resource.setrlimit(resource.RLIMIT_DATA, (limits.memory, limits.memory))
    target, shown = Path(job["target"]), str(job["shown"])
    try:
        if job["work"] == "query":
            rows = _query(job, target, shown, limits)
        else:
            tell = _Reporter()
            plain = _undo_compression(Path(job["path"]), target, shown, limits, tell)
            rows = polars_io.convert_to_parquet(
                plain, job["kind"], target, shown=shown, limits=limits, tell=tell
            )
    except StepError as error:
        return {"error": str(error), "permanent": error.permanent}
    except MemoryError:
        return {"memory": True}
    except OSError as error:
        return {"errno": error.errno, "error": error.strerror or str(error)}
    before = job["before"]
    drift = None if before is None else _compare(Path(before), target)
    return {"rows": rows, "drift": None if drift is None else asdict(drift)}


def _compare(before: Path, target: Path) -> Drift | None:
    try:
        return find_drift(polars_io.read_schema(before), polars_io.read_schema(target))
    except (StepError, OSError, MemoryError):
        return None  # whatever became of the version before, the new one is good


def _query(
    job: Mapping[str, Any], target: Path, shown: str, limits: DomainLimits
) -> int:
    # Most of these processes do not need the driver, which takes half of their start.
    from operations.adapters.sources.sql_rows import open_query  # noqa: PLC0415

    seconds = int(limits.time.total_seconds())
    with open_query(job["url"], job["sql"], seconds=seconds, shown=shown) as query:
        _on_end.append(query.cancel)
        return polars_io.write_batches(
            query.names,
            _count(query.iterate(), _Reporter()),
            target,
            shown=shown,
            limits=limits,
        )


def _count(batches: Iterator[_Batch], tell: Tell) -> Iterator[_Batch]:
    rows = 0
    for batch in batches:
        rows += len(batch)
        tell(Reached("read", rows, None, "rows"))
        yield batch


def _undo_compression(
    path: Path, target: Path, shown: str, limits: DomainLimits, tell: Tell
) -> Path:
    """Return *path*, or a scratch file with its uncompressed content."""
    for layer in range(_MOST_LAYERS + 1):
        with path.open("rb") as file:
            head = file.read(8)
            other = find_other_compression(head)
            if other is not None or (head.startswith(GZIP) and layer == _MOST_LAYERS):
                msg = (
                    f"{shown} is compressed with {other or 'gzip, several times'}. "
                    "Compress it with gzip, once, or not at all."
                )
                raise StepError(msg, permanent=True)
            if not head.startswith(GZIP):
                return path
            plain = polars_io.make_scratch(target, _PLAIN + layer)
            try:
                with plain.open("wb") as draft:
                    gunzip(file, draft, shown, limits, tell)
            except (gzip.BadGzipFile, zlib.error, EOFError) as error:
                msg = f"{shown} cannot be read as gzip: {error}"
                raise StepError(msg, permanent=True) from error
        path = plain
    return path
