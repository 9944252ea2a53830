"""The list of operations, and changes of many of them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from dispatch.bulk.requests import cancel_bulk, count_bulk, start_bulk
from dispatch.bulk.shown_bulk import fetch_shown_bulk
from models.database.engine import read_clock
from models.door.documents import read_model
from models.errors import InvalidDocumentError, MinutehandError, NotFoundError
from models.operation_state import LIVE_STATES
from models.paging import Page
from models.requests.bulk_changes import BulkChangeModel, BulkKind, dump_filter
from models.requests.operations import MOST_NAMED
from operations.cancel_and_retry import CHANGEABLE, OperationChange
from operations.list_operations import fetch_operations
from operations.operation_filter import OperationFilter
from operations.selecting import Counted
from overview.operations import ShownOperation, fetch_filled_part, fetch_shown_operation
from serving.context import Context, Operator, Viewer
from serving.cursors import write_cursor
from serving.refusals import find_status
from web.clocks import Clocks, format_offset
from web.forms import Form, Refused, go_to, make_refused, read_form, read_number
from web.guarding import PageRoute, takes_form
from web.operations.fetch_facets import Facets, count_facets
from web.operations.list_query import RANGE_WORDS, AskedList, read_asked
from web.preferences import read_preferences
from web.query import read_part
from web.rendering import make_clocks, render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

_PATH = "/operations"

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
    return render(
        context,
        "operations/operations.html",
        {
            "list": read_part(context, partial(_read, context)),
            "RANGE_WORDS": RANGE_WORDS,
            "is_live": context.request.query_params.get("live") == "on",
        },
    )


def _read(context: Context, connection: sa.Connection) -> _List:
    now = read_clock(connection)
    clocks = make_clocks(context.services, read_preferences(context.request), now)
    asked = read_asked(context, connection, now=now, zone=clocks.find_zone())
    part = fetch_filled_part(connection, asked.wanted, asked.page)
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


_BULK = "/operations/bulk"

#: What is named before many are changed.
_NAMED = 8

#: Parameters of the question itself; the others are those of the list.
_OWN = frozenset({"kind", "id", "all"})


@router.get(_BULK)
def ask_bulk(context: Operator) -> Response:
    """Count what would be canceled or retried, and ask."""
    kind = _read_kind(context.request.query_params.get("kind", ""))
    with context.reading() as connection:
        chosen = _choose(context, connection, kind)
        counted = _count(context, connection, kind, chosen)
        names = _name(context, connection, kind, chosen)
    values = {"kind": kind, "chosen": chosen, "names": names}
    return _render(context, counted, values, back=_find_back(context))


@router.post(_BULK)
@takes_form
def begin_bulk(context: Operator) -> Response:
    """Begin what was asked for, if the count is still the same."""
    form = read_form(context.body)
    kind = _read_kind(form.get("kind"))
    back = form.get("back")
    back = back if back.startswith("/operations") else "/operations"
    chosen = _read_chosen(form)
    try:
        asked = _read_model(kind, chosen, form)
        with context.writing() as connection:
            app = context.narrow(asked.filter.app)
            bulk_id = start_bulk(connection, asked, app=app)
    except MinutehandError as error:
        if find_status(error) is HTTPStatus.SERVICE_UNAVAILABLE:
            raise
        with context.reading() as connection:
            counted = _count(context, connection, kind, chosen)
            names = _name(context, connection, kind, chosen)
        values = {"kind": kind, "chosen": chosen, "names": names}
        return _render(context, counted, values, back=back, form=form, error=error)
    return go_to(f"{_BULK}/{bulk_id}")


@router.get(f"{_BULK}/{{bulk_id}}")
def show_bulk(context: Viewer, bulk_id: UUID) -> Response:
    """Show how far a bulk change is."""
    read = partial(fetch_shown_bulk, bulk_id=bulk_id, app=context.app)
    return render(context, "operations/bulk.html", {"bulk": read_part(context, read)})


@router.post(f"{_BULK}/{{bulk_id}}/cancel")
@takes_form
def stop_bulk(context: Operator, bulk_id: UUID) -> Response:
    """Stop a bulk change; what was done stays done."""
    with context.writing() as connection:
        cancel_bulk(connection, bulk_id, app=context.app)
    return go_to(f"{_BULK}/{bulk_id}", "Stopped. What was done stays done.")


def _read_kind(text: str) -> BulkKind:
    if text in set(OperationChange):
        return BulkKind(text)
    msg = "operations can be canceled or retried; nothing else is done to many"
    raise NotFoundError(msg)


def _find_back(context: Context) -> str:
    query = context.request.query_params.multi_items()
    kept = [pair for pair in query if pair[0] not in _OWN]
    return f"/operations?{urlencode(kept)}" if kept else "/operations"


def _choose(
    context: Context, connection: sa.Connection, kind: BulkKind
) -> dict[str, Any]:
    """Return the filter of what was asked for."""
    query = context.request.query_params
    if not query.get("all"):
        return {"ids": query.getlist("id")[:MOST_NAMED]}
    now = read_clock(connection)
    clocks = make_clocks(context.services, read_preferences(context.request), now)
    asked = read_asked(context, connection, now=now, zone=clocks.find_zone())
    if asked.problems:
        # Less would be asked for than was meant.
        raise NotFoundError(" ".join(asked.problems))
    if not asked.model.state:
        return dump_filter(asked.model)
    states = asked.wanted.states & CHANGEABLE[OperationChange(kind.value)]
    if not states:
        return {"ids": []}
    return {**dump_filter(asked.model), "state": sorted(states)}


def _read_chosen(form: Form) -> dict[str, Any]:
    try:
        chosen = json.loads(form.get("filter"))
    except (ValueError, RecursionError):
        chosen = None
    if not isinstance(chosen, dict):
        msg = "the form does not say which operations. Begin at the list again"
        raise NotFoundError(msg)
    return chosen


def _read_model(kind: BulkKind, chosen: dict[str, Any], form: Form) -> BulkChangeModel:
    document = {
        "kind": kind.value,
        "filter": chosen,
        "expected_count": read_number(form.get("expected_count")) or None,
        "note": form.get("note") or None,
    }
    return read_model(
        BulkChangeModel, json.dumps(document).encode(), noun="bulk change"
    )


def _count(
    context: Context, connection: sa.Connection, kind: BulkKind, chosen: dict[str, Any]
) -> Counted:
    document = {"kind": kind.value, "filter": chosen, "dry_run": True}
    body = json.dumps(document).encode()
    try:
        asked = read_model(BulkChangeModel, body, noun="bulk change")
    except InvalidDocumentError as error:
        raise NotFoundError(str(error)) from error
    return count_bulk(connection, asked, app=context.narrow(asked.filter.app))


def _name(
    context: Context, connection: sa.Connection, kind: BulkKind, chosen: dict[str, Any]
) -> list[str]:
    """Return the names of the first of them."""
    fit = CHANGEABLE[OperationChange(kind.value)]
    names: list[str] = []
    for id_ in chosen.get("ids", ())[: 5 * _NAMED]:
        try:
            shown = fetch_shown_operation(connection, UUID(id_), app=context.app)
        except NotFoundError:
            continue
        if shown.state in fit and len(names) < _NAMED:
            names.append(f"{shown.action_name or shown.action_uid} · {shown.app}")
    return names


def _render(
    context: Context,
    counted: Counted,
    values: dict[str, Any],
    *,
    back: str,
    form: Form | None = None,
    error: MinutehandError | None = None,
) -> Response:
    refused: Refused | None = None if error is None else make_refused(error)
    return render(
        context,
        "operations/bulk_ask.html",
        {
            **values,
            "filter_text": json.dumps(values["chosen"]),
            "counted": counted,
            "back": back,
            "form": form,
            "refused": refused,
        },
        status=HTTPStatus.OK if error is None else find_status(error),
    )
