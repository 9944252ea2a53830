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
import stat
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path, PurePosixPath

from pydantic import JsonValue

from models.errors import StepError
from models.fields.sql_connection import SqlConnection
from operations.adapters.guarded_http import HostGuard, Resolve, resolve_host
from operations.adapters.polars_io import explain_too_large
from operations.adapters.sources.http_source import HttpSource, explaining, hide_secrets
from operations.adapters.sources.ingest_process import run_job
from operations.domains import DomainLimits, Drift, Fingerprint, Reading, ReadRequest

#: Symbolic links in one path: as many as Linux follows.
_MOST_LINKS = 40

#: O_PATH does not need the right to list a folder, and never opens a device.
_FOLDER = (
    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
)
#: Without O_NONBLOCK, opening a named pipe would block.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

#: What the file system says of a source that is not there, or not to be read.
_LASTING = (FileNotFoundError, NotADirectoryError, PermissionError, IsADirectoryError)

_Identity = tuple[int, int]


def open_source_file(folder: Path, file: str, *, private: Iterable[Path]) -> int:
    """
    Open *file* below *folder* for reading; return its descriptor.

    Args:
        folder: Absolute, without symbolic links, as ``apps apply`` stored it.
        file: As the tenant wrote it, relative to *folder*.
        private: Minutehand's own files and folders, which may lie below *folder* but
            must never be a source.

    Raises:
        StepError: Permanent: *file* leads elsewhere, is hidden, or is not a regular
            file.
        OSError: The file system failed.
    """
    walk = _Walk(folder, file, private)
    with walk.opened:
        return walk.open()


class _Walk:
    """One walk along one path."""

    def __init__(self, folder: Path, file: str, private: Iterable[Path]) -> None:
        self.opened = ExitStack()
        self._folder = folder
        self._file = file
        self._private = frozenset(_identify_all(private))
        self._links = 0

    def open(self) -> int:
        """Return the descriptor of the file."""
        root = self._open_root()
        above = [root]
        todo = deque(_split(self._make_relative(self._file)))
        while todo:
            name = todo.popleft()
            if name == "..":
                above.pop()
                if not above:
                    raise self._refuse("leads out of the folder of the small app")
                continue
            # Kubernetes gives its mounts names that begin with two dots.
            if name.startswith(".") and not name.startswith(".."):
                raise self._refuse(f"leads to {name!r}, which is hidden")
            status = os.stat(name, dir_fd=above[-1], follow_symlinks=False)
            self._check_private(status)
            if stat.S_ISLNK(status.st_mode):
                text = self._read_link(name, above[-1])
                if PurePosixPath(text).is_absolute():
                    text, above = self._make_relative(text), [root]
                todo.extendleft(reversed(_split(text)))
            elif stat.S_ISDIR(status.st_mode) and todo:
                above.append(self._open_folder(name, above[-1]))
                self._check_private(os.fstat(above[-1]))
            elif stat.S_ISREG(status.st_mode):
                return self._open_file(name, above[-1], last=not todo)
            else:
                raise self._refuse("is not a regular file")
        raise self._refuse("is not a regular file")

    def _open_root(self) -> int:
        """Open the folder itself without following links, which could move it."""
        descriptor = os.open(self._folder.anchor or "/", _FOLDER)
        self.opened.callback(os.close, descriptor)
        for name in self._folder.parts[1:]:
            status = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                msg = (
                    f"the source folder {self._folder} leads through a symbolic link "
                    f"({name!r}) now. Apply the small app again with its folder."
                )
                raise StepError(msg, permanent=True)
            descriptor = self._open_folder(name, descriptor)
        return descriptor

    def _open_folder(self, name: str, above: int) -> int:
        descriptor = os.open(name, _FOLDER, dir_fd=above)
        self.opened.callback(os.close, descriptor)
        return descriptor

    def _open_file(self, name: str, above: int, *, last: bool) -> int:
        if not last:
            raise self._refuse("continues after the name of a file")
        descriptor = os.open(name, _FILE, dir_fd=above)
        try:
            self._check_opened(os.fstat(descriptor))
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_opened(self, status: os.stat_result) -> None:
        """Check the opened file again: the name may mean another file by now."""
        self._check_private(status)
        if not stat.S_ISREG(status.st_mode):
            raise self._refuse("is not a regular file")

    def _read_link(self, name: str, above: int) -> str:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise self._refuse("leads through too many symbolic links")
        return os.readlink(name, dir_fd=above)

    def _make_relative(self, path: str) -> str:
        """Return *path*, relative to the folder if it is absolute."""
        if "\0" in path:
            raise self._refuse("contains a zero byte")
        pure = PurePosixPath(path)
        if not pure.is_absolute():
            return path
        if not pure.is_relative_to(self._folder):
            raise self._refuse("leads out of the folder of the small app")
        return str(pure.relative_to(self._folder))

    def _check_private(self, status: os.stat_result) -> None:
        if (status.st_dev, status.st_ino) in self._private:
            raise self._refuse("leads to Minutehand's own data")

    def _refuse(self, reason: str) -> StepError:
        return StepError(f"{self._file!r} {reason}.", permanent=True)


