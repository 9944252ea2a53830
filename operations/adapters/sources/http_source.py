"""
Fetch what a URL gives, unless the head of the answer shows that it is as it was.

Whoever is in doubt reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx2

from models.errors import StepError
from operations.adapters.guarded_http import (
    ForbiddenUrlError,
    GuardedClient,
    HostGuard,
    tell_status,
)
from operations.adapters.polars_io import explain_too_large
from operations.domains import DomainLimits, Fingerprint, Reached, Tell

#: For connecting, and for each wait for the next bytes.
HTTP_TIMEOUT = timedelta(seconds=30)

#: More than any real source needs; browsers follow a similar number.
MOST_REDIRECTS = 10

#: Encodings that are undone within a limit; others were not asked for.
_ENCODINGS = frozenset({"", "identity", "gzip", "x-gzip"})


@dataclass(frozen=True, slots=True)
class Download:
    """
    What was downloaded.

    Args:
        fingerprint: Of the answer.
        name: Path of the address at the end of all redirects.
        media_type: Its Content-Type; "" if there is none.
    """

    fingerprint: Fingerprint
    name: str
    media_type: str


@dataclass(frozen=True, slots=True)
class HttpSource:
    """
    One address that a tenant names.

    Args:
        url: The address.
        digest: Of the source, for its fingerprint.
        shown: What messages call it, without secrets.
        guard: Decides which hosts may be called.
        limits: Bounds of bytes and time.
    """

    url: str
    digest: str
    shown: str
    guard: HostGuard
    limits: DomainLimits

    def fetch(
        self, known: Fingerprint | None, path: Path, *, tell: Tell | None = None
    ) -> Download | None:
        """
        Write the raw body to *path*, compressed as it was sent.

        Args:
            known: Fingerprint of what was read before. None: fetch in any case.
            path: Does not exist yet.
            tell: Called with each part of the body. None: nobody listens.

        Returns:
            None if the source is certainly as *known* says.

        Raises:
            StepError: Permanent for a forbidden address, an answer that is no data, or
                too much of it; temporary for the network and what may pass.
        """
        setting = "MINUTEHAND_SOURCE_TIMEOUT"
        with (
            explaining(self.shown),
            GuardedClient(
                self.guard, HTTP_TIMEOUT, whole=self.limits.time, setting=setting
            ) as client,
        ):
            response = self._open(client, _conditions(known))
            try:
                seen = self._identify(response)
                if known is not None and _is_unchanged(response, seen, known):
                    return None
                self._check_answer(response)
                self._download(response, path, tell)
            finally:
                response.close()
        return Download(
            seen, response.url.path, response.headers.get("content-type", "")
        )

    def _open(
        self, client: GuardedClient, headers: Mapping[str, str]
    ) -> httpx2.Response:
        """Return the answer at the end of all redirects, of which no body is read."""
        headers = {"user-agent": "minutehand", "accept-encoding": "gzip", **headers}
        request = client.build_request("GET", self.url, headers=headers)
        for _ in range(MOST_REDIRECTS + 1):
            response = client.send(request, stream=True)
            if response.next_request is None:
                return response
            response.close()
            request = response.next_request
        msg = f"{self.shown}: more than {MOST_REDIRECTS} redirects."
        raise StepError(msg, permanent=True)

    def _identify(self, response: httpx2.Response) -> Fingerprint:
        headers = response.headers
        modified = headers.get("last-modified") or None
        if modified is not None and _may_change_unseen(modified, headers.get("date")):
            modified = None
        return Fingerprint(
            source=self.digest, etag=headers.get("etag") or None, last_modified=modified
        )

    def _check_answer(self, response: httpx2.Response) -> None:
        if response.status_code == httpx2.codes.OK:
            headers = response.headers
            encoding = headers.get("content-encoding", "").strip().lower()
            if encoding not in _ENCODINGS:
                msg = (
                    f"{self.shown}: the server sent encoding {encoding[:60]!r}, "
                    "although gzip was asked for."
                )
                raise StepError(msg, permanent=True)
            if (_read_length(response) or 0) > self.limits.bytes:
                raise explain_too_large(self.shown, self.limits)
            return
        status, may_pass = tell_status(response)
        raise StepError(f"{self.shown}: {status}", permanent=not may_pass)

    def _download(
        self, response: httpx2.Response, path: Path, tell: Tell | None
    ) -> None:
        size, total = 0, _read_length(response)
        with path.open("wb") as file:
            # Raw bytes: ingest.py inflates them, within its limit.
            for chunk in response.iter_raw():
                size += len(chunk)
                if size > self.limits.bytes:
                    raise explain_too_large(self.shown, self.limits)
                file.write(chunk)
                if tell is not None:
                    tell(Reached("download", size, total, "bytes"))


def hide_secrets(url: str) -> str:
    """Return *url* without user, password and query, which often contain secrets."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        return "(url)"
    shown = parsed.copy_with(username="", password="", query=None, fragment=None)
    return str(shown)


@contextmanager
def explaining(shown: str) -> Iterator[None]:
    """Turn what the network and the file system raise into a StepError."""
    try:
        yield
    except (httpx2.InvalidURL, ForbiddenUrlError) as error:
        raise StepError(f"{shown}: {error}", permanent=True) from error
    except (httpx2.HTTPError, OSError) as error:
        reason = str(error) or type(error).__name__
        raise StepError(f"{shown}: {reason}", permanent=False) from error


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
        return bool(_conditions(known))
    if not response.is_success:
        return False
    # Many servers ignore conditions but do send these headers.
    if known.etag is not None or seen.etag is not None:
        return _opaque(known.etag) == _opaque(seen.etag)
    return known.last_modified is not None and known == seen


def _opaque(etag: str | None) -> str | None:
    # A server that compresses as it sends may mark its tag as weak; conditions ignore
    # the mark, too (RFC 9110, 8.8.3.2).
    return None if etag is None else etag.removeprefix("W/")


def _may_change_unseen(modified: str, date: str | None) -> bool:
    """Tell whether content of *modified*, seen at *date*, may get no newer time."""
    try:
        # Times have a resolution of a second: it may change again in the same one.
        return date is not None and parsedate_to_datetime(
            modified
        ) == parsedate_to_datetime(date)
    except (TypeError, ValueError):
        return False  # not a time, but it can be compared as text


def _read_length(response: httpx2.Response) -> int | None:
    """Return how many bytes are to come; None if the server does not say."""
    text = response.headers.get("content-length", "")
    return int(text) if text.isascii() and text.isdigit() else None
