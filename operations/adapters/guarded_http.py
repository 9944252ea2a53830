"""
HTTP requests to addresses that tenants name, but never to our own networks.

A name is resolved once, all its addresses are checked, and the connection goes to one
of them. If the name resolves to something else a moment later (DNS rebinding), it makes
no difference. Each redirect that is followed is checked in the same way.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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


class BoundedClient(httpx2.Client):
    """
    A client for :meth:`HostGuard.open`, whose waits end in time.

    Args:
        timeout: Bounds each wait.
        whole: Bounds all that it does, beginning now: who sends a byte now and then
            keeps within each wait for ever.
        setting: What messages call *whole*.
        context: Of ``make_context``, which takes long. None: one is made.

    It ignores proxies of the environment: they would resolve the name again, perhaps to
    another address. Certificates are checked against the authorities that the host
    trusts, or those in ``SSL_CERT_FILE``.
    """

    def __init__(
        self,
        timeout: timedelta,
        *,
        whole: timedelta,
        setting: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:
        """Connect to nothing yet; *over* says that the time is up."""
        backend = _BoundedBackend(whole, setting)
        super().__init__(
            timeout=timeout.total_seconds(),
            trust_env=False,
            follow_redirects=False,
            transport=_BoundedTransport(backend, context or make_context()),
        )
        self.bound, self.over = backend.bound, backend.over


class _BoundedTransport(httpx2.HTTPTransport):
    """Connects as httpx2 does; its pool is another, for it hands no backend on."""

    def __init__(self, backend: _BoundedBackend, context: ssl.SSLContext) -> None:
        super().__init__(verify=context, trust_env=False)
        self._pool = httpcore2.ConnectionPool(context, network_backend=backend)


class _BoundedBackend(httpcore2.SyncBackend):
    """Lets no wait end later than *whole* from now."""

    def __init__(self, whole: timedelta, setting: str) -> None:
        self.over = f"it took longer than {whole.total_seconds():g} s"
        self.over += setting and f" ({setting})"
        self._ends_at = time.monotonic() + whole.total_seconds()

    def bound(self, timeout: float | None) -> float:
        left = self._ends_at - time.monotonic()
        if left <= 0:
            raise httpcore2.ReadTimeout(self.over)
        return left if timeout is None else min(left, timeout)

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        stream = super().connect_tcp(
            host, port, self.bound(timeout), local_address, socket_options
        )
        return _BoundedStream(stream, self.bound)


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


def make_context() -> ssl.SSLContext:
    """Return what checks certificates against the authorities that the host trusts."""
    return httpx2.create_ssl_context()


def _get_name(target: httpx2.URL) -> str:
    """
    Return the host of *target* as a request names it, in ASCII.

    The resolver must get exactly this name: Python itself would convert letters beyond
    ASCII by an older rule (IDNA 2003), which turns "faß" into "fass", and that may be
    somebody else's host.
    """
    return target.raw_host.decode("ascii")


def _write_name(entry: str) -> str:
    """Return a host name that an operator wrote, in the form of ``_get_name``."""
    try:
        return _get_name(httpx2.URL(scheme="http", host=entry))
    except httpx2.InvalidURL:
        return entry.lower()


#: Client errors that may pass: timeout, too early, too many requests.
_PASSING_STATUS = frozenset({408, 425, 429})


def tell_status(response: httpx2.Response) -> tuple[str, bool]:
    """Return the status of an answer in words, and whether that of a failure passes."""
    status = response.status_code
    may_pass = response.is_server_error or status in _PASSING_STATUS
    return f"{status} {response.reason_phrase}".rstrip(), may_pass


class HostGuard:
    """Decides which hosts may be called, and calls them."""

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
        self._setting = setting
        self._resolve = resolve
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in allowed_hosts:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                self._names.add(_write_name(entry))

    def find_addresses(
        self, target: httpx2.URL, client: BoundedClient | None = None
    ) -> Sequence[str]:
        """
        Return the addresses of *target*'s host, all of which may be called.

        Args:
            client: To look no longer than it may wait. None: as long as it takes.

        Raises:
            ForbiddenUrlError: The URL is not of HTTP, its port does not exist, or its
                host has an address that is not public.
            OSError: The name cannot be resolved now.
        """
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
        name = _get_name(target)
        try:
            addresses = self._look_up(name, target.port or 0, client)
        except UnicodeError as error:
            raise OSError(str(error)) from error
        refused = self._find_refused(name, addresses)
        if refused is not None:
            raise ForbiddenUrlError(
                f"{target.host} resolves to {refused}, which is not a public address. "
                f"An operator can allow it in {self._setting}."
            )

        return addresses

    def _look_up(
        self, name: str, port: int, client: BoundedClient | None
    ) -> Sequence[str]:
        if client is None:
            return self._resolve(name, port)
        found: Future[Sequence[str]] = Future()

        def look() -> None:
            try:
                found.set_result(self._resolve(name, port))
            except (OSError, UnicodeError) as error:
                found.set_exception(error)

        # Nothing else ends the system's resolver, which may take minutes.
        threading.Thread(target=look, name="resolving", daemon=True).start()
        try:
            return found.result(client.bound(None))
        except (TimeoutError, httpcore2.ReadTimeout):
            raise TimeoutError(client.over) from None

    def _find_refused(self, name: str, addresses: Sequence[str]) -> str | None:
        if name in self._names:
            return None
        for text in addresses:
            address = ipaddress.ip_address(text.partition("%")[0])
            if is_public(address):
                continue
            if not any(address in network for network in self._networks):
                return text
        return None

    def open(
        self,
        client: BoundedClient,
        method: str,
        target: httpx2.URL,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
    ) -> httpx2.Response:
        """
        Send a request to the first address of *target* that takes a connection.

        Returns:
            The answer, whose body is not read yet; close it.

        Raises:
            ForbiddenUrlError: As for ``find_addresses``.
            OSError, httpx2.HTTPError: The network failed.
        """
        addresses = self.find_addresses(target, client)
        failure: httpx2.ConnectError | OSError = OSError("the host has no address")
        for address in addresses:
            request = client.build_request(
                method,
                target.copy_with(host=address, username=None, password=None),
                content=content,
                headers={**headers, "host": target.netloc.decode("ascii")},
                # The certificate is checked against the name, not the address.
                extensions={"sni_hostname": _get_name(target)},
            )
            try:
                return client.send(request, stream=True)
            except httpx2.ConnectError as error:
                failure = error
        raise failure
