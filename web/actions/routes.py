"""The list of scheduled actions, and its export."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import sqlalchemy as sa
from starlette.responses import Response

from actions.list_actions import Order, select_part
from actions.lookup import fetch_app
from models.errors import NotFoundError, UsageError
from models.json_form import write_json
from models.operation_state import Queue
from models.paging import Page, Part
from models.requests.actions import ActionFilterModel, ActionKind, Trouble
from models.revision import ActionState
from overview.actions import ActionWithRuns, fetch_action_part
from serving.context import Context, Viewer
from web.actions import words
from web.actions.fetch_counts import ActionCounts, count_actions, fetch_documents
from web.charts import LEGEND
from web.forms import give_file
from web.guarding import make_router
from web.query import Query, Unread, read_part
from web.rendering import render

router = make_router()

#: Actions of one part of the list, and the latest runs of each.
_SHOWN, _RUNS = 50, 20

#: The most documents of an export, and actions that are listed at a time for it.
_EXPORTED, _AT_ONCE = 2000, 200

#: What the page calls actions that one begins with, one of each kind.
STARTERS = (
    ("nightly", "Every night"),
    ("interval", "Every few minutes"),
    ("month-end", "On the last working day"),
    ("once", "Once, at an instant"),
    ("after-event", "Days after an event"),
)

#: What can be chosen from a list.
_CHOICES: Mapping[str, type[StrEnum]] = {
    "state": ActionState,
    "kind": ActionKind,
    "queue": Queue,
    "trouble": Trouble,
}

#: The parameters of the list that say which actions it has.
FILTERS = ("app", "state", "kind", "queue", "text", "trouble")


def read_filter(context: Context, query: Query) -> ActionFilterModel:
    """Return the filter that the query asks for, within what the caller may see."""
    app, text = query.text("app"), query.text("text")
    chosen = {name: query.choice(name, kind) for name, kind in _CHOICES.items()}
    try:
        own = context.narrow(app)
    except NotFoundError:
        query.note(f"There is no small app {app!r}.")
        own = context.app
    return ActionFilterModel().but(app=own, text=text, **chosen)


@router.get("/actions")
def show_actions(context: Viewer) -> Response:
    """Show the list."""
    query = Query(context)
    wanted = read_filter(context, query)
    order = query.choice("sort", Order) or Order.NAME
    page = query.page(_SHOWN)
    part = read_part(context, _fetch, wanted, page, order, query)
    # Those that were deleted are neither counted nor in trouble.
    counted = wanted if wanted.state is not ActionState.DELETED else ActionFilterModel()
    counts = read_part(context, count_actions, counted, app=context.app)
    has_filter = wanted.but(app=None) != ActionFilterModel() or query.has_any("app")
    values = {
        "counts": counts,
        "order": order,
        "is_new": not (has_filter or isinstance(counts, Unread) or counts.total),
        "filters": {name: query.text(name) for name in FILTERS if query.text(name)},
        **query.show(part),
        "verdict": _tell(counts, words.tell_verdict),
        "lead": _tell(counts, words.tell_counts, counted),
        "words": words,
        "Queue": Queue,
        "RUNS": _RUNS,
        "SHOWN": _SHOWN,
        "STARTERS": STARTERS,
        "STRIPS": LEGEND,
        "States": ActionState,
    }
    return render(context, "actions/actions.html", values)


def _fetch(
    connection: sa.Connection,
    wanted: ActionFilterModel,
    page: Page,
    order: Order,
    query: Query,
) -> Part[ActionWithRuns]:
    try:
        return fetch_action_part(connection, wanted, page, order=order, runs=_RUNS)
    except NotFoundError as error:  # the app
        query.note(str(error))
        return Part((), None)


def _tell(counts: ActionCounts | Unread, tell: Any, *more: object) -> str | None:
    return None if isinstance(counts, Unread) else tell(counts, *more)


@router.get("/actions.json")
def export_actions(context: Viewer) -> Response:
    """Return the documents of what the list shows, or of what is chosen in it."""
    query = Query(context)
    wanted = read_filter(context, query)
    if chosen := query.all("uid"):
        wanted = wanted.but(uids=tuple(chosen))
    found = context.fetch(_collect, wanted)
    # As `actions post` and POST /actions/batch take it.
    return give_file("actions.json", f"{write_json(found, indent=2)}\n")


def _collect(
    connection: sa.Connection, wanted: ActionFilterModel
) -> list[Mapping[str, Any]]:
    """
    Return the documents of all that match, by small app and name.

    Raises:
        NotFoundError: No such small app.
        UsageError: They are too many for one file: a part of them would look like all.
    """
    if wanted.app is not None:
        fetch_app(connection, wanted.app)
    uids: list[str] = []
    page: Page | None = Page(_AT_ONCE)
    while page is not None:
        part = select_part(connection, wanted, page)
        uids += [row.uid for row in part.entries]
        if len(uids) > _EXPORTED:
            raise UsageError(
                f"more than {_EXPORTED:,} actions match, which is too much for one"
                " file. Filter by app or by text"
            )
        page = None if part.following is None else Page(_AT_ONCE, part.following)
    documents = fetch_documents(connection, uids)
    return [documents[uid] for uid in uids if uid in documents]
