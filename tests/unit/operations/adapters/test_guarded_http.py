"""Which addresses tenants may have called, without a network."""

from __future__ import annotations

import ipaddress
from datetime import timedelta

import httpx2
import pytest

from models.fields.addresses import is_public
from operations.adapters.guarded_http import ForbiddenUrlError, GuardedClient, HostGuard

MINUTE = timedelta(minutes=1)


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
        ("192.0.0.8", False),
        ("192.0.0.255", False),
        ("198.19.0.1", False),
        ("203.0.113.7", False),
        ("240.0.0.1", False),
        ("2001:20::1", False),
        ("2001:db8::1", False),
        ("64:ff9b::c000:8", False),
    ],
)
def test_only_addresses_of_the_internet_are_public(address: str, *, public: bool):
    """Private, loopback and link-local addresses are refused in any disguise."""
    assert public == is_public(ipaddress.ip_address(address))


def test_refusal_names_the_setting_that_would_allow_it():
    """An operator reads what to list where."""
    guard = HostGuard((), setting="MINUTEHAND_X")

    with pytest.raises(ForbiddenUrlError, match=r"resolves to 10.0.0.1.*MINUTEHAND_X"):
        guard.check("inner", ("10.0.0.1",))


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://faß.example/", "xn--fa-hia.example"),
        ("https://xn--fa-hia.example/", "xn--fa-hia.example"),
        ("https://www.xn--fa-hia.example/", "www.xn--fa-hia.example"),
        ("https://MÜLLER.example/", "xn--mller-kva.example"),
        ("https://[2001:db8::1]/", "2001:db8::1"),
    ],
)
def test_name_is_resolved_as_it_is_sent(url: str, name: str):
    """The resolver gets the letters of the request; it would make fass of faß."""
    asked: list[str] = []

    def resolve(host: str, _port: int) -> tuple[str, ...]:
        asked.append(host)
        return ("10.0.0.1",)

    guard = HostGuard((), setting="MINUTEHAND_X", resolve=resolve)
    with (
        pytest.raises(ForbiddenUrlError),
        GuardedClient(guard, MINUTE, whole=MINUTE) as client,
    ):
        client.get(url)

    assert [name] == asked


@pytest.mark.parametrize("listed", ["faß.example", "xn--fa-hia.example"])
@pytest.mark.parametrize("called", ["faß.example", "xn--fa-hia.example"])
def test_allowed_name_may_be_written_in_either_letters(listed: str, called: str):
    """An operator lists the name as people or as computers write it."""
    guard = HostGuard((listed,), setting="MINUTEHAND_X")

    guard.check(httpx2.URL(f"http://{called}/").raw_host.decode(), ("10.0.0.1",))


@pytest.mark.parametrize("port", [-1, 0, 65536, 7 * 10**19])
def test_port_that_cannot_be_is_refused(port: int):
    """A server may redirect to any number; no resolver is asked what it makes of it."""
    guard = HostGuard((), setting="MINUTEHAND_X", resolve=lambda _h, _p: ("10.0.0.1",))

    with (
        pytest.raises(ForbiddenUrlError, match=r"x.example:.* from 1 to 65535"),
        GuardedClient(guard, MINUTE, whole=MINUTE) as client,
    ):
        client.get(f"http://x.example:{port}/")
