"""
Addresses of outside monitors, and how each kind is told of a run. Pure.

Healthchecks, and what speaks as it does, gets ``/start`` and ``/fail`` behind the
address of a check, and the id of the run as ``rid``. Sentry's monitors of crons get a
``status``, and the id as ``check_in_id``; their addresses are known by their path.
"""

from __future__ import annotations

import re
from enum import Enum
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from uuid import UUID

from models.errors import RuleError
from models.fields.addresses import check_url


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
