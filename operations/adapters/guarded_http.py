"""
HTTP requests to addresses that tenants name, but never to our own networks.

Whatever a client is asked for, each connection is made in one place: there a name is
resolved, all its addresses are checked, and one of them is connected to. If the name
resolves to something else a moment later (DNS rebinding), it makes no difference.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpcore2
import httpx2

from models.fields.addresses import is_public

_LAST_PORT = 65535

#: Bytes that are written before the time is looked at again.
_PART = 1 << 14

Resolve = Callable[[str, int], Sequence[str]]


class ForbiddenUrlError(Exception):
    """The URL is invalid, or its host is not public; the text says which."""


def resolve_host(host: str, port: int) -> tuple[str, ...]:
    """Return every address of *host*, each once, in the resolver's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


#: Client errors that may pass: timeout, too early, too many requests.
_PASSING_STATUS = frozenset({408, 425, 429})


def tell_status(response: httpx2.Response) -> tuple[str, bool]:
    """Return the status of an answer in words, and whether that of a failure passes."""
    status = response.status_code
    may_pass = response.is_server_error or status in _PASSING_STATUS
    return f"{status} {response.reason_phrase}".rstrip(), may_pass


class HostGuard:
    """Decides which hosts may be called."""

    def __init__(
        self,
        allowed_hosts: Sequence[str],
        *,
        setting: str,
        resolve: Resolve = resolve_host,
    ) -> None:
        """
        Make it; nothing is opened.

        Args:
            allowed_hosts: Host names, addresses or networks ("10.1.0.0/16") that
                may be called although they are not public.
            setting: Name of the setting that lists them, for messages.
            resolve: Returns the addresses of a host and port; raises OSError.
        """
        self.resolve = resolve
        self._setting = setting
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in allowed_hosts:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                self._names.add(_write_name(entry))

    def check(self, name: str, addresses: Sequence[str]) -> None:
        """
        Refuse the host *name* if one of its *addresses* must not be called.

        Raises:
            ForbiddenUrlError: That one is not public.
        """
        if name in self._names:
            return
        for text in addresses:
            address = ipaddress.ip_address(text.partition("%")[0])
            if is_public(address) or any(address in each for each in self._networks):
                continue
            raise ForbiddenUrlError(
                f"{name} resolves to {text}, which is not a public address. "
                f"An operator can allow it in {self._setting}."
            )


def _write_name(entry: str) -> str:
    """Return a host name that an operator wrote, as a request would name it."""
    try:
        return httpx2.URL(scheme="http", host=entry).raw_host.decode("ascii")
    except httpx2.InvalidURL:
        return entry.lower()


class GuardedClient(httpx2.Client):
    """
    A client that calls allowed hosts alone, and whose waits end in time.

    Args:
        guard: Decides which hosts may be called.
        timeout: Bounds each wait.
        whole: Bounds all that it does, beginning now: who sends a byte now and then
            keeps within each wait for ever.
        setting: What messages call *whole*.
        context: Of ``make_context``, which takes long. None: one is made.

    Besides what httpx2 raises, a request raises ForbiddenUrlError, and OSError if a
    name cannot be resolved. No redirect is followed, user and password of an address
    are not sent, and proxies of the environment are ignored: they would resolve the
    name again, perhaps to another address. Certificates are checked against the
    authorities that the host trusts, or those in ``SSL_CERT_FILE``.
    """

    def __init__(
        self,
        guard: HostGuard,
        timeout: timedelta,
        *,
        whole: timedelta,
        setting: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet."""
        backend = _GuardedBackend(guard, whole, setting)
        super().__init__(
            auth=httpx2.Auth(),
            timeout=timeout.total_seconds(),
            trust_env=False,
            follow_redirects=False,
            transport=_GuardedTransport(backend, context or make_context()),
        )


def make_context() -> ssl.SSLContext:
    """Return what checks certificates against the authorities that the host trusts."""
    return httpx2.create_ssl_context()


class _GuardedTransport(httpx2.HTTPTransport):
    """Connects as httpx2 does; its pool is another, for it hands no backend on."""

    def __init__(self, backend: _GuardedBackend, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.ConnectionPool(context, network_backend=backend)

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        target = request.url
        if target.scheme not in {"http", "https"} or not target.host:
            # Without the rest: a query may contain a key.
            shown = f"{target.scheme}:" if target.scheme else target.path[:60]
            msg = f"{shown!r} is not an address. Write https://host/path."
            raise ForbiddenUrlError(msg)
        if target.port is not None and not 1 <= target.port <= _LAST_PORT:
            raise ForbiddenUrlError(
                f"{target.host}:{target.port} has a port that does not exist. "
                f"Ports go from 1 to {_LAST_PORT}."
            )
        return super().handle_request(request)


class _GuardedBackend(httpcore2.SyncBackend):
    """Connects to what *guard* allows; no wait ends later than *whole* from now."""

    def __init__(self, guard: HostGuard, whole: timedelta, setting: str) -> None:
        self._guard = guard
        self._over = f"it took longer than {whole.total_seconds():g} s"
        self._over += setting and f" ({setting})"
        self._ends_at = time.monotonic() + whole.total_seconds()

    def bound(self, timeout: float | None) -> float:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout(self._over)
        return left if timeout is None else min(left, timeout)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        # The resolver gets the name in ASCII, as requests have it: Python itself would
        # convert other letters by an older rule (IDNA 2003), which turns "faß" into
        # "fass", and that may be somebody else's host.
        addresses = self._look_up(host, port)
        self._guard.check(host, addresses)
        failure = httpcore2.ConnectError("the host has no address")
        for address in addresses:
            try:
                stream = super().connect_tcp(
                    address, port, self.bound(timeout), local_address, socket_options
                )
            except httpcore2.ConnectError as error:
                failure = error
            else:
                return _BoundedStream(stream, self.bound)
        raise failure

    def _look_up(self, host: str, port: int) -> Sequence[str]:
        found: Future[Sequence[str]] = Future()

        def look() -> None:
            try:
                found.set_result(self._guard.resolve(host, port))
            except (OSError, UnicodeError) as error:
                found.set_exception(OSError(str(error)))

        # Nothing else ends the system's resolver, which may take minutes.
        threading.Thread(target=look, name="resolving", daemon=True).start()
        try:
            return found.result(self.bound(None))
        except TimeoutError:
            raise httpcore2.ConnectTimeout(self._over) from None


@dataclass(frozen=True, slots=True)
class _BoundedStream(httpcore2.NetworkStream):
    inner: httpcore2.NetworkStream
    bound: Callable[[float | None], float]

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return self.inner.read(max_bytes, self.bound(timeout))
        except httpcore2.ReadTimeout:
            self.bound(timeout)  # says so if this was the end of all waits
            raise

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # in parts: each wait is for the next bytes, however few, that they take
        for start in range(0, len(buffer), _PART):
            self.inner.write(buffer[start : start + _PART], self.bound(timeout))

    def close(self) -> None:
        self.inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore2.NetworkStream:
        bounded = self.bound(timeout)
        inner = self.inner.start_tls(ssl_context, server_hostname, bounded)
        return _BoundedStream(inner, self.bound)

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)
