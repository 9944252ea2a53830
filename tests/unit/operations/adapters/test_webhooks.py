"""Signatures and addresses of webhooks, without a network."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest

from models.fields.webhook_secret import decode_secret
from operations.adapters.webhooks import RealWebhooks, sign
from operations.mail.message import Fate, WebhookRequest

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)


def test_signature_is_that_of_standard_webhooks():
    """The example of the specification's libraries."""
    secret = decode_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")

    signature = sign(
        secret,
        message_id="msg_p5jXN8AQM9LWM0D4loKWxJek",
        timestamp=1614265330,
        body=b'{"test": 2432232314}',
    )

    assert "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" == signature


def test_secret_without_prefix_is_the_key_itself():
    """Any text is a key; only ``whsec_`` means base64."""
    encoded = base64.b64encode(b"abc").decode()

    assert (b"abc", b"abc") == (decode_secret("abc"), decode_secret(f"whsec_{encoded}"))


@pytest.mark.parametrize(
    ("url", "addresses", "reason"),
    [
        ("http://inner/x", ("10.0.0.1",), "resolves to 10.0.0.1"),
        ("http://both/x", ("93.184.216.34", "10.0.0.1"), "resolves to 10.0.0.1"),
        ("http://link/x", ("fe80::1%eth0",), "resolves to fe80::1%eth0"),
        ("http://[::1", (), "is not an address"),
    ],
)
def test_forbidden_addresses_are_refused(
    url: str, addresses: tuple[str, ...], reason: str
):
    """One private address among several is enough; nothing is connected."""
    webhooks = RealWebhooks(secret="abc", resolve=lambda _host, _port: addresses)

    sending = webhooks.post(WebhookRequest(url, "1", b""), now=NOW)

    assert Fate.REFUSED is sending.outcome
    assert reason in sending.detail


def test_request_without_secret_is_refused():
    """Nothing is ever sent unsigned, and the message names the setting."""
    sending = RealWebhooks(secret=None).post(
        WebhookRequest("https://x.org", "1", b""), now=NOW
    )

    assert Fate.REFUSED is sending.outcome
    assert "MINUTEHAND_WEBHOOK_SECRET" in sending.detail


def test_unknown_host_may_be_known_later():
    """A name that does not resolve is worth another attempt."""

    def fail(_host: str, _port: int) -> tuple[str, ...]:
        raise OSError("no such host")

    sending = RealWebhooks(secret="abc", resolve=fail).post(
        WebhookRequest("https://x.org", "1", b""), now=NOW
    )

    assert Fate.UNREACHABLE is sending.outcome
