"""
Signed requests to addresses of others (Standard Webhooks), never to our own network.

The name is resolved once, every address it has is checked, and the connection goes
to the address that was checked: a name that resolves to something else a moment
later (DNS rebinding) changes nothing. Redirects are not followed.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import ipaddress
import socket
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

import httpx

from models.errors import UsageError
from operations.mail import Outcome, Sending

#: Bound of connecting and of each wait.
TIMEOUT = timedelta(seconds=15)

#: Prefix of secrets, as Standard Webhooks writes them; base64 follows.
SECRET_PREFIX = "whsec_"  # noqa: S105 - a prefix, not a secret

#: Answers that may be another one tomorrow: timeout, too early, too many requests.
_PASSING_STATUS = frozenset({408, 425, 429})

#: Well-known prefix of addresses that stand for IPv4 ones (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]


def sign(secret: bytes, *, message_id: str, timestamp: int, body: bytes) -> str:
    """
    Return the value of ``webhook-signature``.

    Args:
        secret: The key itself, decoded.

        message_id: Value of ``webhook-id``.

        timestamp: Seconds since 1970, value of ``webhook-timestamp``.

        body: As sent.
    """
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(secret, signed, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def decode_secret(text: str) -> bytes:
    """
    Return the key that *text* stands for.

    Args:
        text: ``whsec_`` and base64, or any other text, which is the key as it is.

    Raises:
        UsageError: If what follows ``whsec_`` is no base64.
    """
    if not text.startswith(SECRET_PREFIX):
        return text.encode()
    try:
        return base64.b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except binascii.Error:
        msg = "MINUTEHAND_WEBHOOK_SECRET: what follows whsec_ is no base64."
        raise UsageError(msg) from None


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
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if carried is None and address.teredo is not None:
            carried = address.teredo[1]
        if carried is None and address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return is_public(carried)

    return address.is_global and not address.is_multicast


class RealWebhooks:
    """Implements :class:`operations.ports.Webhooks`."""

    def __init__(
        self,
        *,
        secret: str | None,
        allowed_hosts: Sequence[str] = (),
        timeout: timedelta = TIMEOUT,
        resolve: Resolve = resolve_host,
    ) -> None:
        """
        Make it; nothing is opened.

        Args:
            secret: Signs every request. None: no request is made.

            allowed_hosts: Host names, addresses or networks ("10.1.0.0/16") that
                may be called although they are not public.

            timeout: Bound of connecting and of each wait.

            resolve: Host and port to addresses; raises OSError.
        """
        self._secret = None if secret is None else decode_secret(secret)
        self._timeout = timeout
        self._resolve = resolve
        self._names: set[str] = set()
        self._networks: list[ipaddress.IPv4Network | ipaddress.IPv6Network] = []
        for entry in allowed_hosts:
            try:
                self._networks.append(ipaddress.ip_network(entry, strict=False))
            except ValueError:
                self._names.add(entry.lower())

    def post(self, url: str, *, message_id: str, body: bytes, now: datetime) -> Sending:
        """POST *body*, signed; see :class:`operations.ports.Webhooks`."""
        if self._secret is None:
            detail = "requests cannot be signed. Set MINUTEHAND_WEBHOOK_SECRET."
            return Sending(Outcome.REFUSED, detail)
        try:
            target = httpx.URL(url)
        except (httpx.InvalidURL, TypeError) as error:
            return Sending(Outcome.REFUSED, f"{url!r} is no address: {error}")
        if target.scheme not in {"http", "https"} or not target.host:
            detail = f"{url!r} is no address. Write https://host/path."
            return Sending(Outcome.REFUSED, detail)

        try:
            addresses = self._resolve(target.host, target.port or 0)
        except (OSError, UnicodeError) as error:
            return Sending(Outcome.UNREACHABLE, f"{target.host}: {error}")
        refused = self._find_refused(target.host, addresses)
        if refused is not None:
            detail = (
                f"{target.host} leads to {refused}, which is not public. "
                "An operator can list it in MINUTEHAND_WEBHOOK_ALLOWED_HOSTS."
            )
            return Sending(Outcome.REFUSED, detail)

        timestamp = int(now.timestamp())
        headers = {
            "content-type": "application/json",
            "user-agent": "minutehand",
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": sign(
                self._secret, message_id=message_id, timestamp=timestamp, body=body
            ),
        }
        return self._send(target, addresses, headers, body)

    def _find_refused(self, host: str, addresses: Sequence[str]) -> str | None:
        if host.lower() in self._names:
            return None
        for text in addresses:
            address = ipaddress.ip_address(text.partition("%")[0])
            if is_public(address):
                continue
            if not any(address in network for network in self._networks):
                return text
        return None

    def _send(
        self,
        target: httpx.URL,
        addresses: Sequence[str],
        headers: dict[str, str],
        body: bytes,
    ) -> Sending:
        """Post to the first of *addresses* that takes a connection."""
        netloc = target.netloc.decode("ascii")
        failure = f"{target.host} has no address"
        # trust_env: a proxy would resolve the name again, and find what it likes.
        with httpx.Client(
            timeout=self._timeout.total_seconds(), trust_env=False
        ) as client:
            for address in addresses:
                request = client.build_request(
                    "POST",
                    target.copy_with(host=address, username=None, password=None),
                    content=body,
                    headers={**headers, "host": netloc},
                    extensions={"sni_hostname": target.host},
                )
                try:
                    # stream: the answer's body is of no interest, however long.
                    response = client.send(request, stream=True)
                except httpx.ConnectError as error:
                    failure = str(error) or type(error).__name__
                    continue
                except httpx.HTTPError as error:
                    failure = str(error) or type(error).__name__
                    break
                response.close()
                return _judge(response)
        return Sending(Outcome.UNREACHABLE, f"{target.host}: {failure}")


def _judge(response: httpx.Response) -> Sending:
    status = response.status_code
    detail = f"{status} {response.reason_phrase}".rstrip()
    if response.is_success:
        return Sending(Outcome.SENT, detail)
    if response.is_server_error or status in _PASSING_STATUS:
        return Sending(Outcome.DEFERRED, detail)
    if response.is_redirect:
        return Sending(Outcome.REFUSED, f"{detail}; redirects are not followed")
    return Sending(Outcome.REFUSED, detail)
