"""Which IP addresses belong to the public internet. Pure."""

from __future__ import annotations

import ipaddress

#: Well-known prefix of addresses that stand for IPv4 ones (RFC 6052).
_NAT64 = ipaddress.ip_network("64:ff9b::/96")

#: Everything that is routed on the IPv6 internet. ``is_global`` does not know all that
#: lies outside (site-local, IPv4-compatible, prefixes of local translators).
_GLOBAL_UNICAST = ipaddress.ip_network("2000::/3")

#: For documentation (RFC 9637); Python 3.11 considers it global.
_DOCUMENTATION = ipaddress.ip_network("3fff::/20")

#: Relays from IPv6 to IPv4, which no longer exist (RFC 7526).
_RELAYS = ipaddress.ip_network("192.88.99.0/24")

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


def is_public(address: IpAddress) -> bool:
    """
    Return whether *address* belongs to the public internet.

    An IPv6 address that carries an IPv4 address is judged by the latter: that is where
    the packets go.
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
