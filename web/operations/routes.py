"""The list of operations, and changes of many of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from starlette.responses import Response

from models.database.engine import read_clock
from models.operation_state import LIVE_STATES
from models.paging import Page
from operations.list_operations import fetch_operations
from operations.operation_filter import OperationFilter
from overview.operations import ShownOperation, fetch_shown_part
from serving.context import Context, Viewer
from serving.cursors import write_cursor
from web.guarding import make_router
from web.operations.fetch_facets import Facets, count_facets
from web.operations.list_query import RANGE_WORDS, AskedList, read_asked
from web.preferences import Clocks, format_offset
from web.query import read_part
from web.rendering import find_clocks, render

router = make_router()

_PATH = "/operations"

#: What is counted above the list: what needs a look, then what is over or under way.
MARKS = (
    *("failed", "missed", "uncertain", "skipped", "canceled"),
    *("pending", "queued", "running", "retrying", "succeeded"),
)

#: How often the list looks for more operations while its part is not full.
_LOOKS = 8

#: Operations that are not final and older than the list, counted at most.
_EARLIER = 100

#: Apps that can be chosen: those with the most operations.
_APPS = 100


@dataclass(frozen=True, slots=True)
class _List:
    """
    A part of the list, as the page shows it.

    Args:
        earlier: Operations that are not final and were recorded before the list begins,
            _EARLIER at most.
        offset: The offset of most of its times; the others tell their own.
    """

    asked: AskedList
    rows: tuple[ShownOperation, ...]
    cursor: str | None
    facets: Facets
    earlier: int
    offset: str

    @property
    def apps(self) -> list[tuple[str, int]]:
        """The apps that can be chosen, with how many match, as far as is known."""
        chosen = self.asked.given.get("app")
        found = list(self.facets.apps.items())[:_APPS]
        if chosen is not None and chosen not in dict(found):
            found.append((chosen, 0))
        return found


@router.get(_PATH)
def show_operations(context: Viewer) -> Response:
    """List operations, the latest recorded first."""
    values = {
        "list": read_part(context, _read, context),
        "MARKS": MARKS,
        "RANGE_WORDS": RANGE_WORDS,
        "is_live": context.request.query_params.get("live") == "on",
    }
    return render(context, "operations/operations.html", values)


def _read(connection: sa.Connection, context: Context) -> _List:
    now = read_clock(connection)
    clocks = find_clocks(context, now)
    asked = read_asked(context, connection, now=now, zone=clocks.find_zone())
    part = fetch_shown_part(
        connection, asked.wanted, asked.page, with_steps=False, looks=_LOOKS
    )
    following = part.following
    return _List(
        asked=asked,
        rows=tuple(part.entries),
        cursor=None if following is None else write_cursor(following, context.request),
        facets=count_facets(connection, asked.wanted),
        earlier=_count_earlier(connection, asked),
        offset=_find_offset(part.entries, clocks),
    )


def _count_earlier(connection: sa.Connection, asked: AskedList) -> int:
    """Count what is not final, and so old that the list does not reach it."""
    begin = asked.wanted.recorded_since
    if begin is None or asked.is_narrowed or asked.wanted.since is not None:
        return 0
    live = OperationFilter(
        app=asked.wanted.app, states=LIVE_STATES, recorded_until=begin
    )
    return len(fetch_operations(connection, live, Page(_EARLIER)).entries)


def _find_offset(rows: Iterable[ShownOperation], clocks: Clocks) -> str:
    """Return the offset of most of the times, for the head of the column."""
    offsets = Counter(
        format_offset(row.occurrence.astimezone(clocks.find_zone(row.zone)))
        for row in rows
    )
    return offsets.most_common(1)[0][0] if offsets else ""
