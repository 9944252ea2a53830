"""Change many actions or operations: the count and names first, then how far it is."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa
from starlette.responses import Response

from actions.list_actions import select_part
from dispatch.bulk.requests import cancel_bulk, count_bulk, fetch_shown_bulk, start_bulk
from dispatch.operation_filters import resolve_filter
from dispatch.stored_requests import RequestState
from models.database.engine import read_clock
from models.door.json_text import decode_json
from models.errors import (
    ForbiddenError,
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    UnreachableError,
    UsageError,
)
from models.fields.instants import format_instant
from models.paging import Page
from models.requests.bulk_changes import BulkChangeModel, BulkKind, dump_filter
from models.requests.operations import MOST_NAMED, OperationFilterModel
from models.role import Role
from models.units import format_count
from operations.cancel_and_retry import CHANGEABLE, OperationChange
from overview.operations import fetch_shown_operations
from serving.context import Context, Operator, Viewer
from web.actions.routes import FILTERS
from web.forms import Form, go_to, is_own_path, make_refused, read_number
from web.guarding import make_router
from web.operations.list_query import read_asked
from web.questions import after_question
from web.rendering import find_shown_zone, render

router = make_router()

#: Actions or operations that are named before something is done to them.
_NAMED = 20


class BulkWords(NamedTuple):
    """What a change is called: to do, going on, and done; and what it means."""

    act: str
    doing: str
    done: str
    told: str


_WORDS = {
    BulkKind.PAUSE: BulkWords(
        *("Pause", "Pausing", "paused"),
        "What comes due during the pause is not recorded and never runs; a backfill can"
        " run it later.",
    ),
    BulkKind.RESUME: BulkWords(
        *("Resume", "Resuming", "resumed"),
        "They run again from now on. What came due during the pause does not run by"
        " this.",
    ),
    BulkKind.RUN: BulkWords(
        *("Run", "Running", "run"),
        "Each runs once, now; its schedule does not move. Those that are live beside"
        " overlap skip, or wait for events of a user, are left as they are.",
    ),
    BulkKind.CANCEL: BulkWords(
        *("Cancel", "Canceling", "canceled"),
        "They are final at once; workers that run them stop at their next progress"
        " point.",
    ),
    BulkKind.RETRY: BulkWords(
        *("Retry", "Retrying", "retried"),
        "They run again under the same ids, from the first step that has not succeeded."
        " Nobody gets a mail twice.",
    ),
}


def _ask(context: Context, form: Form) -> tuple[str, dict[str, Any]]:
    """Count and name what would be changed, and ask."""
    given = form.get("change")
    kind = BulkKind(given) if given in set(BulkKind) else None
    back = form.get("back")
    values: dict[str, Any] = {
        "kind": kind,
        "words": _WORDS.get(kind) if kind else None,
        "zone": find_shown_zone(context).key,
        "back": back if is_own_path(back) else _name_list(kind),
    }
    try:
        with context.reading() as connection:
            chosen = _find_chosen(context, connection, form, kind)
            asked = _read_change(form, chosen)
            app = context.narrow(asked.filter.app)
            counted = count_bulk(connection, asked, app=app)
            names = _name_some(connection, asked, app)
    except (ForbiddenError, UnreachableError):
        raise  # nothing else that is chosen would help
    except MinutehandError as error:
        values |= {"counted": None, "refused": make_refused(error)}
        return "bulk/new.html", values
    values |= {
        "counted": counted,
        "names": names,
        "what": format_count(counted.total, *_NOUNS[asked.kind.is_of_operations]),
        "filter_text": json.dumps(chosen),
    }
    return "bulk/new.html", values


@after_question(router, "/bulk/new", _ask)
def begin(context: Operator, form: Form) -> Response:
    """Begin what was asked for, if the count is still the same."""
    chosen = _read_chosen(form)
    until = form.read_instant("until", find_shown_zone(context))
    asked = _read_change(
        form,
        chosen,
        expected_count=read_number(form.get("expected_count")) or None,
        note=form.get("note") or None,
        until=None if until is None else format_instant(until),
    )
    bulk_id = context.change(start_bulk, asked, app=context.narrow(asked.filter.app))
    return go_to(f"/bulk/{bulk_id}", "It has begun, and goes on in the background.")


_NOUNS = {True: ("operation", "operations"), False: ("action", "actions")}


def _name_list(kind: BulkKind | None) -> str:
    return "/operations" if kind and kind.is_of_operations else "/actions"


def _read_change(form: Form, chosen: dict[str, Any], **typed: Any) -> BulkChangeModel:
    """
    Return the change of what is chosen, a filter as JSON.

    Args:
        typed: Beside it. Nothing: it is only asked about, and whatever was typed wrong
            can be asked for again.

    Raises:
        InvalidDocumentError: As the API would, and with its words.
    """
    values = {"kind": form.get("change"), "filter": chosen, "dry_run": not typed}
    return form.read(BulkChangeModel, "bulk change", values | typed)


def _find_chosen(
    context: Context, connection: sa.Connection, form: Form, kind: BulkKind | None
) -> dict[str, Any]:
    """
    Return the filter of what a list asks about, or of the question that it led to.

    Raises:
        UsageError: A part of the list's filter cannot be read: less would be asked for
            than was meant; or nothing is chosen.
    """
    if form.has("filter"):
        return _read_chosen(form)
    if kind and kind.is_of_operations:
        if form.has("all"):
            return _choose_operations(context, connection, OperationChange(kind))
        return {"ids": form.get_all("id")[:MOST_NAMED]}
    if form.has("all"):
        return form.given(*FILTERS)
    chosen = form.get_all("uid")
    if not chosen:
        raise UsageError("Nothing is chosen. Check some actions, or all.")
    return {"uids": chosen}


def _choose_operations(
    context: Context, connection: sa.Connection, change: OperationChange
) -> dict[str, Any]:
    now = read_clock(connection)
    zone = find_shown_zone(context)
    asked = read_asked(context, connection, now=now, zone=zone)
    if asked.problems:
        raise UsageError(" ".join(asked.problems))
    if not asked.model.state:
        return dump_filter(asked.model)
    states = asked.wanted.states & CHANGEABLE[change]
    if not states:
        return {"ids": []}
    return {**dump_filter(asked.model), "state": sorted(states)}


def _read_chosen(form: Form) -> dict[str, Any]:
    try:
        chosen = decode_json(form.get("filter"))
    except InvalidDocumentError:
        chosen = None
    if not isinstance(chosen, dict):
        msg = "the form does not say what is chosen. Begin at the list again"
        raise NotFoundError(msg)
    return chosen


def _name_some(
    connection: sa.Connection, asked: BulkChangeModel, app: str | None
) -> list[str]:
    """Return the names of the first that would be changed."""
    if isinstance(asked.filter, OperationFilterModel):
        wanted = resolve_filter(connection, asked.filter, app=app)
        states = wanted.states or CHANGEABLE[OperationChange(asked.kind)]
        wanted = replace(wanted, states=states)
        found = fetch_shown_operations(connection, wanted, limit=_NAMED, in_full=False)
        return [f"{each.action_name or each.action_uid} · {each.app}" for each in found]
    part = select_part(connection, asked.filter.but(app=app), Page(_NAMED))
    return [f"{row.name} ({row.app})" for row in part.entries]


# -------------------------------------------------------------------- how far it is


@router.get("/bulk/{bulk_id}")
def show_bulk(context: Viewer, bulk_id: UUID) -> Response:
    """Show how far a bulk change is."""
    shown = context.fetch(fetch_shown_bulk, bulk_id, app=context.app)
    is_running = shown.state is RequestState.RUNNING
    values = {
        "shown": shown,
        "words": _WORDS[shown.kind],
        "list_path": _name_list(shown.kind),
        "may_cancel": is_running and context.caller.role >= Role.OPERATOR,
    }
    return render(context, "bulk/bulk.html", values)


def _ask_cancel(context: Context, bulk_id: UUID) -> tuple[str, dict[str, Any]]:
    """Ask before a bulk change is stopped."""
    shown = context.fetch(fetch_shown_bulk, bulk_id, app=context.app)
    return "bulk/cancel.html", {"shown": shown, "back": f"/bulk/{bulk_id}"}


@after_question(router, "/bulk/{bulk_id}/cancel", _ask_cancel)
def cancel(context: Operator, bulk_id: UUID) -> Response:
    """Stop a bulk change; what was done stays done."""
    context.change(cancel_bulk, bulk_id, app=context.app)
    return go_to(f"/bulk/{bulk_id}", "It is stopped; what was done stays done.")
