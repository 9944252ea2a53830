"""Backfills of an action: the list first, then progress; and who gets its mails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import quote
from uuid import UUID

from starlette.responses import Response

from actions.lookup import get_action
from actions.read_rules import find_zone
from dispatch.backfills.planning import Plan, plan_backfill
from dispatch.backfills.requests import (
    cancel_backfill,
    fetch_backfilled_occurrences,
    fetch_shown_backfill,
    start_backfill,
)
from dispatch.stored_requests import RequestState
from models.errors import MinutehandError
from models.fields.instants import format_instant
from models.requests.actions import BackfillModel, Which
from models.role import Role
from overview.recipients import fetch_recipient_part
from serving.context import Context, Operator, Viewer
from web.forms import Form, Refused, go_to, make_refused, read_number
from web.guarding import make_router
from web.query import Query
from web.questions import after_question
from web.rendering import render

router = make_router()

#: Occurrences that a list shows.
_LISTED = 100

#: How far back a backfill looks unless somebody says otherwise.
_WEEK = timedelta(days=7)


def _ask(context: Context, form: Form, uid: str) -> tuple[str, dict[str, Any]]:
    """Show which past occurrences would run."""
    found: Plan | None = None
    refused: Refused | None = None
    app, retention = context.app, context.services.settings.retention
    with context.reading() as connection:
        row = get_action(connection, uid, app=app)
        zone = find_zone(row)
        if form.get("from"):
            try:
                asked = _read(form, zone)
                found = plan_backfill(
                    connection, uid, asked, retention=retention, app=app
                )
            except MinutehandError as error:
                refused = make_refused(error)
    return "backfills/new.html", {
        "row": row,
        "zone": zone.key,
        "refused": refused,
        "plan": found,
        "Which": Which,
        "LISTED": _LISTED,
        "week": _WEEK,
        "back": f"/actions/{quote(uid, safe='')}",
    }


@after_question(router, "/actions/{uid}/backfill", _ask)
def begin(context: Operator, form: Form, uid: str) -> Response:
    """Run them after all."""
    app, retention = context.app, context.services.settings.retention
    with context.writing() as connection:
        asked = _read(form, find_zone(get_action(connection, uid, app=app)))
        backfill_id = start_backfill(
            connection, uid, asked, retention=retention, app=app
        )
    told = "The backfill has begun; live work always goes first."
    return go_to(f"/backfills/{backfill_id}", told)


def _read(form: Form, zone: Any) -> BackfillModel:
    """
    Return what a form asks for; instants without an offset are in *zone*.

    Raises:
        InvalidDocumentError: With every problem.
    """
    values: dict[str, Any] = dict(form.given("which", "note"))
    for name in ("from", "until"):
        at = form.read_instant(name, zone)
        if at is not None:
            values[name] = format_instant(at)
    for name, text in form.given("at_once", "expected_count").items():
        values[name] = read_number(text)
    return form.read(BackfillModel, "backfill", values)


@router.get("/backfills/{backfill_id}")
def show_backfill(context: Viewer, backfill_id: UUID) -> Response:
    """Show how far a backfill is."""
    query = Query(context)
    page = query.page(_LISTED)
    with context.reading() as connection:
        shown = fetch_shown_backfill(connection, backfill_id, app=context.app)
        part = fetch_backfilled_occurrences(
            connection, backfill_id, page, app=context.app
        )
        row = get_action(connection, shown.action_uid, app=context.app)
    values = {
        "shown": shown,
        "part": part,
        "row": row,
        "zone": find_zone(row).key,
        "cursor": query.find_next(part),
        "is_first": query.is_first,
        "may_cancel": shown.state is RequestState.RUNNING
        and context.caller.role >= Role.OPERATOR,
    }
    return render(context, "backfills/backfill.html", values)


def _ask_cancel(context: Context, backfill_id: UUID) -> tuple[str, dict[str, Any]]:
    """Ask before a backfill is canceled."""
    shown = context.fetch(fetch_shown_backfill, backfill_id, app=context.app)
    values = {"shown": shown, "back": f"/backfills/{backfill_id}"}
    return "backfills/cancel.html", values


@after_question(router, "/backfills/{backfill_id}/cancel", _ask_cancel)
def cancel(context: Operator, backfill_id: UUID) -> Response:
    """Cancel a backfill: what has not begun does not run."""
    context.change(cancel_backfill, backfill_id, app=context.app)
    return go_to(f"/backfills/{backfill_id}", "The backfill is canceled.")


@router.get("/actions/{uid}/recipients")
def show_recipients(context: Viewer, uid: str) -> Response:
    """Show who would get the mails of an action now, and why each is in or out."""
    query = Query(context)
    page = query.page(_LISTED)
    inside = {"in": True, "out": False}.get(query.text("who") or "")
    with context.reading() as connection:
        row = get_action(connection, uid, app=context.app)
        found = fetch_recipient_part(
            connection, uid, page, inside=inside, app=context.app
        )
    values = {
        "row": row,
        "found": found,
        "inside": inside,
        "cursor": query.find_next(found.part),
        "is_first": query.is_first,
    }
    return render(context, "recipients.html", values)
