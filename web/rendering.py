"""Pages from templates, what they all know, and the files that they load."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode
from zoneinfo import ZoneInfo

import jinja2
import sqlalchemy as sa
from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response

from actions.lease import fetch_holder, get_last_tick_at
from models.database.engine import read_clock
from models.errors import MinutehandError, UnreachableError
from models.fields.zone import load_zone
from models.json_form import write_json
from models.operation_state import OperationState
from models.role import Role
from models.units import capitalize, format_age, format_bytes, format_count
from operations.reasons import STATES
from overview.doctor.checks.scheduler import is_tick_late
from serving.context import Context
from serving.refusals import find_status
from serving.services import Services
from web.forms import Form, forget_told, take_told, tell_error, tell_on_pages
from web.preferences import (
    Clock,
    Clocks,
    Preferences,
    Theme,
    format_iso,
    read_preferences,
)
from web.query import Unread, read_part

_FOLDER = Path(__file__).parent / "static"

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """
    A file that browsers keep.

    Args:
        address: With the digest of its content, so that another content has another.
    """

    address: str
    content: bytes
    media_type: str


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return StaticFile(f"/static/{path.name}?v={digest}", content, _TYPES[path.suffix])


#: By name.
STATIC: Mapping[str, StaticFile] = {
    path.name: _read(path)
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}


router = APIRouter(include_in_schema=False)


@router.get("/static/{name}")
async def read_static(request: Request, name: str) -> Response:
    """Return a file; its address has its digest, so it may be kept for good."""
    found = STATIC.get(name)
    if found is None:
        raise HTTPException(404)
    is_exact = found.address.endswith(f"?{request.url.query}")
    kept = "public, max-age=31536000, immutable" if is_exact else "no-cache"
    return Response(
        found.content, media_type=found.media_type, headers={"Cache-Control": kept}
    )


#: Nothing from elsewhere, and nothing that is written into the page. With the referrer,
#: browsers would leave out the Origin of forms, too.
HEADERS = {
    # Going back finds what was typed.
    "Cache-Control": "private, no-cache",
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none';"
    " form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",
}


@dataclass(slots=True)
class Glyphs:
    """The signs that a page uses; only these are put into it."""

    used: set[str] = field(default_factory=set)

    def use(self, name: str) -> str:
        """Return *name*, which is needed."""
        self.used.add(name)
        return name


def render(
    context: Context,
    template: str,
    values: Mapping[str, Any] | None = None,
    *,
    status: HTTPStatus = HTTPStatus.OK,
    refused: object = None,
) -> Response:
    """
    Return a page.

    Args:
        template: A file of ``templates/`` that extends ``frame.html``.
        values: What it shows, beside what ``frame.html`` names.
        status: Of the answer.
        refused: What was wrong with the form that it shows again: the status is 422.
            None: nothing was.
    """
    if refused is not None:
        status = HTTPStatus.UNPROCESSABLE_ENTITY
    leadership = read_part(context, fetch_leadership)
    # A part that is read anew must not take the message of the next page.
    is_part = "x-part" in context.request.headers
    told = None if is_part else take_told(context.request)
    given = {**(values or {}), "told": told}
    response = _make(context.request, context, leadership, template, given, status)
    if told is not None:
        forget_told(response)
    return response


def render_error(
    request: Request,
    error: MinutehandError,
    context: Context | None = None,
    form: Form | None = None,
) -> Response:
    """
    Return a page that tells *error*.

    Args:
        request: That led to it.
        error: Expected; what it says is for people.
        context: Of the request. None: nobody was let in.
        form: What can be sent again. None: nothing.
    """
    away = isinstance(error, UnreachableError)
    leadership: LeaderInFrame | Unread = Unread(str(error))
    if context is not None and not away:
        leadership = read_part(context, fetch_leadership)
    status = find_status(error)
    values = {"problem": tell_error(error), "status": status, "form": form}
    response = _make(request, context, leadership, "error.html", values, status)
    headers = getattr(error, "headers", {})
    response.headers.update({"Retry-After": "5"} if away else headers)
    return response


def render_alone(
    request: Request,
    template: str,
    values: Mapping[str, Any],
    *,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    """
    Return a page for somebody who was not let in.

    Args:
        request: That led to it.
        template: A file of ``templates/`` that extends ``frame.html``.
        values: What it shows.
        status: Of the answer.
    """
    return _make(request, None, Unread(""), template, values, status)


def _make(
    request: Request,
    context: Context | None,
    leadership: LeaderInFrame | Unread,
    template: str,
    values: Mapping[str, Any] | None,
    status: HTTPStatus,
) -> Response:
    preferences = read_preferences(request)
    now = datetime.now(UTC) if isinstance(leadership, Unread) else leadership.now
    shown = {
        "context": context,
        "clocks": make_clocks(request.app.state.services, preferences, now),
        "glyphs": Glyphs(),
        "path": request.url.path,
        "preferences": preferences,
        "leadership": leadership,
        "section": find_section(request.url.path),
        "told": None,
        "with_query": partial(_with_query, request),
        **(values or {}),
    }
    text = make_environment().get_template(template).render(shown)
    return HTMLResponse(text, status.value, headers=HEADERS)


def _with_query(request: Request, **changes: Any) -> str:
    """
    Return the address of this page with another query.

    Args:
        changes: Values by name: one, a list of them, or None to leave it out.
    """
    query = request.query_params.multi_items()
    kept = [pair for pair in query if pair[0] not in changes]
    for name, value in changes.items():
        several = value if isinstance(value, list | tuple) else [value]
        kept += [(name, str(each)) for each in several if each is not None]
    # Browsers take what begins with two slashes for a host.
    path = "/" + quote(request.url.path).lstrip("/")
    return f"{path}?{urlencode(kept)}" if kept else path


def find_own_zone(context: Context) -> ZoneInfo:
    """Return the zone of the browser of whoever asks, or the installation's."""
    mine = read_preferences(context.request).mine
    return mine or load_zone(context.services.timezone)


