"""Which IP addresses belong to the public internet. Pure."""

from __future__ import annotations

import ipaddress

#: What is not, of IPv4 and of 2000::/3: the special-purpose registries of IANA, without
#: what they call globally reachable. ``is_global`` of Python knows less or more of it
#: with each version: 3.12.1 takes 192.0.0.8 for public and 3.13 does not; 192.88.99.1
#: and 3fff::1 are public to both.
_SPECIAL = tuple(
    ipaddress.ip_network(each)
    for each in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",  # behind the translators of providers
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",  # protocols of the IETF
        "192.0.2.0/24",  # documentation, as 198.51.100.0, 203.0.113.0 and 3fff::
        "192.88.99.0/24",  # relays from IPv6, which no longer exist (RFC 7526)
        "192.168.0.0/16",
        "198.18.0.0/15",  # benchmarks
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "2001::/23",  # protocols of the IETF
        "2001:db8::/32",
        "3fff::/20",
    )
)

#: Well-known prefix of addresses that stand for IPv4 ones (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: Everything that is routed on the IPv6 internet.
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: IpAddress) -> bool:
    """
    Return whether *address* belongs to the public internet.

    An IPv6 address that carries an IPv4 address is judged by the latter: that is where
    the packets go.
    """
    if isinstance(address, ipaddress.IPv6Address):
        carried = address.ipv4_mapped or address.sixtofour
        if carried is None and address.teredo is not None:
            carried = address.teredo[1]
        if carried is None and address in _NAT64:
            carried = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if carried is not None:
            return is_public(carried)
        if address not in _GLOBAL_UNICAST:
            return False
    return not any(address in network for network in _SPECIAL)
