"""The data of a small app: versions and columns, refresh, publish, roll back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.responses import Response

from dispatch.refresh_now import refresh_now
from models.errors import MinutehandError
from models.paging import Page
from models.requests.apps import MoveRequestModel, RefreshRequestModel
from operations.publish_now import Moved, publish_now, roll_back_now
from overview.apps.data import DataDomain, fetch_detailed_domain, fetch_domain_part
from serving.context import Context, Editor, Viewer
from web.forms import go_to, make_refused, read_form, read_number
from web.guarding import PageRoute, takes_form
from web.query import Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Domains that are asked about at a time; a small app rarely has as many.
_MOST = 200


@router.get("/apps/{app}/data/{domain}")
def show_domain(context: Viewer, app: str, domain: str) -> Response:
    """Show a domain: its versions, columns, and what is staged but not live."""
    context.own(app)
    workspace = context.services.settings.workspace
    found = read_part(
        context, lambda c: fetch_detailed_domain(c, app, domain, workspace=workspace)
    )
    columns = {}
    if not isinstance(found, Unread):
        for side, listed in (
            ("staged", found.staged_columns),
            ("live", found.live_columns),
        ):
            columns[side] = {each.name: each.type for each in listed or ()}
    values = {"app": app, "name": domain, "found": found, "columns": columns}
    return render(context, "data/domain.html", values)


@router.get("/apps/{app}/refresh")
def ask_refresh(context: Editor, app: str) -> Response:
    """Ask before data are refreshed."""
    return _ask(context, app, "refresh", _read_names(context))


@router.post("/apps/{app}/refresh")
@takes_form
def refresh(context: Editor, app: str) -> Response:
    """Have a worker read domains from their sources."""
    context.own(app)
    form = read_form(context.body)
    names = form.get_all("domain")
    try:
        values = {"domains": names or None, "force": form.has("force")}
        asked = form.read(RefreshRequestModel, "refresh", values)
        with context.writing() as connection:
            begun = refresh_now(
                connection,
                app,
                asked.domains,
                by=context.caller.name,
                force=asked.force,
            )
    except MinutehandError as error:
        return _ask(context, app, "refresh", names, error)
    return go_to(f"/operations/{begun.operation_id}", "The refresh is recorded.")


@router.get("/apps/{app}/publish")
def ask_publish(context: Editor, app: str) -> Response:
    """Ask before staged versions become live."""
    return _ask(context, app, "publish", _read_names(context))


@router.post("/apps/{app}/publish")
@takes_form
def publish(context: Editor, app: str) -> Response:
    """Make the staged versions live that were seen."""
    return _move(context, app, "publish", publish_now, "Published")


@router.get("/apps/{app}/rollback")
def ask_rollback(context: Editor, app: str) -> Response:
    """Ask before former versions become live again."""
    return _ask(context, app, "rollback", _read_names(context))


@router.post("/apps/{app}/rollback")
@takes_form
def roll_back(context: Editor, app: str) -> Response:
    """Make the former versions live again that were seen."""
    return _move(context, app, "rollback", roll_back_now, "Rolled back")


def _read_names(context: Context) -> list[str]:
    return context.request.query_params.getlist("domain")[:_MOST]


def _ask(
    context: Context,
    app: str,
    act: str,
    names: list[str],
    error: MinutehandError | None = None,
) -> Response:
    """Show the domains that are meant, and which version each would have."""
    context.own(app)
    with context.reading() as connection:
        part = fetch_domain_part(connection, app, Page(_MOST))
    chosen = [each for each in part.entries if not names or each.name in names]
    values = {
        "app": app,
        "act": act,
        "names": names,
        "chosen": [each for each in chosen if _find_target(act, each) is not None],
        "targets": {each.name: _find_target(act, each) for each in chosen},
        "refused": None if error is None else make_refused(error),
    }
    return render(context, "data/change.html", values, refused=error)


def _find_target(act: str, domain: DataDomain) -> int | None:
    """Return the version that would be live; 0: the next one. None: nothing moves."""
    match act:
        case "publish":
            return domain.staged.number if domain.is_changed and domain.staged else None
        case "rollback":
            return None if domain.former is None else domain.former.number
        case _:
            return 0


def _move(
    context: Context, app: str, act: str, move: Callable[..., Moved], done: str
) -> Response:
    context.own(app)
    form = read_form(context.body)
    pairs = [each.rpartition("=") for each in form.get_all("version")]
    names = [name for name, _, _ in pairs]
    try:
        values: dict[str, Any] = {
            "data": True,
            "domains": names,
            "expected": {name: read_number(number) for name, _, number in pairs},
        }
        asked = form.read(MoveRequestModel, act, values)
        workspace = context.services.settings.workspace
        with context.writing() as connection:
            moved = move(connection, app, asked, workspace=workspace)
    except MinutehandError as error:
        return _ask(context, app, act, names, error)
    told = ", ".join(f"{each.name} (version {each.after})" for each in moved.moves)
    back = f"/apps/{quote(app)}"
    if len(names) == 1:
        back += f"/data/{quote(names[0], safe='')}"
    return go_to(back, f"{done}: {told}." if told else "It was live already.")