def _split(path: str) -> Sequence[str]:
    return [name for name in path.split("/") if name not in {"", "."}]


def _identify_all(paths: Iterable[Path]) -> Iterable[_Identity]:
    for path in paths:
        try:
            status = path.stat()
        except OSError:
            continue
        yield status.st_dev, status.st_ino


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

    def read(self, asked: ReadRequest) -> Reading | None:
        """Read a source into a file, as :class:`operations.ports.Sources` says."""
        domain, target, source = asked.domain, asked.target, asked.domain.source
        if asked.known and asked.known.source != digest_source(source):
            asked = replace(asked, known=None)
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

    def _read_file(self, asked: ReadRequest, file: str) -> Reading | None:
        domain, digest = asked.domain, digest_source(asked.domain.source)
        shown = f"domain {domain.name}: source file {file}"
        if domain.folder is None:
            msg = (
                f"{shown}: small app {asked.app} has no folder of files. An operator "
                "can give it one (minutehand apps apply DIR, with app.json in DIR)."
            )
            raise StepError(msg, permanent=True)
        try:
            descriptor = open_source_file(domain.folder, file, private=self._private)
        except StepError as error:
            msg = f"domain {domain.name}: source file {error}"
            raise StepError(msg, permanent=error.permanent) from error
        except OSError as error:
            stays = isinstance(error, _LASTING)
            reason = f"{error.strerror or type(error).__name__}." if stays else error
            raise StepError(f"{shown}: {reason}", permanent=stays) from error
        with explaining(shown), os.fdopen(descriptor, "rb"):
            before = _fingerprint_file(descriptor, digest)
            if before is not None and before == asked.known:
                return None
            if os.fstat(descriptor).st_size > self._limits.bytes:
                raise explain_too_large(shown, self._limits)
            kind = find_format(domain.source, file, shown=shown)
            rows, drift = self._convert(asked, descriptor, kind, shown)
            after = _fingerprint_file(descriptor, digest)

        # If it was written to while we read, or just before, the next refresh must read
        # it again.
        stable = before if before == after else None
        return Reading(rows, stable or Fingerprint(source=digest), drift)

    def _read_url(self, asked: ReadRequest, url: str) -> Reading | None:
        domain, target = asked.domain, asked.target
        download = target.with_name(f"{target.name}.download")
        shown = f"domain {domain.name}: source {hide_secrets(url)}"
        source = HttpSource(
            url, digest_source(domain.source), shown, self._guard, self._limits
        )
        found = source.fetch(asked.known, download, tell=asked.tell)
        if found is None:
            return None
        kind = find_format(domain.source, found.name, found.media_type, shown=shown)
        with explaining(shown), download.open("rb") as content:
            rows, drift = self._convert(asked, content.fileno(), kind, shown)
        return Reading(rows, found.fingerprint, drift)

    def _read_query(self, asked: ReadRequest, query: str) -> Reading:
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
        with explaining(shown):
            rows, drift = self._run(asked, job, shown)
        # Nothing tells cheaply whether a result has changed: the query always runs.
        return Reading(rows, Fingerprint(digest_source(domain.source)), drift)

    def _convert(
        self, asked: ReadRequest, descriptor: int, kind: str, shown: str
    ) -> tuple[int, Drift | None]:
        # By its descriptor: the file that was checked is the file that is read.
        job = {"work": "convert", "path": f"/dev/fd/{descriptor}", "kind": kind}
        return self._run(asked, job, shown, [descriptor])

    def _run(
        self,
        asked: ReadRequest,
        job: dict[str, str],
        shown: str,
        descriptors: Sequence[int] = (),
    ) -> tuple[int, Drift | None]:
        staged = asked.domain.staged
        before = None if staged is None else str(staged.path)
        places = {"target": str(asked.target), "before": before}
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
