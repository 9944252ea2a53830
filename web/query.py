"""
What the query of a page asks for.

A link of yesterday may ask for what nobody knows today. It shows the page all the same,
without that, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from enum import StrEnum
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.load.foresee import Whose
from actions.lookup import SYSTEM_APP
from models.errors import UnreachableError
from models.fields.instants import parse_instant
from models.fields.strict_model import show
from models.fields.zone import load_zone
from models.operation_state import Queue
from models.paging import Page, Part
from overview.small_apps import MOST_CHOICES, AppChoice, fetch_app_choices
from serving.context import Context
from serving.cursors import read_cursor, write_cursor
from serving.guarding import tell_unserved
from serving.refusals import HttpError
from web.preferences import choose_zone, read_preferences

_Choice = TypeVar("_Choice", bound=StrEnum)
_Value = TypeVar("_Value")

#: Characters of the longest text that is looked for.
_LONGEST = 200

#: Rows of a part of a list.
ROWS = 50


@dataclass(slots=True)
class Query:
    """
    The query of a page: its filters, and where a list goes on.

    Args:
        problems: A sentence for each part of it that was left out.
        is_first: Whether the list is at its beginning, once its page was asked for.
    """

    context: Context
    problems: list[str] = field(default_factory=list)
    is_first: bool = True

    def note(self, problem: str) -> None:
        """Remember what was left out, once however often it is asked for."""
        if problem not in self.problems:
            self.problems.append(problem)

    def text(self, name: str) -> str | None:
        """Return a text, without space around it. None: there is none."""
        value = self.context.request.query_params.get(name, "").strip()
        if len(value) > _LONGEST:
            self.note(f"{name} is longer than {_LONGEST} characters.")
            return None
        return value or None

    def all(self, name: str) -> list[str]:
        """Return every value of *name*, as check boxes of a list send them."""
        values = self.context.request.query_params.getlist(name)
        return [each for each in values if each]

    def has_any(self, *names: str) -> bool:
        """Return whether anything is given for one of *names*."""
        return any(self.context.request.query_params.get(name) for name in names)

    def choice(self, name: str, kind: type[_Choice]) -> _Choice | None:
        """Return one of *kind*. None: none is named."""
        known = ", ".join(kind)
        told = f"There is no {name} {{}}, only {known}."
        return self._read(name, kind, told)

    def id(self, name: str) -> UUID | None:
        """Return the id of an operation."""
        return self._read(name, UUID, f"{name}: {{}} is not an id.")

    def instant(self, name: str, zone: ZoneInfo | None = None) -> datetime | None:
        """
        Return an instant, aware UTC.

        Args:
            name: Of the parameter.
            zone: In which a time without offset is read, as forms send it. None: such a
                time is left out.
        """

        def read(value: str) -> datetime:
            # A "+" that somebody typed into a link arrives as a space.
            return parse_instant(value.replace(" ", "+"), zone)

        return self._read(name, read)

    def day(self, name: str) -> tuple[datetime, datetime] | tuple[None, None]:
        """Return where a day of the installation's zone begins, and where it ends."""
        zone = load_zone(self.context.services.timezone)

        def read(value: str) -> tuple[datetime, datetime]:
            day = date.fromisoformat(value)
            days = day, day + timedelta(days=1)
            begin, end = (datetime.combine(each, time(), zone) for each in days)
            return begin, end

        told = f"{name}: {{}} is not a day such as 2026-10-20."
        return self._read(name, read, told) or (None, None)

    def _read(
        self, name: str, read: Callable[[str], _Value], told: str = ""
    ) -> _Value | None:
        """Return what *read* makes of a text; else note *told*, or what was raised."""
        value = self.text(name)
        try:
            return None if value is None else read(value)
        except (ValueError, OverflowError) as error:
            self.note(told.format(show(value)) if told else f"{name}: {error}")
            return None

    def page(self, limit: int = ROWS) -> Page:
        """Return which part of the list is asked for; of nonsense, the first."""
        text = self.context.request.query_params.get("cursor")
        if not text:
            return Page(limit)
        try:
            position = read_cursor(text, self.context.request)
        except HttpError:
            self.note(
                "The link is to a place in a list with other filters; this is its"
                " beginning."
            )
            return Page(limit)
        self.is_first = False
        return Page(limit, position)

    def show(self, part: Part[Any] | Unread | None) -> dict[str, Any]:
        """Return what the template of a list needs, whatever is listed."""
        params = self.context.request.query_params
        cursor = self.find_next(part)
        return {"part": part, "query": self, "params": params, "cursor": cursor}

    def find_next(self, part: Part[Any] | Unread | None) -> str | None:
        """Return the cursor after *part*. None: it was the last."""
        if not isinstance(part, Part) or part.following is None:
            return None
        return write_cursor(part.following, self.context.request)


def ask(context: Context) -> Asked | Unread:
    """Return what a page of time is asked; Unread: the apps could not be read."""
    apps = read_part(context, fetch_app_choices, context.app)
    if isinstance(apps, Unread):
        return apps
    return Asked(context, apps=apps)


@dataclass(slots=True)
class Asked(Query):
    """
    The query of a page of time: of whose runs, when, and by which clocks.

    Args:
        apps: Those that one may choose from.
    """

    apps: Sequence[AppChoice] = ()

    @property
    def whose(self) -> Whose:
        """The app and queue; a caller of one app has no other."""
        return Whose(self.app, self.queue)

    @property
    def app(self) -> str | None:
        """The app that is looked at. None: all."""
        given = self.text("app")
        app = self.context.app
        if app is None and given in {each.uid for each in self.apps}:
            app = given
        if given and given != app:
            self.note(f"There is no app {show(given)}; this is of all.")
        return app

    @property
    def queue(self) -> Queue | None:
        """The queue that is looked at. None: all."""
        return self.choice("queue", Queue)

    def find_zone(self) -> ZoneInfo:
        """Return the zone whose days and hours are shown, as was chosen."""
        liked = read_preferences(self.context.request)
        own = next((e.timezone for e in self.apps if e.uid == self.app), None)
        installation = load_zone(self.context.services.timezone)
        return choose_zone(liked.clock, liked.mine, own, installation)


_Part = TypeVar("_Part")
_Given = ParamSpec("_Given")


@dataclass(frozen=True, slots=True)
class Unread:
    """
    A part of a page that could not be read.

    Args:
        why: What the database said, or that it took too long.
    """

    why: str


def read_part(
    context: Context,
    read: Callable[Concatenate[sa.Connection, _Given], _Part],
    *args: _Given.args,
    **kwargs: _Given.kwargs,
) -> _Part | Unread:
    """
    Return what *read* returns, or that it could not be read.

    Args:
        read: Gets a connection of its own, which only reads, and all other arguments.
    """
    try:
        return context.fetch(read, *args, **kwargs)
    except UnreachableError as error:
        tell_unserved(context.request, error)
        return Unread(str(error))


def list_apps(context: Context) -> list[tuple[str, str]] | None:
    """
    Return uid and name of the small apps that a form offers.

    None: too many to choose from. There is never one by default.
    """
    found = read_part(context, find_apps)
    # One of those that were read may be our own.
    if isinstance(found, Unread) or len(found) >= MOST_CHOICES - 1:
        return None
    return [(each.uid, each.name or each.uid) for each in found]


def find_apps(connection: sa.Connection) -> list[AppChoice]:
    """Return the small apps, as many as may be offered; not our own."""
    found = fetch_app_choices(connection)
    return [each for each in found if each.uid != SYSTEM_APP]
