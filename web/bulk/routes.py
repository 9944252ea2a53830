"""Change many actions or operations: the count and names first, then how far it is."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.list_actions import select_part
from dispatch.bulk.requests import (
    cancel_bulk,
    count_bulk,
    fetch_shown_bulk,
    start_bulk,
)
from dispatch.stored_requests import RequestState
from models.database.engine import read_clock
from models.door.json_text import decode_json
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
)
from models.fields.instants import format_instant
from models.fields.zone import load_zone
from models.paging import Page
from models.requests.actions import ActionFilterModel
from models.requests.bulk_changes import BulkChangeModel, BulkKind, dump_filter
from models.requests.operations import MOST_NAMED
from models.role import Role
from operations.cancel_and_retry import CHANGEABLE, OperationChange
from overview.operations import fetch_shown_operation
from serving.context import Context, Operator, Viewer
from web.actions.routes import FILTERS
from web.forms import Form, go_to, is_own_path, make_refused, read_number
from web.guarding import PageRoute
from web.operations.list_query import read_asked
from web.preferences import read_preferences
from web.questions import after_question
from web.rendering import make_clocks, render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Actions and operations that are named before something is done to them.
_ACTIONS_NAMED, _OPERATIONS_NAMED = 20, 8

#: What each change is called: on its button, while it goes on, and when it is done.
_WORDS = {
    BulkKind.PAUSE: ("Pause", "Pausing", "paused"),
    BulkKind.RESUME: ("Resume", "Resuming", "resumed"),
    BulkKind.RUN: ("Run", "Running", "run"),
    BulkKind.CANCEL: ("Cancel", "Canceling", "canceled"),
    BulkKind.RETRY: ("Retry", "Retrying", "retried"),
}


def _begin(context: Context, asked: BulkChangeModel) -> Response:
    with context.writing() as connection:
        bulk_id = start_bulk(connection, asked, app=context.narrow(asked.filter.app))
    return go_to(f"/bulk/{bulk_id}", "It has begun, and goes on in the background.")


def _read_change(
    form: Form,
    kind: str,
    chosen: dict[str, Any],
    *,
    until: datetime | None = None,
    dry_run: bool = False,
) -> BulkChangeModel:
    """
    Return the change of what is chosen, a filter as JSON.

    Raises:
        InvalidDocumentError: As the API would, and with its words.
    """
    number = None if dry_run else read_number(form.get("expected_count"))
    values: dict[str, Any] = {
        "kind": kind,
        "filter": chosen,
        "dry_run": dry_run,
        "expected_count": number or None,
        "note": form.get("note") or None,
    }
    if until is not None:
        values["until"] = format_instant(until)
    return form.read(BulkChangeModel, "bulk change", values)


# ----------------------------------------------------------------------- actions


def _ask_actions(context: Context, form: Form) -> tuple[str, dict[str, Any]]:
    """Ask before many actions are changed."""
    counted = refused = None
    names: list[str] = []
    try:
        asked = _read_of_actions(context, form, dry_run=True)
        if not isinstance(asked.filter, ActionFilterModel):
            problem = Problem("", "This page changes actions.", "")
            raise InvalidDocumentError((problem,))
        with context.reading() as connection:
            app = context.narrow(asked.filter.app)
            counted = count_bulk(connection, asked, app=app)
            wanted = asked.filter.but(app=app)
            part = select_part(connection, wanted, Page(_ACTIONS_NAMED))
            names = [f"{row.name} ({row.app})" for row in part.entries]
    except MinutehandError as error:
        refused = make_refused(error)
    kind, back = form.get("kind_of_change"), form.get("back")
    return "bulk/actions.html", {
        "refused": refused,
        "counted": counted,
        "names": names,
        "verb": _WORDS[BulkKind(kind)][0] if kind in set(BulkKind) else "Change",
        "is_pause": kind == BulkKind.PAUSE,
        "is_run": kind == BulkKind.RUN,
        "zone": context.services.timezone,
        "back": back if is_own_path(back) else "/actions",
        "kept": [
            (name, value)
            for name, value in form.fields
            if name in {*FILTERS, "uid", "all", "kind_of_change", "back"}
        ],
    }


@after_question(router, "/bulk/new", _ask_actions)
def begin(context: Operator, form: Form) -> Response:
    """Begin what was asked for, if the count is still the same."""
    return _begin(context, _read_of_actions(context, form))


def _read_of_actions(
    context: Context, form: Form, *, dry_run: bool = False
) -> BulkChangeModel:
    """
    Return what a form asks for.

    Raises:
        InvalidDocumentError: Nothing is chosen, or what is makes no sense.
    """
    chosen: dict[str, Any] = {
        name: form.get(name) for name in FILTERS if form.get(name)
    }
    if not form.has("all"):
        chosen = {"uids": form.get_all("uid")}
        if not chosen["uids"]:
            problem = Problem("", "Nothing is chosen.", "Check some actions, or all.")
            raise InvalidDocumentError((problem,))
    until = form.read_instant("until", load_zone(context.services.timezone))
    kind = form.get("kind_of_change")
    return _read_change(form, kind, chosen, until=until, dry_run=dry_run)


# -------------------------------------------------------------------- operations


def _ask_operations(context: Context, form: Form) -> tuple[str, dict[str, Any]]:
    """Count what would be canceled or retried, and ask."""
    kind = _read_kind(form)
    with context.reading() as connection:
        if form.has("filter"):
            chosen, back = _read_chosen(form), form.get("back")
        else:
            chosen = _choose(context, connection, kind)
            back = _find_back(context)
        try:
            asked = _read_change(Form(), kind, chosen, dry_run=True)
        except InvalidDocumentError as error:
            raise NotFoundError(str(error)) from error
        counted = count_bulk(connection, asked, app=context.narrow(asked.filter.app))
        names = _name(context, connection, kind, chosen)
    return "bulk/operations.html", {
        "kind": kind,
        "names": names,
        "filter_text": json.dumps(chosen),
        "counted": counted,
        "back": back if back.startswith("/operations") else "/operations",
    }


@after_question(router, "/operations/bulk", _ask_operations)
def begin_of_operations(context: Operator, form: Form) -> Response:
    """Begin what was asked for, if the count is still the same."""
    return _begin(context, _read_change(form, _read_kind(form), _read_chosen(form)))


def _read_kind(form: Form) -> OperationChange:
    if form.get("kind") in set(OperationChange):
        return OperationChange(form.get("kind"))
    msg = "operations can be canceled or retried; nothing else is done to many"
    raise NotFoundError(msg)


def _find_back(context: Context) -> str:
    """Return the list: its parameters are all but those of the question itself."""
    query = context.request.query_params.multi_items()
    kept = [pair for pair in query if pair[0] not in {"kind", "id", "all"}]
    return f"/operations?{urlencode(kept)}" if kept else "/operations"


def _choose(
    context: Context, connection: sa.Connection, kind: OperationChange
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
    states = asked.wanted.states & CHANGEABLE[kind]
    if not states:
        return {"ids": []}
    return {**dump_filter(asked.model), "state": sorted(states)}


def _read_chosen(form: Form) -> dict[str, Any]:
    try:
        chosen = decode_json(form.get("filter"))
    except InvalidDocumentError:
        chosen = None
    if not isinstance(chosen, dict):
        msg = "the form does not say which operations. Begin at the list again"
        raise NotFoundError(msg)
    return chosen


def _name(
    context: Context,
    connection: sa.Connection,
    kind: OperationChange,
    chosen: dict[str, Any],
) -> list[str]:
    """Return the names of the first of them."""
    names: list[str] = []
    for id_ in chosen.get("ids", ())[: 5 * _OPERATIONS_NAMED]:
        try:
            shown = fetch_shown_operation(connection, UUID(id_), app=context.app)
        except NotFoundError:
            continue
        if shown.state in CHANGEABLE[kind] and len(names) < _OPERATIONS_NAMED:
            names.append(f"{shown.action_name or shown.action_uid} · {shown.app}")
    return names


# -------------------------------------------------------------------- how far it is


@router.get("/bulk/{bulk_id}")
def show_bulk(context: Viewer, bulk_id: UUID) -> Response:
    """Show how far a bulk change is."""
    with context.reading() as connection:
        shown = fetch_shown_bulk(connection, bulk_id, app=context.app)
    _, doing, done = _WORDS[shown.kind]
    is_running = shown.state is RequestState.RUNNING
    values = {
        "shown": shown,
        "doing": doing,
        "done": done,
        "may_cancel": is_running and context.caller.role >= Role.OPERATOR,
    }
    return render(context, "bulk/bulk.html", values)


def _ask_cancel(context: Context, bulk_id: UUID) -> tuple[str, dict[str, Any]]:
    """Ask before a bulk change is stopped."""
    with context.reading() as connection:
        shown = fetch_shown_bulk(connection, bulk_id, app=context.app)
    return "bulk/cancel.html", {"shown": shown, "back": f"/bulk/{bulk_id}"}


@after_question(router, "/bulk/{bulk_id}/cancel", _ask_cancel)
def cancel(context: Operator, bulk_id: UUID) -> Response:
    """Stop a bulk change; what was done stays done."""
    with context.writing() as connection:
        cancel_bulk(connection, bulk_id, app=context.app)
    return go_to(f"/bulk/{bulk_id}", "It is stopped; what was done stays done.")
