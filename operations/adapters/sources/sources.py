"""
Read domains from files, HTTP(S) and SQL, which tenants name.

All of these are untrusted. A file is opened only below the folder of its app; a URL is
called only if its host is public; a query runs only on a connection that the operator
gave to the app. Another process, with limits, reads the content
(operations/adapters/sources/ingest.py); Polars never runs here.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from models.errors import StepError
from models.fields.sql_connection import SqlConnection
from operations.adapters.guarded_http import HostGuard, Resolve, resolve_host
from operations.adapters.polars_io import explain_too_large
from operations.adapters.sources.http_source import HttpSource, hide_secrets
from operations.adapters.sources.ingest_process import Written, run_job
from operations.adapters.sources.source_folder import open_source_file
from operations.domains import (
    Domain,
    DomainLimits,
    Fingerprint,
    Reading,
    Tell,
)

FORMATS = ("csv", "json", "ndjson", "parquet")

#: Other names of formats in a source.
_ALIASES = {"jsonl": "ndjson"}

#: Format by the suffix of a file or of a URL.
_SUFFIXES = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
    ".pq": "parquet",
}

#: Format by Content-Type, for URLs without such a suffix.
_MEDIA_TYPES = {
    "text/csv": "csv",
    "application/csv": "csv",
    "application/json": "json",
    "application/ndjson": "ndjson",
    "application/x-ndjson": "ndjson",
    "application/jsonl": "ndjson",
    "application/jsonlines": "ndjson",
    "application/x-jsonlines": "ndjson",
    "application/vnd.apache.parquet": "parquet",
}


def find_format(
    source: Mapping[str, JsonValue], name: str, media_type: str = "", *, shown: str
) -> str:
    """
    Return which of FORMATS a source has: by its "format", suffix or media type.

    Raises:
        StepError: Permanent: none of them says it.
    """
    given = source.get("format")
    if isinstance(given, str):
        given = _ALIASES.get(given, given)
        if given in FORMATS:
            return given
    plain = name.lower().removesuffix(".gz")
    by_suffix = _SUFFIXES.get(PurePosixPath(plain).suffix)
    by_type = _MEDIA_TYPES.get(media_type.partition(";")[0].strip().lower())
    found = None if given is not None else by_suffix or by_type
    if found is None:
        said = "is not given" if given is None else f"{given!r} is not known"
        msg = f'{shown}: format {said}. Write "format": one of {", ".join(FORMATS)}.'
        raise StepError(msg, permanent=True)

    return found


#: If a file changed this shortly before it is read, it may change again without a new
#: modification time (the clocks of file systems tick every few milliseconds). Then its
#: time does not prove "unchanged".
FILE_CLOCK_TICK = timedelta(milliseconds=50)


def digest_source(source: Mapping[str, JsonValue]) -> str:
    """Return the digest that identifies *source* in a fingerprint."""
    text = json.dumps(source, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class _Asked:
    """What ``read`` was asked for; *digest* is that of the source."""

    app: str
    domain: Domain
    digest: str
    known: Fingerprint | None
    target: Path
    tell: Tell | None


class RealSources:
    """Reads files, URLs and queries."""

    def __init__(
        self,
        *,
        limits: DomainLimits | None = None,
        allowed_hosts: Sequence[str] = (),
        connections: Mapping[str, SqlConnection] | None = None,
        private: Sequence[Path] = (),
        environment: Mapping[str, str] | None = None,
        resolve: Resolve = resolve_host,
    ) -> None:
        """
        Make it; nothing is opened.

        Args:
            limits: Limits for one source.
            allowed_hosts: Hosts and networks that may be read although they are
                not public.
            connections: Databases that small apps may query, by name.
            private: Minutehand's own files and folders, which are never a source.
            environment: Environment of the reading processes. None: our own.
            resolve: Returns the addresses of a host and port; raises OSError.
        """
        self._environment = environment
        self._limits = limits or DomainLimits()
        self._connections = connections or {}
        self._private = tuple(private)
        self._guard = HostGuard(
            allowed_hosts, setting="MINUTEHAND_SOURCE_ALLOWED_HOSTS", resolve=resolve
        )

    def read(
        self,
        app: str,
        domain: Domain,
        *,
        known: Fingerprint | None,
        target: Path,
        tell: Tell | None = None,
    ) -> Reading | None:
        """Read *domain* into *target*, as :class:`operations.ports.Sources` says."""
        source = domain.source
        digest = digest_source(source)
        if known is not None and known.source != digest:
            known = None
        asked = _Asked(app, domain, digest, known, target, tell)
        file, url, query = source.get("file"), source.get("url"), source.get("sql")
        try:
            if isinstance(file, str):
                return self._read_file(asked, file)
            if isinstance(url, str):
                return self._read_url(asked, url)
            if isinstance(query, str):
                return self._read_query(asked, query)
        finally:
            for scratch in target.parent.glob(f"{target.name}.*"):
                scratch.unlink(missing_ok=True)

        msg = f"domain {domain.name}: its source is no file, url or sql."
        raise StepError(msg, permanent=True)

    def _read_file(self, asked: _Asked, file: str) -> Reading | None:
        domain, digest = asked.domain, asked.digest
        shown = f"domain {domain.name}: source file {file}"
        if domain.folder is None:
            msg = (
                f"{shown}: small app {asked.app} has no folder of files. An operator "
                "can give it one: minutehand apps apply DIR, with app.json in DIR."
            )
            raise StepError(msg, permanent=True)
        try:
            descriptor = open_source_file(domain.folder, file, private=self._private)
        except StepError as error:
            msg = f"domain {domain.name}: source file {error}"
            raise StepError(msg, permanent=error.permanent) from error
        except (
            FileNotFoundError,
            NotADirectoryError,
            PermissionError,
            IsADirectoryError,
        ) as error:
            reason = error.strerror or type(error).__name__
            msg = f"{shown}: {reason}."
            raise StepError(msg, permanent=True) from error
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error
        try:
            before = _fingerprint_file(descriptor, digest)
            if before is not None and before == asked.known:
                return None
            if os.fstat(descriptor).st_size > self._limits.bytes:
                raise explain_too_large(shown, self._limits)
            kind = find_format(domain.source, file, shown=shown)
            written = self._convert(asked, descriptor, kind, shown)
            after = _fingerprint_file(descriptor, digest)
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error
        finally:
            os.close(descriptor)

        # If it was written to while we read, or just before, the next refresh must read
        # it again.
        stable = before if before == after else None
        return written.identified_by(stable or Fingerprint(source=digest))

    def _read_url(self, asked: _Asked, url: str) -> Reading | None:
        domain, target = asked.domain, asked.target
        download = target.with_name(f"{target.name}.download")
        shown = f"domain {domain.name}: source {hide_secrets(url)}"
        source = HttpSource(url, asked.digest, shown, self._guard, self._limits)
        found = source.fetch(asked.known, download, tell=asked.tell)
        if found is None:
            return None
        kind = find_format(domain.source, found.name, found.media_type, shown=shown)
        try:
            with download.open("rb") as file:
                written = self._convert(asked, file.fileno(), kind, shown)
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error

        return written.identified_by(found.fingerprint)

    def _read_query(self, asked: _Asked, query: str) -> Reading:
        domain = asked.domain
        name = domain.source.get("connection")
        if not isinstance(name, str):
            msg = (
                f'domain {domain.name}: source sql: "connection" is missing. Write '
                "the name of a connection in MINUTEHAND_SQL_CONNECTIONS; the operator "
                "knows it."
            )
            raise StepError(msg, permanent=True)
        connection = self._connections.get(name)
        shown = f"domain {domain.name}: source connection {name}"
        if connection is None or not connection.serves(asked.app):
            # One message for both cases: it must not reveal the connections of others.
            msg = (
                f"{shown}: small app {asked.app} has no such connection. The operator "
                "can give it one in MINUTEHAND_SQL_CONNECTIONS of the workers."
            )
            raise StepError(msg, permanent=True)
        job = {"work": "query", "url": connection.url.get_secret_value(), "sql": query}
        try:
            written = self._run(asked, job, shown)
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error

        # Nothing tells cheaply whether a result has changed: the query always runs.
        return written.identified_by(Fingerprint(source=asked.digest))

    def _convert(
        self, asked: _Asked, descriptor: int, kind: str, shown: str
    ) -> Written:
        # By its descriptor: the file that was checked is the file that is read.
        job = {"work": "convert", "path": f"/dev/fd/{descriptor}", "kind": kind}
        return self._run(asked, job, shown, [descriptor])

    def _run(
        self,
        asked: _Asked,
        job: dict[str, str],
        shown: str,
        descriptors: Sequence[int] = (),
    ) -> Written:
        staged = asked.domain.staged
        places = {
            "target": str(asked.target),
            "before": None if staged is None else str(staged.path),
        }
        return run_job(
            {**job, **places, "shown": shown},
            limits=self._limits,
            environment=self._environment,
            descriptors=descriptors,
            tell=asked.tell,
        )


def _fingerprint_file(descriptor: int, digest: str) -> Fingerprint | None:
    """Return the fingerprint of a file; None if it changed just now."""
    status = os.fstat(descriptor)
    changed = max(status.st_mtime_ns, status.st_ctime_ns)
    age = timedelta(microseconds=(time.time_ns() - changed) / 1000)
    if age < FILE_CLOCK_TICK:
        return None

    return Fingerprint(
        source=digest,
        etag=f"{status.st_size}-{status.st_ino}",
        last_modified=str(status.st_mtime_ns),
    )
