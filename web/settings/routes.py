"""What is set up here: the installation, doctor, the record of changes, preferences."""

from __future__ import annotations

from datetime import timedelta
from importlib.metadata import version

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from models.errors import UnreachableError
from models.json_form import write_json
from models.paging import Page, Part
from overview.changes import ChangeFilter, fetch_changes, verify_changes
from overview.doctor.finding import Finding, Health
from overview.installation.installed import fetch_installed, make_bundle
from serving.access.callers import Role
from serving.access.key_documents import ShownKey
from serving.access.manage_keys import fetch_keys
from serving.context import Admin, Context, Viewer
from serving.guarding import heavy
from web.guarding import PageRoute
from web.query import Query, Unread, read_part
from web.rendering import render

router = APIRouter(prefix="/settings", include_in_schema=False, route_class=PageRoute)

#: A key that ends within this time is one to look at.
_SOON = timedelta(days=7)

#: Keys on a page.
_KEYS = 100


@router.get("")
def show_settings(context: Viewer) -> Response:
    """Show keys, to those who manage them, and how somebody likes to look."""
    query = Query(context)
    part: Part[ShownKey] | Unread | None = None
    if context.caller.role >= Role.ADMIN:
        page = query.page(_KEYS)
        part = read_part(
            context, lambda each: fetch_keys(each, app=context.app, page=page)
        )
    is_list = isinstance(part, Part)
    return render(
        context,
        "settings/settings.html",
        {
            "part": part,
            "query": query,
            "cursor": query.find_next(part) if isinstance(part, Part) else None,
            "active": [e for e in part.entries if e.state == "active"]
            if isinstance(part, Part)
            else [],
            "soon": _SOON,
            "is_list": is_list,
            "version": version("minutehand"),
        },
    )


@router.get("/changes")
def show_changes(context: Admin) -> Response:
    """List who changed what, the latest first."""
    query = Query(context)
    since, until = query.day("day")
    wanted = ChangeFilter(
        context.narrow(query.text("app")),
        query.text("kind"),
        query.text("subject"),
        query.text("by"),
        since,
        until,
    )
    page: Page = query.page()
    part = read_part(context, lambda each: fetch_changes(each, wanted, page))
    return render(
        context,
        "settings/changes.html",
        {
            "part": part,
            "query": query,
            "params": context.request.query_params,
            "filtered": query.has_any("app", "kind", "subject", "by", "day"),
            "cursor": None if isinstance(part, Unread) else query.find_next(part),
        },
    )


@router.get("/changes/verify")
@heavy
def verify(context: Admin) -> Response:
    """Follow the chain of the record of changes, and tell whether it is whole."""
    context.demand_installation("the chain of changes")
    found = read_part(context, verify_changes)
    return render(context, "settings/verified.html", {"found": found})


@router.get("/doctor")
@heavy
async def show_doctor(context: Viewer) -> Response:
    """Tell what doctor finds."""
    context.demand_installation("what doctor finds")
    findings: list[Finding] | Unread
    try:
        findings, age_s = await context.services.examine()
    except UnreachableError as error:
        findings, age_s = Unread(str(error)), 0.0
    return await run_in_threadpool(_render_doctor, context, findings, age_s)


def _render_doctor(
    context: Context, findings: list[Finding] | Unread, age_s: float
) -> Response:
    count = 0
    if not isinstance(findings, Unread):
        worst_first = [Health.BAD, Health.DOUBTFUL, Health.GOOD]
        findings = sorted(findings, key=lambda each: worst_first.index(each.health))
        count = sum(each.health is not Health.GOOD for each in findings)
    values = {"findings": findings, "age_s": age_s, "count": count}
    return render(context, "settings/doctor.html", values)


@router.get("/installation")
def show_installation(context: Admin) -> Response:
    """Tell versions, settings in effect, and how long what is kept."""
    context.demand_installation("what is installed")
    settings = context.services.settings
    found = read_part(context, lambda each: fetch_installed(each, settings))
    return render(context, "settings/installation.html", {"found": found})


@router.get("/support-bundle")
@heavy
async def download_support_bundle(context: Admin) -> Response:
    """Give what somebody who helps from afar needs to see, as a file."""
    context.demand_installation("a support bundle")
    findings, _age_s = await context.services.examine()
    return await run_in_threadpool(_write_bundle, context, findings)


def _write_bundle(context: Context, findings: list[Finding]) -> Response:
    with context.reading() as connection:
        bundle = make_bundle(connection, context.services.settings, findings)
    name = 'attachment; filename="minutehand-support.json"'
    return Response(
        write_json(bundle),
        media_type="application/json",
        headers={"Content-Disposition": name},
    )
