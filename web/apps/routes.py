"""Small apps: what each has, what in it needs a look, its pauses and users."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from starlette.responses import Response

from actions.pausing.targets import pause_target, resume_target
from actions.small_apps.check_settings import find_sender_doubt
from actions.small_apps.export import UserFilter, fetch_group_part, fetch_user_part
from dispatch.notice_operations import send_test_notice
from models.operation_state import OperationState
from models.paging import Page
from models.requests.actions import ActionFilterModel, Trouble
from models.units import format_count
from operations.operation_filter import OperationFilter
from overview.actions import fetch_action_part
from overview.data import fetch_domain_part
from overview.installation.status import fetch_app_status
from overview.operations import fetch_shown_part
from overview.small_apps import DetailedApp, fetch_app_part, fetch_detailed_app
from serving.access.callers import refuse_app
from serving.context import Context, Operator, Viewer
from web.forms import Form, go_to
from web.guarding import make_router
from web.query import Query, Unread, read_part
from web.questions import after_question
from web.rendering import find_shown_zone, render

router = make_router()

#: Failures, troubled actions and users that the page of an app shows.
_FEW = 5
_SOME = 10

#: Names that are told before something is done to them.
_NAMED = 12

_TROUBLED = frozenset({OperationState.FAILED, OperationState.MISSED})


@router.get("/apps")
def show_apps(context: Viewer) -> Response:
    """List the small apps, and what in each needs a look."""
    query = Query(context)
    page = query.page()
    part = read_part(context, fetch_app_part, page, app=context.app)
    return render(context, "apps/apps.html", query.show(part))


@router.get("/apps/{app}")
def show_app(context: Viewer, app: str) -> Response:
    """Show a small app: its actions by trouble, its data, users and failures."""
    troubled = ActionFilterModel(trouble=Trouble.ANY).but(app=app)
    failed = OperationFilter(app=app, states=_TROUBLED)
    settings = context.services.settings
    found = read_part(
        context, lambda c: fetch_detailed_app(c, app).seen_by(context.app)
    )
    values = {
        "app": app,
        "found": found,
        "status": read_part(context, fetch_app_status, settings, app),
        "troubled": read_part(context, fetch_action_part, troubled, Page(_SOME)),
        "failures": read_part(
            context, fetch_shown_part, failed, Page(_FEW), with_steps=False
        ),
        "domains": read_part(context, fetch_domain_part, app, Page(200)),
        "sender_doubt": _find_sender_doubt(context, found),
    }
    return render(context, "apps/app.html", values)


def _find_sender_doubt(context: Context, found: DetailedApp | Unread) -> str | None:
    """Return why the sender that a small app chose is not used."""
    if isinstance(found, Unread) or found.mail is None:
        return None
    allowed = context.services.settings.mail_sender_hosts
    return find_sender_doubt(found.mail.from_address, allowed)


@router.get("/apps/{app}/users")
def show_users(context: Viewer, app: str) -> Response:
    """List the users of a small app, and its groups."""
    query = Query(context)
    page = query.page()
    wanted = UserFilter(group=query.text("group"), text=query.text("text"))
    part = read_part(context, fetch_user_part, app, wanted, page)
    groups = read_part(context, fetch_group_part, app, Page(200))
    values = {"app": app, "groups": groups, "wanted": wanted, **query.show(part)}
    return render(context, "apps/users.html", values)


def _ask(template: str, context: Context, app: str) -> tuple[str, dict[str, Any]]:
    """Show what is about to be done."""
    with context.reading() as connection:
        (listed,) = fetch_app_part(connection, Page(1), app=app).entries or (None,)
        if listed is None:
            refuse_app(app)
        wanted = ActionFilterModel().but(app=app)
        named = fetch_action_part(connection, wanted, Page(_NAMED), count=0)
    return template, {
        "app": app,
        "listed": listed,
        "names": [each.name for each in named.entries],
        "more": max(0, listed.actions - len(named.entries)),
        "zone": find_shown_zone(context).key,
    }


@after_question(router, "/apps/{app}/pause", partial(_ask, "apps/pause.html"))
def pause(context: Operator, form: Form, app: str) -> Response:
    """Pause a small app."""
    asked = form.read_pause(find_shown_zone(context))
    paused = context.change(pause_target, app, asked)
    return go_to(
        f"/apps/{quote(app)}",
        f"Paused {app}: {_count(paused.actions)} with it.",
        undo=f"/apps/{quote(app)}/resume",
    )


@after_question(router, "/apps/{app}/resume", partial(_ask, "apps/resume.html"))
def resume(context: Operator, app: str) -> Response:
    """Resume a small app."""
    resumed = context.change(resume_target, app)
    told = f"Resumed {app}: {_count(resumed.actions)} with it."
    if resumed.still_paused:
        told += f" {_count(resumed.still_paused)} paused otherwise."
    return go_to(f"/apps/{quote(app)}", told)


@after_question(
    router, "/apps/{app}/test-notice", partial(_ask, "apps/test_notice.html")
)
def test_notice(context: Operator, app: str) -> Response:
    """Send a test notice to those who hear of failures of a small app."""
    context.change(send_test_notice, app)
    return go_to(f"/apps/{quote(app)}", "A test notice is on its way.")


def _count(number: int) -> str:
    return format_count(number, "action", "actions")
