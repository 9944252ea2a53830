"""
Where domains come from: files, HTTP(S) and SQL, read with Polars into Parquet.

Polars is imported inside functions, on purpose: its threads must never exist in
the parent of the worker processes, or the forked children hang.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import httpx
import sqlalchemy as sa
from pydantic import JsonValue

from models.database import make_interruptible
from models.errors import StepError
from operations.adapters.polars_io import (
    convert_to_parquet,
    find_format,
    write_query,
)
from operations.data import Fingerprint, Reading

#: A file changed this shortly before it is read may change again without its time
#: showing it (clocks of file systems tick a few milliseconds apart): not a basis
#: for "unchanged".
FILE_CLOCK_TICK = timedelta(milliseconds=50)

#: Connecting, and each wait for the next bytes.
HTTP_TIMEOUT_S = 30.0

#: All of a download or a query: below the time limit of the heavy queue.
DEADLINE = timedelta(minutes=30)

#: Answers that may be another one tomorrow.
_PASSING_STATUS = frozenset({408, 425, 429})


def digest_source(source: Mapping[str, JsonValue]) -> str:
    """Return the digest by which a fingerprint says which source it is of."""
    text = json.dumps(source, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RealSources:
    """Reads ``{"file": …}``, ``{"url": …}`` and ``{"sql": …, "database": …}``."""

    def __init__(self, *, folder: Path, deadline: timedelta = DEADLINE) -> None:
        """
        Make it; nothing is opened.

        Args:
            folder: What relative file paths are relative to.

            deadline: Bound of one download or query.
        """
        self._folder = folder
        self._deadline = deadline

    def read(
        self,
        source: Mapping[str, JsonValue],
        *,
        known: Fingerprint | None,
        target: Path,
    ) -> Reading | None:
        """Read *source* into *target*, as :class:`operations.ports.Sources` says."""
        digest = digest_source(source)
        if known is not None and known.source != digest:
            known = None
        file, url, query = source.get("file"), source.get("url"), source.get("sql")
        if isinstance(file, str):
            return self._read_file(source, self._folder / file, digest, known, target)
        if isinstance(url, str):
            return self._read_url(source, url, digest, known, target)
        if isinstance(query, str):
            return self._read_query(source, query, digest, target)

        msg = f"source {sorted(source)} is none of file, url, sql."
        raise StepError(msg, permanent=True)

    def _read_file(
        self,
        source: Mapping[str, JsonValue],
        path: Path,
        digest: str,
        known: Fingerprint | None,
        target: Path,
    ) -> Reading | None:
        try:
            before = _fingerprint_file(path, digest)
            if before is not None and before == known:
                return None

            rows = convert_to_parquet(path, find_format(source, path.name), target)
            after = _fingerprint_file(path, digest)
        except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
            reason = error.strerror or type(error).__name__
            msg = f"source file {path}: {reason}."
            raise StepError(msg, permanent=True) from error
        except OSError as error:
            msg = f"source file {path}: {error}"
            raise StepError(msg, permanent=False) from error

        # Written to while we read, or a moment ago: the next refresh reads again.
        stable = before if before == after else None
        return Reading(rows=rows, fingerprint=stable or Fingerprint(source=digest))

    def _read_url(
        self,
        source: Mapping[str, JsonValue],
        url: str,
        digest: str,
        known: Fingerprint | None,
        target: Path,
    ) -> Reading | None:
        download = target.with_name(f"{target.name}.download")
        try:
            with (
                httpx.Client(timeout=HTTP_TIMEOUT_S, follow_redirects=True) as client,
                client.stream("GET", url, headers=_conditions(known)) as response,
            ):
                seen = Fingerprint(
                    source=digest,
                    etag=response.headers.get("etag"),
                    last_modified=response.headers.get("last-modified"),
                )
                if known is not None and _is_unchanged(response, seen, known):
                    return None
                _check_status(response, url)
                self._download(response, url, download)
                kind = find_format(
                    source, response.url.path, response.headers.get("content-type", "")
                )
            rows = convert_to_parquet(download, kind, target, shown=_hide_secrets(url))
        except httpx.InvalidURL as error:
            msg = f"source {_hide_secrets(url)}: {error}"
            raise StepError(msg, permanent=True) from error
        except httpx.UnsupportedProtocol as error:
            msg = f"source {_hide_secrets(url)}: {error} Write http:// or https://."
            raise StepError(msg, permanent=True) from error
        except (httpx.HTTPError, OSError) as error:
            reason = str(error) or type(error).__name__
            msg = f"source {_hide_secrets(url)}: {reason}"
            raise StepError(msg, permanent=False) from error
        finally:
            download.unlink(missing_ok=True)

        return Reading(rows=rows, fingerprint=seen)

    def _download(self, response: httpx.Response, url: str, path: Path) -> None:
        # httpx bounds each wait, not their sum: a server that sends a byte a
        # minute would hold the worker for ever.
        give_up_at = time.monotonic() + self._deadline.total_seconds()
        with path.open("wb") as file:
            for chunk in response.iter_bytes():
                file.write(chunk)
                if time.monotonic() > give_up_at:
                    msg = f"source {_hide_secrets(url)}: longer than {self._deadline}"
                    raise StepError(msg, permanent=False)

    def _read_query(
        self,
        source: Mapping[str, JsonValue],
        query: str,
        digest: str,
        target: Path,
    ) -> Reading:
        engine = _make_source_engine(source, self._deadline)
        shown = engine.url.render_as_string(hide_password=True)
        try:
            connection = engine.connect()
        except sa.exc.SQLAlchemyError as error:
            # A database that is away may come back; a wrong query stays wrong.
            msg = f"source database {shown}: {_first_line(error)}"
            raise StepError(msg, permanent=False) from error
        try:
            with connection:
                rows = write_query(query, connection, target, shown=shown)
        except sa.exc.OperationalError as error:
            msg = f"source database {shown}: {_first_line(error)}"
            # SQLite calls a missing table operational; a lock may pass.
            permanent = engine.dialect.name == "sqlite" and "locked" not in str(error)
            raise StepError(msg, permanent=permanent) from error
        except sa.exc.SQLAlchemyError as error:
            msg = f"source database {shown}: {_first_line(error)}"
            raise StepError(msg, permanent=True) from error

        # Nothing tells cheaply whether a query's result changed: in doubt it runs.
        return Reading(rows=rows, fingerprint=Fingerprint(source=digest))


def _fingerprint_file(path: Path, digest: str) -> Fingerprint | None:
    """Return what *path* says of itself; None if it changed only just now."""
    status = path.stat()
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    age = timedelta(microseconds=(time.time_ns() - changed) / 1000)
    if age < FILE_CLOCK_TICK:
        return None

    return Fingerprint(
        source=digest,
        etag=f"{status.st_size}-{status.st_ino}",
        last_modified=str(status.st_mtime_ns),
    )


def _conditions(known: Fingerprint | None) -> dict[str, str]:
    # The ETag wins where both are given (RFC 9110, 13.2.2): times have a resolution
    # of a second.
    if known is None:
        return {}
    if known.etag is not None:
        return {"If-None-Match": known.etag}
    if known.last_modified is not None:
        return {"If-Modified-Since": known.last_modified}
    return {}


def _is_unchanged(
    response: httpx.Response, seen: Fingerprint, known: Fingerprint
) -> bool:
    if response.status_code == httpx.codes.NOT_MODIFIED:
        return True
    if not response.is_success:
        return False
    # Many servers ignore conditions but do say what they have.
    if known.etag is not None or seen.etag is not None:
        return known.etag == seen.etag
    return known.last_modified is not None and known == seen


def _check_status(response: httpx.Response, url: str) -> None:
    if response.status_code == httpx.codes.OK:
        return
    status = response.status_code
    passing = status in _PASSING_STATUS or response.is_server_error
    msg = f"source {_hide_secrets(url)}: {status} {response.reason_phrase}".rstrip()
    raise StepError(msg, permanent=not passing)


def _hide_secrets(url: str) -> str:
    """Return *url* without user, password and query, where keys are often put."""
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        return "(url)"
    shown = parsed.copy_with(username="", password="", query=None, fragment=None)
    return str(shown)


def _make_source_engine(
    source: Mapping[str, JsonValue], deadline: timedelta
) -> sa.Engine:
    """Return an engine on the source's database that only reads, for a while."""
    given = source.get("database")
    if not isinstance(given, str):
        msg = 'source sql: "database" is missing. Write its URL beside "sql".'
        raise StepError(msg, permanent=True)
    try:
        url = sa.make_url(given)
    except sa.exc.ArgumentError:
        msg = "source sql: the database is no URL."
        raise StepError(msg, permanent=True) from None
    if url.get_backend_name() == "sqlite":
        path = Path(url.database or "")
        if not path.is_file():
            # SQLite would make an empty database, and say later: no such table.
            msg = f"source database {path}: there is no such file."
            raise StepError(msg, permanent=True)
        address = f"file:{path.absolute()}"
        url = url.set(database=address, query={"mode": "ro", "uri": "true"})
        options: dict[str, object] = {"timeout": HTTP_TIMEOUT_S}
    elif url.get_backend_name() == "postgresql":
        milliseconds = int(deadline.total_seconds() * 1000)
        url = url.set(drivername="postgresql+psycopg")
        limits = (
            f"-c default_transaction_read_only=on -c statement_timeout={milliseconds}"
        )
        options = {"connect_timeout": 10, "options": limits}
    else:
        options = {}
    try:
        engine = sa.create_engine(url, connect_args=options, poolclass=sa.NullPool)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        msg = f"source sql: {_first_line(error)}"
        raise StepError(msg, permanent=True) from error
    make_interruptible(engine)
    return engine


def _first_line(error: BaseException) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().partition("\n")[0] or type(cause).__name__
