"""
Actions to begin with: one of each kind, each something that people really schedule.

Pure: the day goes in, texts come out. The texts are files of starters/, written to
be read; what is a date in them is filled in, so that none of them has passed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from importlib.resources import files

from models.errors import NotFoundError
from models.fields.strict_model import find_near

_MONTH = timedelta(days=32)  # from a first day always into the next month


@dataclass(frozen=True, slots=True)
class Starter:
    """
    An action to begin with.

    Args:
        kind: Its name in links, and of its file.
        title: When it runs, in a few words.
        story: When one needs it.
        text: JSON, which can be posted as it is.
    """

    kind: str
    title: str
    story: str
    text: str


#: Title and story of each, in the order in which they are offered: the common first.
STARTERS: Mapping[str, tuple[str, str]] = {
    "weekdays": (
        "Weekdays at seven",
        "A summary of the live data, in the mail before people are at work.",
    ),
    "nightly": (
        "Every night",
        "Load all data and publish it, within half an hour; an outage is made up for.",
    ),
    "weekly": (
        "Mondays at seven",
        "Load two domains, publish them, and mail the summary to those who decide.",
    ),
    "office-hours": (
        "Every quarter of an hour, in office hours",
        "Figures that change all day. A run that is not over in time is not run twice.",
    ),
    "interval": (
        "Every ninety minutes",
        "A fixed grid that no rule of hours and minutes can say.",
    ),
    "once": ("Once", "An announcement, at nine on the day, where the readers live."),
    "month-end": (
        "Last working day of the month",
        "Close the month at six in the evening: load, publish, then tell the managers.",
    ),
    "working-day": (
        "Fifth working day of the month",
        "Figures of the month that is over, once they have come in; holidays count.",
    ),
    "calendar": (
        "First Monday of a quarter",
        "A call to another system, in the syntax of systemd, until a given day.",
    ),
    "several": (
        "Several rules, and days off",
        "Weekdays at seven, weekends at nine, and nothing on holidays.",
    ),
    "on-event": (
        "When something happens",
        "A welcome mail, the moment a user is created.",
    ),
    "after-event": (
        "Some time after something happened",
        "A mail to those who were not seen for a week, once for each absence.",
    ),
    "task": (
        "Your own Celery task",
        "A task of a project of yours, every hour, with its arguments.",
    ),
}


def list_starters(today: date, calendars: Collection[str] = ()) -> list[Starter]:
    """Return all starters; the arguments are those of ``get_starter``."""
    return [get_starter(kind, today, calendars) for kind in STARTERS]


def get_starter(kind: str, today: date, calendars: Collection[str] = ()) -> Starter:
    """
    Return the starter of *kind*.

    Args:
        kind: Its name.
        today: Where dates are counted from.
        calendars: Names of the holiday calendars of the small app that it is for.
            Without any, two holidays stand for them.

    Raises:
        NotFoundError: There is none.
    """
    if kind not in STARTERS:
        near = find_near(kind, STARTERS)
        meant = f"Did you mean {near!r}? " if near else ""
        msg = f"there is no starter {kind!r}. {meant}There are: {', '.join(STARTERS)}."
        raise NotFoundError(msg)
    title, story = STARTERS[kind]
    text = files("web.editor").joinpath("starters", f"{kind}.json").read_text("utf-8")
    return Starter(kind, title, story, _fill_in(text, today, calendars))


def _fill_in(text: str, today: date, calendars: Collection[str]) -> str:
    """Return *text* with its dates and holidays."""
    next_month = (today.replace(day=1) + _MONTH).replace(day=1)
    # A year in which Christmas is still to come.
    year = (today + timedelta(days=7)).year
    named = [{"calendar": name} for name in sorted(calendars)]
    filled = {
        "holidays": json.dumps(named or ["{{year}}-12-25", "{{following_year}}-01-01"]),
        "today": today.isoformat(),
        "next_month": next_month.isoformat(),
        "in_two_years": f"{today.year + 2}-07-01",
        "year": str(year),
        "following_year": str(year + 1),
    }
    for name, value in filled.items():
        text = text.replace(f"{{{{{name}}}}}", value)
    return text
