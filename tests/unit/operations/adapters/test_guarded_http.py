"""Which addresses tenants may have called, without a network."""

from __future__ import annotations

import ipaddress
from datetime import timedelta

import httpx2
import pytest

from models.fields.addresses import is_public
from operations.adapters.guarded_http import ForbiddenUrlError, GuardedClient, HostGuard

MINUTE = timedelta(minutes=1)


PUBLIC = [
    *("93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"),
    *("::ffff:93.184.216.34", "64:ff9b::5db8:d822", "2002:5db8:d822::1"),
]
OTHERS = [
    *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
    *("100.64.0.1", "0.0.0.0", "224.0.0.1", "255.255.255.255", "192.88.99.1"),  # noqa: S104
    *("192.0.0.8", "192.0.0.255", "198.19.0.1", "203.0.113.7", "240.0.0.1"),
    *("::", "::1", "fe80::1", "fd00::1", "ff02::1", "fec0::1", "3fff::1", "5f00::1"),
    *("2001:20::1", "2001:db8::1"),
    # the same in disguise
    *("::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b:1::7f00:1", "64:ff9b::c000:8"),
    *("2002:7f00:1::1", "::7f00:1", "::ffff:0:7f00:1"),
]


@pytest.mark.parametrize("address", [*PUBLIC, *OTHERS])
def test_only_addresses_of_the_internet_are_public(address: str):
    """Private, loopback and link-local addresses are refused in any disguise."""
    assert (address in PUBLIC) == is_public(ipaddress.ip_address(address))


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
