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
from datetime import timedelta
from pathlib import Path

import httpx2
from pydantic import JsonValue

from models.errors import StepError
from models.fields.sql_connection import SqlConnection
from operations.adapters.guarded_http import (
    ForbiddenUrlError,
    HostGuard,
    Resolve,
    make_client,
    resolve_host,
)
from operations.adapters.polars_io import explain_too_large, find_format
from operations.adapters.sources.ingest_process import run_job
from operations.adapters.sources.source_folder import open_source_file
from operations.domains import Domain, Fingerprint, Limits, Reading

#: If a file changed this shortly before it is read, it may change again without a new
#: modification time (the clocks of file systems tick every few milliseconds). Then its
#: time does not prove "unchanged".
FILE_CLOCK_TICK = timedelta(milliseconds=50)

#: For connecting, and for each wait for the next bytes.
HTTP_TIMEOUT = timedelta(seconds=30)

#: More than any real source needs; browsers follow a similar number.
MOST_REDIRECTS = 10

#: Encodings that are undone within a limit; others were not asked for.
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip"})

#: Client errors that may pass.
_PASSING_STATUS = frozenset({408, 425, 429})


def digest_source(source: Mapping[str, JsonValue]) -> str:
    """Return the digest that identifies *source* in a fingerprint."""
    text = json.dumps(source, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


class RealSources:
    """Reads ``{"file": …}``, ``{"url": …}`` and ``{"sql": …, "connection": …}``."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
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
        self._limits = limits or Limits()
        self._connections = connections or {}
        self._private = tuple(private)
        self._guard = HostGuard(
            allowed_hosts, setting="MINUTEHAND_SOURCE_ALLOWED_HOSTS", resolve=resolve
        )

    def read(
        self, app: str, domain: Domain, *, known: Fingerprint | None, target: Path
    ) -> Reading | None:
        """Read *domain* into *target*, as :class:`operations.ports.Sources` says."""
        source = domain.source
        digest = digest_source(source)
        if known is not None and known.source != digest:
            known = None
        file, url, query = source.get("file"), source.get("url"), source.get("sql")
        try:
            if isinstance(file, str):
                return self._read_file(app, domain, file, digest, known, target)
            if isinstance(url, str):
                return self._read_url(domain, url, digest, known, target)
            if isinstance(query, str):
                return self._read_query(app, domain, query, digest, target)
        finally:
            for scratch in target.parent.glob(f"{target.name}.*"):
                scratch.unlink(missing_ok=True)

        msg = (
            f"domain {domain.name}: source has {sorted(source)}, but none of file, "
            "url and sql."
        )
        raise StepError(msg, permanent=True)

    def _read_file(
        self,
        app: str,
        domain: Domain,
        file: str,
        digest: str,
        known: Fingerprint | None,
        target: Path,
    ) -> Reading | None:
        shown = f"domain {domain.name}: source file {file}"
        if domain.folder is None:
            msg = (
                f"{shown}: small app {app} has no folder of files. An operator can "
                "give it one: minutehand apps apply DIR, with app.json in DIR."
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
            if before is not None and before == known:
                return None
            if os.fstat(descriptor).st_size > self._limits.bytes:
                raise explain_too_large(shown, self._limits)
            kind = find_format(domain.source, file, shown=shown)
            rows = self._convert(descriptor, kind, target, shown)
            after = _fingerprint_file(descriptor, digest)
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error
        finally:
            os.close(descriptor)

        # If it was written to while we read, or just before, the next refresh must read
        # it again.
        stable = before if before == after else None
        return Reading(rows=rows, fingerprint=stable or Fingerprint(source=digest))

    def _convert(self, descriptor: int, kind: str, target: Path, shown: str) -> int:
        # By its descriptor: the file that was checked is the file that is read.
        job = {"work": "convert", "path": f"/dev/fd/{descriptor}", "kind": kind}
        return run_job(
            job,
            target=target,
            shown=shown,
            limits=self._limits,
            environment=self._environment,
            descriptors=[descriptor],
        )

    def _read_url(
        self,
        domain: Domain,
        url: str,
        digest: str,
        known: Fingerprint | None,
        target: Path,
    ) -> Reading | None:
        download = target.with_name(f"{target.name}.download")
        shown = f"domain {domain.name}: source {_hide_secrets(url)}"
        try:
            with make_client(HTTP_TIMEOUT) as client:
                response = self._open(client, url, known, shown)
                try:
                    seen = Fingerprint(
                        source=digest,
                        etag=response.headers.get("etag"),
                        last_modified=response.headers.get("last-modified"),
                    )
                    if known is not None and _is_unchanged(response, seen, known):
                        return None
                    _check_answer(response, shown)
                    self._download(response, shown, download)
                finally:
                    response.close()
            media_type = response.headers.get("content-type", "")
            kind = find_format(
                domain.source, response.url.path, media_type, shown=shown
            )
            with download.open("rb") as file:
                rows = self._convert(file.fileno(), kind, target, shown)
        except (httpx2.InvalidURL, ForbiddenUrlError) as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=True) from error
        except (httpx2.HTTPError, OSError) as error:
            reason = str(error) or type(error).__name__
            msg = f"{shown}: {reason}"
            raise StepError(msg, permanent=False) from error

        return Reading(rows=rows, fingerprint=seen)

    def _open(
        self, client: httpx2.Client, url: str, known: Fingerprint | None, shown: str
    ) -> httpx2.Response:
        """Return the answer at the end of all redirects, each of which is checked."""
        headers = {
            "user-agent": "minutehand",
            "accept-encoding": "gzip",
            **_conditions(known),
        }
        target = httpx2.URL(url)
        for _ in range(MOST_REDIRECTS + 1):
            response = self._guard.open(client, "GET", target, headers=headers)
            if not response.has_redirect_location:
                return response
            response.close()
            target = target.join(response.headers["location"])
        msg = f"{shown}: more than {MOST_REDIRECTS} redirects."
        raise StepError(msg, permanent=True)

    def _download(self, response: httpx2.Response, shown: str, path: Path) -> None:
        # httpx2 limits each wait, not their sum: a server that sends a byte a minute
        # would occupy the worker for ever.
        give_up_at = time.monotonic() + self._limits.time.total_seconds()
        size = 0
        with path.open("wb") as file:
            # Raw bytes: ingest.py inflates them, within its limit.
            for chunk in response.iter_raw():
                size += len(chunk)
                if size > self._limits.bytes:
                    raise explain_too_large(shown, self._limits)
                file.write(chunk)
                if time.monotonic() > give_up_at:
                    msg = (
                        f"{shown}: reading it took longer than {self._limits.time} "
                        "(MINUTEHAND_SOURCE_TIMEOUT)."
                    )
                    raise StepError(msg, permanent=False)

    def _read_query(
        self, app: str, domain: Domain, query: str, digest: str, target: Path
    ) -> Reading:
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
        if connection is None or not connection.serves(app):
            # One message for both cases: it must not reveal the connections of others.
            msg = (
                f"{shown}: small app {app} has no such connection. The operator can "
                "give it one in MINUTEHAND_SQL_CONNECTIONS of the workers."
            )
            raise StepError(msg, permanent=True)
        job = {"work": "query", "url": connection.url.get_secret_value(), "sql": query}
        try:
            rows = run_job(
                job,
                target=target,
                shown=shown,
                limits=self._limits,
                environment=self._environment,
            )
        except OSError as error:
            msg = f"{shown}: {error}"
            raise StepError(msg, permanent=False) from error

        # Nothing tells cheaply whether a result has changed: the query always runs.
        return Reading(rows=rows, fingerprint=Fingerprint(source=digest))


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
    response: httpx2.Response, seen: Fingerprint, known: Fingerprint
) -> bool:
    if response.status_code == httpx2.codes.NOT_MODIFIED:
        return True
    if not response.is_success:
        return False
    # Many servers ignore conditions but do send these headers.
    if known.etag is not None or seen.etag is not None:
        return known.etag == seen.etag
    return known.last_modified is not None and known == seen


def _check_answer(response: httpx2.Response, shown: str) -> None:
    if response.status_code == httpx2.codes.OK:
        encoding = response.headers.get("content-encoding", "").strip().lower()
        if encoding in _ENCODINGS:
            return
        msg = (
            f"{shown}: the server sent encoding {encoding[:60]!r}, although gzip was "
            "asked for."
        )
        raise StepError(msg, permanent=True)
    status = response.status_code
    passing = status in _PASSING_STATUS or response.is_server_error
    msg = f"{shown}: {status} {response.reason_phrase}".rstrip()
    raise StepError(msg, permanent=not passing)


def _hide_secrets(url: str) -> str:
    """Return *url* without user, password and query, which often contain secrets."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return "(url)"
    shown = parsed.copy_with(username="", password="", query=None, fragment=None)
    return str(shown)
