"""
Addresses: of mails and the web, of notices and monitors; which IPs are public. Pure.

Healthchecks, and what speaks as it does, gets ``/start`` and ``/fail`` behind the
address of a check, and the id of the run as ``rid``. Sentry's monitors of crons get a
``status``, and the id as ``check_in_id``; their addresses are known by their path.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator
from enum import Enum, StrEnum
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID

from models.errors import RuleError
from models.fields.strict_model import show

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


def is_refused(host: str, allowed: Iterable[str]) -> bool:
    """
    Tell whether a worker would certainly refuse to call *host*.

    Names are not looked up: where they lead is decided when they are called.

    Args:
        host: Name or address.
        allowed: Names, addresses and networks that may be called.
    """
    entries = [*allowed]
    if host in entries:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        host = "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not is_public(address) and not any(
        address in network for network in _read_networks(entries)
    )


def _read_networks(
    entries: list[str],
) -> Iterator[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    for entry in entries:
        try:
            yield ipaddress.ip_network(entry, strict=False)
        except ValueError:
            continue  # a name


_EMAIL = re.compile(r"[^\s@<>,;\"\x00-\x1f\x7f]+@[^\s@<>,;\"\x00-\x1f\x7f]+")


def check_email(text: str) -> str:
    """Refuse an address that no mail can be sent to, or that would break a header."""
    if _EMAIL.fullmatch(text) is None:
        msg = f"{show(text)} is not a mail address."
        raise RuleError(msg, "Write an address such as 'ada@example.com'.")

    return text


def check_url(text: str) -> str:
    """
    Return *text* if it is an absolute HTTP address.

    Whether the address may be called is decided when it is called, since a host name
    may point elsewhere by then.

    Raises:
        RuleError: If it is not such an address, or contains a user or password.
    """
    hint = "Write an address such as 'https://example.com/hook'."
    if re.search(r"[\x00-\x20\x7f\\]", text):
        msg = f"{show(text)} contains a space, a control character or a backslash."
        raise RuleError(msg, hint)
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise RuleError(f"{show(text)} is not an address: {error}.", hint) from None

    if parts.scheme not in {"http", "https"}:
        raise RuleError(f"{show(text)} does not begin with http:// or https://.", hint)
    if not host:
        raise RuleError(f"{show(text)} has no host.", hint)
    if "@" in parts.netloc:
        # Everybody who may see the app can read its documents.
        msg = f"The address of host '{host}' has a user or password in it."
        hint = "Leave them out: everyone who sees the document would see them."
        raise RuleError(msg, hint)

    return text


class NoticeForm(StrEnum):
    """How a notice is written for whoever is posted it."""

    OWN = "own"  # docs/notices.md, signed
    SLACK = "slack"
    TEAMS = "teams"
    PAGERDUTY = "pagerduty"


#: The ends of the hosts that expect a form.
_HOSTS = {
    "hooks.slack.com": NoticeForm.SLACK,
    ".webhook.office.com": NoticeForm.TEAMS,
    ".logic.azure.com": NoticeForm.TEAMS,
    ".api.powerplatform.com": NoticeForm.TEAMS,
    "events.pagerduty.com": NoticeForm.PAGERDUTY,
    "events.eu.pagerduty.com": NoticeForm.PAGERDUTY,
}

#: The parameter of an address of PagerDuty that has the key; it is sent in the body.
ROUTING_KEY = "routing_key"


def find_form(url: str) -> NoticeForm:
    """
    Return the form that *url* asks for.

    >>> find_form("https://hooks.slack.com/services/T0/B0/x").value
    'slack'
    >>> find_form("https://chat.example.com/hooks/7#slack").value
    'slack'
    """
    parts = urlsplit(url)
    if parts.fragment in set(NoticeForm):
        return NoticeForm(parts.fragment)
    host = (parts.hostname or "").casefold()
    for end, form in _HOSTS.items():
        if host == end or (end.startswith(".") and host.endswith(end)):
            return form
    return NoticeForm.OWN


def check_notice_url(text: str) -> str:
    """
    Return *text* if notices can be posted to it.

    Raises:
        RuleError: As ``check_url``, or because PagerDuty would refuse all of them.
    """
    check_url(text)
    parts = urlsplit(text)
    is_keyless = not parse_qs(parts.query).get(ROUTING_KEY)
    if find_form(text) is NoticeForm.PAGERDUTY and is_keyless:
        msg = f"{show(text)} does not say which service of PagerDuty is told."
        hint = f"Write its integration key behind it: ?{ROUTING_KEY}=KEY"
        raise RuleError(msg, hint)

    return text


class PingSign(Enum):
    """What a monitor is told: for Healthchecks, and for Sentry."""

    START = ("/start", "in_progress")
    OK = ("", "ok")
    FAIL = ("/fail", "error")


#: /api/PROJECT/cron/MONITOR/KEY/, of Sentry's own servers and of one's own.
_OF_SENTRY = re.compile(r"/api/[^/]+/cron/[^/]+/[^/]+/?")

#: What is added to an address, and so must not be part of it.
_ADDED_ENDS = re.compile(r"/(start|fail|log|[0-9]{1,3})/?$")
_ADDED_PARAMETERS = frozenset({"rid", "status", "check_in_id"})


def check_ping(text: str) -> str:
    """
    Return *text* if it is the address of a monitor, without what a ping adds to it.

    Raises:
        RuleError: As ``check_url``, or because it is not. It repeats the host alone:
            whoever knows the path can ping.
    """
    check_url(text)
    parts = urlsplit(text)
    whose = f"The address of host '{parts.hostname}'"
    if not parts.path.strip("/"):
        msg = f"{whose} does not say which monitor: it has no path."
        hint = "Write the address of one check, such as 'https://hc-ping.com/uuid'."
        raise RuleError(msg, hint)
    hint = "Leave it out: start, success and failure are told apart for you."
    added = [end[1] for end in _ADDED_ENDS.finditer(parts.path)]
    given = (name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    added += [name for name in given if name in _ADDED_PARAMETERS]
    if added:
        msg = f"{whose} has '{added[0]}' in it, which belongs to one kind of ping."
        raise RuleError(msg, hint)

    return text


def name_monitor(address: str) -> str:
    """Return the host of *address*: all of it that logs and messages may have."""
    return urlsplit(address).hostname or "?"


def make_ping(address: str, sign: PingSign, run: UUID | None = None) -> str:
    """
    Return what to GET so that the monitor at *address* hears of *sign*.

    Args:
        run: Tells runs apart that overlap. None: there are no such.

    >>> make_ping("https://hc-ping.com/7d0f", PingSign.FAIL)
    'https://hc-ping.com/7d0f/fail'
    >>> make_ping("https://o1.ingest.sentry.io/api/7/cron/daily/key/", PingSign.OK)
    'https://o1.ingest.sentry.io/api/7/cron/daily/key/?status=ok'
    """
    parts = urlsplit(address)
    end, status = sign.value
    path, more = parts.path, {}
    if _OF_SENTRY.fullmatch(path):
        more = {"status": status}
        if run is not None:
            more["check_in_id"] = str(run)
    else:
        path = path.rstrip("/") + end
        if run is not None:
            more = {"rid": str(run)}
    query = "&".join(filter(None, (parts.query, urlencode(more))))
    return urlunsplit(parts._replace(path=path, query=query, fragment=""))
