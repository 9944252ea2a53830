"""
Requests to foreign URLs, never to our own networks: signed ones, and pings.

operations/adapters/guarded_http.py decides where a request may go. Redirects are not
followed.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property

import httpx2

from models.fields.webhook_secret import decode_secret
from operations.adapters import guarded_http
from operations.mail.message import Fate, Sending, WebhookRequest

#: For connecting, sending and the head of the answer, together.
TIMEOUT = timedelta(seconds=15)


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


class RealWebhooks:
    """Implements :class:`operations.ports.Webhooks`."""

    def __init__(
        self,
        *,
        secret: str | None,
        allowed_hosts: Sequence[str] = (),
        timeout: timedelta = TIMEOUT,
        resolve: guarded_http.Resolve = guarded_http.resolve_host,
    ) -> None:
        """
        Make it; nothing is opened.

        Args:
            secret: Signs every request. None: no request is made.
            allowed_hosts: Host names, addresses or networks ("10.1.0.0/16") that
                may be called although they are not public.
            timeout: For connecting, sending and the head of the answer, together.
            resolve: Returns the addresses of a host and port; raises OSError.
        """
        self._secret = None if secret is None else decode_secret(secret)
        self._timeout = timeout
        self._guard = guarded_http.HostGuard(
            allowed_hosts, setting="MINUTEHAND_WEBHOOK_ALLOWED_HOSTS", resolve=resolve
        )

    @cached_property
    def _context(self) -> ssl.SSLContext:
        return guarded_http.make_context()

    def post(self, request: WebhookRequest, *, now: datetime) -> Sending:
        """POST *request*; see :class:`operations.ports.Webhooks`."""
        url, body, message_id = request.url, request.body, request.message_id
        if self._secret is None and request.signed:
            detail = "the request cannot be signed. Set MINUTEHAND_WEBHOOK_SECRET."
            return Sending(Fate.REFUSED, detail)
        try:
            target = httpx2.URL(url)
        except (httpx2.InvalidURL, TypeError) as error:
            return Sending(Fate.REFUSED, f"{url!r} is not an address: {error}")
        headers = {"content-type": "application/json", "user-agent": "minutehand"}
        if self._secret is not None and request.signed:
            timestamp = int(now.timestamp())
            signature = sign(
                self._secret, message_id=message_id, timestamp=timestamp, body=body
            )
            headers |= {
                "webhook-id": message_id,
                "webhook-timestamp": str(timestamp),
                "webhook-signature": signature,
            }
        return self._send("POST", target, headers, body)

    def ping(self, url: str) -> Sending:
        """GET *url*, unsigned; the answer repeats no more of it than the host."""
        try:
            target = httpx2.URL(url)
        except httpx2.InvalidURL:
            return Sending(Fate.REFUSED, "its address cannot be read")
        return self._send("GET", target, {"user-agent": "minutehand"}, None)

    def _send(
        self,
        method: str,
        target: httpx2.URL,
        headers: Mapping[str, str],
        body: bytes | None,
    ) -> Sending:
        try:
            with (
                guarded_http.GuardedClient(
                    self._guard,
                    self._timeout,
                    whole=self._timeout,
                    context=self._context,
                ) as client,
                # The body of the answer is not read, however long it is.
                client.stream(method, target, headers=headers, content=body) as answer,
            ):
                return _judge(answer)
        except guarded_http.ForbiddenUrlError as error:
            return Sending(Fate.REFUSED, str(error))
        except (OSError, httpx2.HTTPError) as error:
            reason = str(error) or type(error).__name__
            return Sending(Fate.UNREACHABLE, f"{target.host}: {reason}")


def _judge(response: httpx2.Response) -> Sending:
    detail, may_pass = guarded_http.tell_status(response)
    if response.is_success:
        return Sending(Fate.SENT, detail)
    if may_pass:
        return Sending(Fate.DEFERRED, detail)
    if response.is_redirect:
        detail = f"{detail}; redirects are not followed"
    return Sending(Fate.REFUSED, detail)
