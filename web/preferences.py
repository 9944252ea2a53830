"""How somebody likes to look at the pages, kept in cookies; and times written so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from models.units import format_age

_UTC = ZoneInfo("UTC")


class Clock(StrEnum):
    """Which clock times are shown on."""

    #: of the app or action that they belong to
    SCHEDULE = "schedule"
    #: of whoever looks
    MINE = "mine"
    UTC = "utc"


class Detail(StrEnum):
    """How much of an instant is shown."""

    #: 03:05; of another day 19 Oct 03:05
    MINUTE = "minute"
    #: 03:05, and 03:05:37 if it has seconds
    DUE = "due"
    #: 03:05:37; of another day 19 Oct 03:05:37
    SECOND = "second"
    #: Tue 20 Oct 2026 03:05:37
    FULL = "full"
    #: 20 Oct 2026
    DAY = "day"


@dataclass(frozen=True, slots=True)
class Shown:
    """
    An instant as it is shown.

    Args:
        iso: For programs, UTC.
        text: Without offset; of UTC with Z.
        offset: Such as +01:00. Empty: *text* has it.
        zone: The IANA name.
    """

    iso: str
    text: str
    offset: str
    zone: str


@dataclass(frozen=True, slots=True)
class Clocks:
    """
    The clocks of one page.

    Args:
        now: The moment of the page, aware.
        clock: The one that was chosen.
        installation: The zone of what belongs to no app.
        mine: The zone of whoever looks. None: not known.
    """

    now: datetime
    clock: Clock
    installation: ZoneInfo
    mine: ZoneInfo | None

    def find_zone(self, zone: str | None = None) -> ZoneInfo:
        """
        Return the zone in which a time is shown.

        Args:
            zone: IANA name of the zone that it belongs to. None: the installation's.
        """
        return choose_zone(self.clock, self.mine, zone, self.installation)

    def show(
        self,
        at: datetime,
        zone: str | None = None,
        detail: Detail | str = Detail.MINUTE,
    ) -> Shown:
        """
        Return *at* (aware) as it is shown on the chosen clock.

        Args:
            at: Any instant.
            zone: IANA name of the zone that it belongs to. None: the installation's.
            detail: How much of it.
        """
        return self.show_in(at, self.find_zone(zone), detail)

    def show_in(self, at: datetime, zone: ZoneInfo, detail: Detail | str) -> Shown:
        """Return *at* (aware) on the clocks of *zone*, whatever was chosen."""
        local = at.astimezone(zone)
        text = _write(local, self.now.astimezone(zone).date(), Detail(detail))
        is_utc = zone.key in {"UTC", "Etc/UTC"}
        if is_utc and Detail(detail) is not Detail.DAY:
            text += "Z"
        offset = "" if is_utc else format_offset(local)
        return Shown(format_iso(at), text, offset, zone.key)

    def tell_apart(self, at: datetime, zone: str | None = None) -> str:
        """
        Return *at* on both clocks, the local one and UTC, as one reads it in a log.

        >>> london = ZoneInfo("Europe/London")
        >>> now = datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC)
        >>> Clocks(now, Clock.SCHEDULE, london, None).tell_apart(now)
        '03:02:37 +01:00 (02:02:37Z)'
        """
        local = self.show(at, zone, Detail.SECOND)
        universal = self.show_in(at, _UTC, Detail.SECOND)
        if local.text == universal.text:
            return universal.text
        return f"{local.text} {local.offset} ({universal.text})"

    def tell_distance(self, at: datetime) -> str:
        """
        Return how far *at* is from now.

        >>> now = datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC)
        >>> clocks = Clocks(now, Clock.UTC, ZoneInfo("UTC"), None)
        >>> clocks.tell_distance(now + timedelta(seconds=143))
        'in 2 min 23 s'
        >>> clocks.tell_distance(now - timedelta(hours=3))
        '3 h ago'
        """
        away = at - self.now
        if away > timedelta(0):
            return f"in {format_age(away)}"
        return f"{format_age(-away)} ago"


def choose_zone(
    clock: Clock, mine: ZoneInfo | None, zone: str | None, installation: ZoneInfo
) -> ZoneInfo:
    """Return the zone of *clock* for what belongs to *zone*; as those of ``Clocks``."""
    match clock:
        case Clock.UTC:
            return _UTC
        case Clock.MINE if mine is not None:
            return mine
        case _:
            return find_zone(zone) or installation


def find_zone(name: str | None) -> ZoneInfo | None:
    """Return the zone of an IANA name; None if there is none of that name."""
    if not name:
        return None
    try:
        return ZoneInfo(name)
    # a name with a NUL, one of a folder, or one that leads out of the zones
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None


def format_iso(at: datetime) -> str:
    """
    Return *at* (aware) as programs read it, in UTC.

    >>> format_iso(datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC))
    '2026-10-20T02:02:37Z'
    """
    return f"{at.astimezone(UTC):%FT%T}Z"


def format_offset(local: datetime) -> str:
    """
    Return the offset of a local time.

    >>> format_offset(datetime(2026, 7, 1, tzinfo=ZoneInfo("Asia/Kolkata")))
    '+05:30'
    """
    text = f"{local:%z}"
    return f"{text[:3]}:{text[3:5]}"


def _write(local: datetime, today: date, detail: Detail) -> str:
    day = f"{local.day} {local:%b}"
    if detail is Detail.DAY:
        return f"{day} {local.year}"
    if detail is Detail.FULL:
        return f"{local:%a} {day} {local.year} {local:%T}"
    has_seconds = detail is Detail.SECOND or (detail is Detail.DUE and local.second)
    text = f"{local:%T}" if has_seconds else f"{local:%R}"
    if local.date() == today:
        return text
    year = f" {local.year}" if local.year != today.year else ""
    return f"{day}{year} {text}"


#: The script writes it: the zone of the browser.
ZONE_COOKIE = "minutehand-zone"

_Choice = TypeVar("_Choice", bound=StrEnum)

_KEPT_FOR_S = 400 * 86400  # the longest that browsers keep one


class Theme(StrEnum):
    """Colours."""

    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


#: What a query may choose, by the name of its parameter.
_CHOICES: Mapping[str, type[StrEnum]] = {"clock": Clock, "theme": Theme}


@dataclass(frozen=True, slots=True)
class Preferences:
    """
    How somebody likes to look at the pages.

    Args:
        mine: The zone of their browser. None: it has not told.
    """

    clock: Clock = Clock.SCHEDULE
    theme: Theme = Theme.SYSTEM
    mine: ZoneInfo | None = None


def read_preferences(request: Request) -> Preferences:
    """Return what the browser has kept; of nonsense, nothing."""
    return Preferences(
        clock=_read(Clock, request.cookies.get(_name("clock")), Clock.SCHEDULE),
        theme=_read(Theme, request.cookies.get(_name("theme")), Theme.SYSTEM),
        mine=find_zone(request.cookies.get(ZONE_COOKIE, "").replace("%2F", "/")),
    )


def keep_choice(request: Request) -> Response | None:
    """Keep what the query chooses, and lead to the page without it. None: nothing."""
    query = request.query_params.multi_items()
    chosen = {name: value for name, value in query if name in _CHOICES}
    if not chosen or request.method != "GET":
        return None
    rest = urlencode([pair for pair in query if pair[0] not in _CHOICES])
    path = request.url.path
    response = RedirectResponse(f"{path}?{rest}" if rest else path, status_code=303)
    for name, value in chosen.items():
        if value in [each.value for each in _CHOICES[name]]:
            response.set_cookie(
                _name(name), value, max_age=_KEPT_FOR_S, httponly=True, samesite="lax"
            )
    return response


def _name(choice: str) -> str:
    return f"minutehand-{choice}"


def _read(kind: type[_Choice], text: str | None, default: _Choice) -> _Choice:
    try:
        return kind(text or "")
    except ValueError:
        return default
