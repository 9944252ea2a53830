"""The data of a small app: versions and columns, refresh, publish, roll back."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from dispatch.manual_runs import refresh_now
from models.paging import Page
from models.requests.apps import MoveRequestModel, RefreshRequestModel
from operations.publish_now import Moved, publish_now, roll_back_now
from overview.data import DataDomain, fetch_detailed_domain, fetch_domain_part
from serving.context import Context, Editor, Viewer
from web.forms import Form, go_to, read_number
from web.guarding import make_router
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import render

router = make_router()

#: Domains that are asked about at a time; a small app rarely has as many.
_MOST = 200


@router.get("/apps/{app}/data/{domain}")
def show_domain(context: Viewer, app: str, domain: str) -> Response:
    """Show a domain: its versions, columns, and what is staged but not live."""
    workspace = context.services.settings.workspace
    found = read_part(context, fetch_detailed_domain, app, domain, workspace=workspace)
    columns = {}
    if not isinstance(found, Unread):
        both = {"staged": found.staged_columns, "live": found.live_columns}
        for side, listed in both.items():
            columns[side] = {each.name: each.type for each in listed or ()}
    values = {"app": app, "name": domain, "found": found, "columns": columns}
    return render(context, "data/domain.html", values)


def _ask(
    act: str, context: Context, form: Form, app: str
) -> tuple[str, dict[str, Any]]:
    """Show the domains that are meant, and which version each would have."""
    names = [*form.get_all("domain"), *(name for name, _ in _read_versions(form))]
    part = context.fetch(fetch_domain_part, app, Page(_MOST))
    chosen = [each for each in part.entries if not names or each.name in names]
    return "data/change.html", {
        "app": app,
        "act": act,
        "names": names,
        "chosen": [each for each in chosen if _find_target(act, each) is not None],
        "targets": {each.name: _find_target(act, each) for each in chosen},
    }


def _find_target(act: str, domain: DataDomain) -> int | None:
    """Return the version that would be live; 0: the next one. None: nothing moves."""
    match act:
        case "publish":
            return domain.staged.number if domain.is_changed and domain.staged else None
        case "rollback":
            return None if domain.former is None else domain.former.number
        case _:
            return 0


@after_question(router, "/apps/{app}/refresh", partial(_ask, "refresh"))
def refresh(context: Editor, form: Form, app: str) -> Response:
    """Have a worker read domains from their sources."""
    names = form.get_all("domain") or None
    values = {"domains": names, "force": form.has("force")}
    asked = form.read(RefreshRequestModel, "refresh", values)
    begun = context.change(
        refresh_now, app, asked.domains, by=context.caller.name, force=asked.force
    )
    return go_to(f"/operations/{begun.operation_id}", "The refresh is recorded.")


@after_question(router, "/apps/{app}/publish", partial(_ask, "publish"))
def publish(context: Editor, form: Form, app: str) -> Response:
    """Make the staged versions live that were seen."""
    return _move(context, form, app, publish_now, "Published")


@after_question(router, "/apps/{app}/rollback", partial(_ask, "rollback"))
def roll_back(context: Editor, form: Form, app: str) -> Response:
    """Make the former versions live again that were seen."""
    return _move(context, form, app, roll_back_now, "Rolled back")


def _read_versions(form: Form) -> list[tuple[str, str]]:
    """Return the domains of a form, and which version of each was seen."""
    pairs = (each.rpartition("=") for each in form.get_all("version"))
    return [(name, number) for name, _, number in pairs]


def _move(
    context: Context, form: Form, app: str, move: Callable[..., Moved], done: str
) -> Response:
    seen = {name: read_number(number) for name, number in _read_versions(form)}
    values: dict[str, Any] = {"data": True, "domains": [*seen], "expected": seen}
    asked = form.read(MoveRequestModel, "move", values)
    workspace = context.services.settings.workspace
    moved = context.change(move, app, asked, workspace=workspace)
    told = ", ".join(f"{each.name} (version {each.after})" for each in moved.moves)
    back = f"/apps/{quote(app)}"
    match _read_versions(form):
        case [(name, _)]:
            back += f"/data/{quote(name, safe='')}"
    return go_to(back, f"{done}: {told}." if told else "It was live already.")
