"""Which addresses tenants may have called, without a network."""

from __future__ import annotations

import ipaddress

import httpx2
import pytest

from operations.adapters.guarded_http import (
    ForbiddenUrlError,
    HostGuard,
    is_public,
)


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("93.184.216.34", True),
        ("2606:2800:220:1:248:1893:25c8:1946", True),
        ("127.0.0.1", False),
        ("10.1.2.3", False),
        ("172.16.0.1", False),
        ("192.168.1.1", False),
        ("169.254.169.254", False),
        ("100.64.0.1", False),
        ("0.0.0.0", False),  # noqa: S104 - an address to refuse
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("fe80::1", False),
        ("fd00::1", False),
        ("ff02::1", False),
        ("::ffff:127.0.0.1", False),
        ("::ffff:93.184.216.34", True),
        ("64:ff9b::7f00:1", False),
        ("64:ff9b::5db8:d822", True),
        ("2002:7f00:1::1", False),
        ("2002:5db8:d822::1", True),
        ("::7f00:1", False),
        ("::ffff:0:7f00:1", False),
        ("64:ff9b:1::7f00:1", False),
        ("fec0::1", False),
        ("3fff::1", False),
        ("5f00::1", False),
        ("192.88.99.1", False),
    ],
)
def test_only_addresses_of_the_internet_are_public(address: str, *, public: bool):
    """
    Private, loopback and link-local addresses are refused in any disguise.
    """
    assert public == is_public(ipaddress.ip_address(address))


def test_refusal_names_the_setting_that_would_allow_it():
    """
    An operator reads what to list where.
    """
    guard = HostGuard((), setting="MINUTEHAND_X", resolve=lambda _h, _p: ("10.0.0.1",))

    with pytest.raises(ForbiddenUrlError, match=r"leads to 10.0.0.1.*MINUTEHAND_X"):
        guard.find_addresses(httpx2.URL("http://inner/"))
