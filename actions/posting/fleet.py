"""
What in an action must fail, or wait, as the workers are that run now.

It is judged by what they say of themselves. While none runs, nobody can tell: actions
may be posted before anything is started.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import sqlalchemy as sa

from models.database.engine import db_now
from models.database.tables import ALIVE_FOR, processes
from models.errors import Problem
from models.fields.addresses import is_public
from models.scheduled_action import ScheduledActionModel

_SECRET = "MINUTEHAND_WEBHOOK_SECRET"  # noqa: S105 - the name of a setting
_ALLOWED = "MINUTEHAND_WEBHOOK_ALLOWED_HOSTS"

#: Stands for a setting that has no value.
_NOT_SET = "not set"


@dataclass(frozen=True, slots=True)
class FleetWorker:
    """
    A worker that runs.

    Args:
        queues: Those that it takes.
        settings: As it describes them, by variable; none of an older version's that it
            does not know.
    """

    name: str
    queues: tuple[str, ...]
    settings: Mapping[str, str]


def fetch_fleet(connection: sa.Connection) -> tuple[FleetWorker, ...]:
    """Return the workers that gave a sign of life lately."""
    rows = connection.execute(
        sa.select(processes.c.name, processes.c.queues, processes.c.settings)
        .where(
            processes.c.role == "worker", processes.c.heartbeat_at > db_now(-ALIVE_FOR)
        )
        .order_by(processes.c.name)
    )
    return tuple(FleetWorker(row.name, tuple(row.queues), row.settings) for row in rows)


def find_failing(
    fleet: tuple[FleetWorker, ...], action: ScheduledActionModel
) -> Iterator[Problem]:
    """Yield what in *action* no worker of *fleet* takes, or what would fail there."""
    if not fleet:
        return
    queue = action.operations.queue.value
    takers = [each for each in fleet if queue in each.queues]
    if not takers:
        message = f"no worker takes the queue {queue!r}, so its runs would wait."
        yield Problem("/operations", message, f"Start minutehand worker -Q {queue}.")
    asked = action.operations.call_webhook
    if asked is None:
        return
    for each in takers:
        if each.settings.get(_SECRET) == _NOT_SET:
            message = f"worker {each.name!r} has no secret to sign with, so it fails."
            hint = f"An operator sets {_SECRET}."
            yield Problem("/operations/call_webhook", message, hint)
            break
    host = urlsplit(asked.url).hostname or ""
    for each in takers:
        if _ALLOWED in each.settings and is_refused(host, each.settings[_ALLOWED]):
            message = f"{host} is not a public address, so the request is refused."
            hint = f"An operator can allow it in {_ALLOWED}."
            yield Problem("/operations/call_webhook/url", message, hint)
            break


def is_refused(host: str, allowed: str) -> bool:
    """
    Tell whether a worker would certainly refuse to call *host*.

    Names are not looked up: where they lead is decided when they are called.

    Args:
        host: Name or address.
        allowed: Names, addresses and networks that may be called, with commas between.
    """
    entries = [each.strip() for each in allowed.split(",")]
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