def find_clocks(context: Context, now: datetime) -> Clocks:
    """Return the clocks that whoever asks has chosen, at *now* (aware)."""
    return make_clocks(context.services, read_preferences(context.request), now)


def find_shown_zone(context: Context) -> ZoneInfo:
    """Return the zone in which times that belong to no app are shown, and asked for."""
    return find_clocks(context, datetime.now(UTC)).find_zone()


def make_clocks(services: Services, preferences: Preferences, now: datetime) -> Clocks:
    """Return the clocks that somebody has chosen, at *now* (aware)."""
    installation = load_zone(services.timezone)
    return Clocks(now, preferences.clock, installation, preferences.mine)


@cache
def make_environment() -> jinja2.Environment:
    """Return where the templates are, and what all of them may use."""
    environment = jinja2.Environment(
        # What all pages share, and what stands beside the routes of a page.
        loader=jinja2.ChoiceLoader(
            [jinja2.PackageLoader("web"), jinja2.PackageLoader("web", "")]
        ),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {
        "Clock": Clock,
        "Role": Role,
        "SECTIONS": SECTIONS,
        "STATIC": STATIC,
        "Theme": Theme,
    }
    environment.filters |= {
        "age": _tell_age,
        "capital": capitalize,
        "count": format_count,
        "bytes": format_bytes,
        "iso": format_iso,
        "meaning": _tell_meaning,
        "on_pages": tell_on_pages,
        "json": lambda value: write_json(value, indent=2),
        "path": lambda text: quote(str(text), safe=""),
        "thousands": lambda number: f"{number:,}",
    }
    environment.tests["unread"] = lambda value: isinstance(value, Unread)
    return environment


def _tell_age(age: timedelta | float) -> str:
    """Return a length of time, or so many seconds, in words."""
    length = age if isinstance(age, timedelta) else timedelta(seconds=age)
    if timedelta(0) < length < timedelta(seconds=10):
        seconds = length.total_seconds()
        return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds:.2g} s"
    return format_age(length)


def _tell_meaning(state: str) -> str | None:
    """Return what the state of an operation means. None: it is none, but a mark."""
    return STATES[OperationState(state)] if state in set(OperationState) else None


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
    Section("/apps", "Apps", "g p"),
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


def find_address(request: Request) -> str:
    """Return where people reach this installation, as whoever asks does."""
    services: Services = request.app.state.services
    return (services.settings.web_url or str(request.base_url)).rstrip("/")


def find_section(path: str) -> Section | None:
    """Return the entry of the navigation that a page belongs to."""
    for each in SECTIONS:
        if path == each.path or (each.path != "/" and path.startswith(f"{each.path}/")):
            return each
    return None
