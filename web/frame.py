"""What every page has around it: who leads, where one can go, how times are shown."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from actions.leader import fetch_holder, get_last_tick_at
from models.database.engine import read_clock
from overview.doctor.checks.scheduler import is_tick_late
from serving.context import Context


@dataclass(frozen=True, slots=True)
class Section:
    """An entry of the navigation: its path, its name, and the keys that lead there."""

    path: str
    name: str
    keys: str


SECTIONS = (
    Section("/", "Now", "g n"),
    Section("/actions", "Actions", "g a"),
    Section("/operations", "Operations", "g o"),
    Section("/timeline", "Timeline", "g t"),
    Section("/calendar", "Calendar", "g c"),
    Section("/workers", "Workers", "g w"),
    Section("/apps", "Data", "g d"),
    Section("/mails", "Mails", "g m"),
    Section("/events", "Events", "g e"),
    Section("/settings", "Settings", "g s"),
)


@dataclass(frozen=True, slots=True)
class LeaderInFrame:
    """
    Who leads the installation, and whether it ticks.

    Args:
        now: By the clock of the database, aware UTC.
        leader: The host that leads. None: nobody does.
        ticked_at: The last tick, aware UTC. None: there was none.
        is_late: Whether somebody leads, but the tick is late.
    """

    now: datetime
    leader: str | None
    ticked_at: datetime | None
    is_late: bool


def fetch_leadership(connection: sa.Connection) -> LeaderInFrame:
    """Return who leads the installation, and whether it ticks."""
    holder = fetch_holder(connection)
    leads = holder is not None and not holder.is_stale
    ticked_at = holder.last_tick_at if holder else get_last_tick_at(connection)
    now = read_clock(connection)
    return LeaderInFrame(
        now=now,
        leader=holder.hostname if holder is not None and leads else None,
        ticked_at=ticked_at,
        is_late=leads and is_tick_late(holder, ticked_at, now),
    )


def find_address(context: Context) -> str:
    """Return where people reach this installation, for commands that they paste."""
    settings = context.services.settings
    if settings.web_url is not None:
        return settings.web_url.rstrip("/")
    return str(context.request.base_url).rstrip("/")


def find_section(path: str) -> Section | None:
    """Return the entry of the navigation that a page belongs to."""
    found = [
        each
        for each in SECTIONS
        if path == each.path or (each.path != "/" and path.startswith(f"{each.path}/"))
    ]
    return found[0] if found else None
