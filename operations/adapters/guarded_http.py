"""
HTTP requests to addresses that tenants name, and never to a network of ours.

A name is resolved once, every address it has is checked, and the connection goes to
an address that was checked: a name that resolves to something else a moment later
(DNS rebinding) changes nothing. Each redirect that is followed begins anew.
"""

from __future__ import annotations

import ipaddress
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta

import httpx2

#: Well-known prefix of addresses that stand for IPv4 ones (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: All that is routed on the IPv6 internet. What lies outside of it (site-local,
#: IPv4-compatible, prefixes of local translators) is not all known to ``is_global``.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")

#: Documentation (RFC 9637), which Python 3.11 takes for the internet.
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")

#: Relays from IPv6 to IPv4, which are gone (RFC 7526).
_RELAYS = ipaddress.ip_network("192.88.99.0/24")

_LAST_PORT = 65535

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]


class ForbiddenUrlError(Exception):
    """The address is none, or not one of the internet; the text says which."""


def resolve_host(host: str, port: int) -> tuple[str, ...]:
    """Return every address of *host*, each once, in the resolver's order."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))


def is_public(address: IpAddress) -> bool:
    """
    Return whether *address* is of the public internet.

    IPv6 addresses that carry an IPv4 one are judged by it, for that is where they
    lead.
    """
    if isinstance(address, ipaddress.IPv4Address):
        public = address.is_global and not address.is_multicast
        return public and address not in _RELAYS

    carried = address.ipv4_mapped or address.sixtofour
    if carried is None and address.teredo is not None:
        carried = address.teredo[1]
    if carried is None and address in _NAT64:
        carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if carried is not None:
        return is_public(carried)

    return (
        address in _GLOBAL_UNICAST
        and address.is_global
        and address not in _DOCUMENTATION
    )


def make_client(timeout: timedelta) -> httpx2.Client:
    """
    Return a client for :meth:`HostGuard.open`; *timeout* bounds each wait.

    It asks no proxy of the environment, which would resolve the name again and find
    what it likes. Certificates are checked by the authorities that the host trusts, or
    by those of ``SSL_CERT_FILE``.
    """
    return httpx2.Client(
        timeout=timeout.total_seconds(),
        trust_env=False,
        follow_redirects=False,
        verify=_make_context(),
    )


def _make_context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


def _get_name(target: httpx2.URL) -> str:
    """
    Return the host of *target* as a request names it, in ASCII.

    The resolver must be asked for this very name: Python makes other letters ASCII by
    an older rule (IDNA 2003), which turns "faß" into "fass", and that may be a host of
    somebody else's.
    """
    return target.raw_host.decode("ascii")


def _write_name(entry: str) -> str:
    """Return a host name that an operator wrote, as ``_get_name`` has it."""
    try:
        return _get_name(httpx2.URL(scheme="http", host=entry))
    except httpx2.InvalidURL:
        return entry.lower()


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

            setting: What an operator lists them in, for messages.

            resolve: Host and port to addresses; raises OSError.
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

    def find_addresses(self, target: httpx2.URL) -> Sequence[str]:
        """
        Return the addresses of *target*'s host, all of which may be called.

        Raises:
            ForbiddenUrlError: It is not an address of HTTP, has a port that cannot
                be, or leads to a place that is not public.

            OSError: The name cannot be resolved now.
        """
        if target.scheme not in {"http", "https"} or not target.host:
            # Without the rest: a query may hold a key.
            shown = f"{target.scheme}:" if target.scheme else target.path[:60]
            msg = f"{shown!r} is no address. Write https://host/path."
            raise ForbiddenUrlError(msg)
        if target.port is not None and not 1 <= target.port <= _LAST_PORT:
            msg = (
                f"{target.host}:{target.port} has no such port. "
                f"Ports go from 1 to {_LAST_PORT}."
            )
            raise ForbiddenUrlError(msg)
        name = _get_name(target)
        try:
            addresses = self._resolve(name, target.port or 0)
        except UnicodeError as error:
            raise OSError(str(error)) from error
        refused = self._find_refused(name, addresses)
        if refused is not None:
            msg = (
                f"{target.host} leads to {refused}, which is not public. "
                f"An operator can list it in {self._setting}."
            )
            raise ForbiddenUrlError(msg)

        return addresses

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
        client: httpx2.Client,
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
            ForbiddenUrlError: As of ``find_addresses``.

            OSError, httpx2.HTTPError: Of the network.
        """
        addresses = self.find_addresses(target)
        failure: httpx2.ConnectError | OSError = OSError("has no address")
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
