"""Pause, resume or run many actions: the count and names first, then how far it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.list_actions import select_part
from dispatch.bulk.requests import cancel_bulk, count_bulk, start_bulk
from dispatch.bulk.shown_bulk import BulkState, fetch_shown_bulk
from models.door.documents import read_model
from models.errors import InvalidDocumentError, MinutehandError, Problem, RuleError
from models.fields.instants import format_instant, parse_instant
from models.fields.zone import load_zone
from models.json_form import write_json
from models.paging import Page
from models.requests.actions import ActionFilterModel
from models.requests.bulk_changes import BulkChangeModel, BulkKind
from operations.selecting import Counted
from serving.access.callers import Role
from serving.context import Context, Operator, Viewer
from web.actions.routes import FILTERS
from web.forms import Form, Refused, go_to, is_own_path, make_refused, read_form
from web.guarding import PageRoute, takes_form
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Names that are shown before something is done to them.
_NAMED = 20

#: What each change is called: on its button, and when it is done.
_WORDS = {
    BulkKind.PAUSE: ("Pause", "paused"),
    BulkKind.RESUME: ("Resume", "resumed"),
    BulkKind.RUN: ("Run", "run"),
}


@router.get("/bulk/new")
def ask(context: Operator) -> Response:
    """Ask before many actions are changed."""
    form = Form(tuple(context.request.query_params.multi_items()))
    return _show(context, form)


@router.post("/bulk/new")
@takes_form
def begin(context: Operator) -> Response:
    """Change them, in the background."""
    form = read_form(context.body)
    try:
        asked = _read(context, form)
        with context.writing() as connection:
            bulk_id = start_bulk(
                connection, asked, app=context.narrow(asked.filter.app)
            )
    except MinutehandError as error:
        return _show(context, form, make_refused(error))
    return go_to(f"/bulk/{bulk_id}", "It has begun, and goes on in the background.")


def _read(context: Context, form: Form, *, dry_run: bool = False) -> BulkChangeModel:
    """
    Return the change that a form asks for: of what is checked, or of all that match.

    Raises:
        InvalidDocumentError: With every problem.
    """
    chosen: dict[str, Any] = {
        name: form.get(name) for name in FILTERS if form.get(name)
    }
    if not form.has("all"):
        chosen = {"uids": form.get_all("uid")}
        if not chosen["uids"]:
            problem = Problem("", "Nothing is chosen.", "Check some actions, or all.")
            raise InvalidDocumentError((problem,))
    values: dict[str, Any] = {
        "kind": form.get("kind_of_change"),
        "filter": chosen,
        "dry_run": dry_run,
    }
    if form.get("note"):
        values["note"] = form.get("note")
    if form.get("until"):
        zone = load_zone(context.services.timezone)
        try:
            at = parse_instant(form.get("until"), zone)
        except RuleError as error:
            raise InvalidDocumentError((Problem("/until", str(error), ""),)) from None
        values["until"] = format_instant(at)
    expected = form.get("expected_count")
    if expected.isdecimal() and not dry_run:
        values["expected_count"] = int(expected[:9])
    return read_model(BulkChangeModel, write_json(values).encode(), noun="bulk change")


def _show(context: Context, form: Form, refused: Refused | None = None) -> Response:
    counted: Counted | None = None
    names: Sequence[str] = ()
    back = form.get("back")
    kind = form.get("kind_of_change")
    try:
        asked = _read(context, form, dry_run=True)
        if not isinstance(asked.filter, ActionFilterModel):
            problem = Problem("", "This page changes actions.", "")
            raise InvalidDocumentError((problem,))
        with context.reading() as connection:
            app = context.narrow(asked.filter.app)
            counted = count_bulk(connection, asked, app=app)
            names = _fetch_names(connection, asked.filter.but(app=app))
    except MinutehandError as error:
        refused = refused or make_refused(error)
    known = kind in set(BulkKind) and BulkKind(kind) in _WORDS
    verb, done = _WORDS[BulkKind(kind)] if known else ("Change", "changed")
    values = {
        "form": form,
        "of": refused,
        "counted": counted,
        "names": names,
        "verb": verb,
        "done": done,
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
    return render(context, "bulk/new.html", values, refused=refused)


def _fetch_names(connection: sa.Connection, wanted: ActionFilterModel) -> Sequence[str]:
    """Return the names of the first of them."""
    part = select_part(connection, wanted, Page(_NAMED))
    return [f"{row.name} ({row.app})" for row in part.entries]


@router.get("/bulk/{bulk_id}")
def show_bulk(context: Viewer, bulk_id: UUID) -> Response:
    """Show how far a bulk change is."""
    with context.reading() as connection:
        shown = fetch_shown_bulk(connection, bulk_id, app=context.app)
    values = {
        "shown": shown,
        "over": shown.done + sum(shown.refused.values()),
        "may_cancel": shown.state is BulkState.RUNNING
        and context.caller.role >= Role.OPERATOR,
    }
    return render(context, "bulk/bulk.html", values)


@router.get("/bulk/{bulk_id}/cancel")
def ask_cancel(context: Operator, bulk_id: UUID) -> Response:
    """Ask before a bulk change is stopped."""
    return _show_cancel(context, bulk_id)


@router.post("/bulk/{bulk_id}/cancel")
@takes_form
def cancel(context: Operator, bulk_id: UUID) -> Response:
    """Stop a bulk change; what it has done stays done."""
    try:
        with context.writing() as connection:
            cancel_bulk(connection, bulk_id, app=context.app)
    except MinutehandError as error:
        return _show_cancel(context, bulk_id, make_refused(error))
    return go_to(f"/bulk/{bulk_id}", "It is stopped; what was done stays done.")


def _show_cancel(
    context: Context, bulk_id: UUID, refused: Refused | None = None
) -> Response:
    with context.reading() as connection:
        shown = fetch_shown_bulk(connection, bulk_id, app=context.app)
    values = {"shown": shown, "of": refused, "back": f"/bulk/{bulk_id}"}
    return render(context, "bulk/cancel.html", values, refused=refused)
