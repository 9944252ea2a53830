"""How somebody likes to look at the pages: kept by their browser, in cookies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlencode
from zoneinfo import ZoneInfo

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from web.clocks import Clock, find_zone

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
