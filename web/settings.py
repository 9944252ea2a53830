"""What is set up here: the installation, keys, doctor, changes, preferences."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from importlib.metadata import version
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from models.errors import InvalidDocumentError, Problem, UnreachableError
from models.fields.duration import Duration
from models.fields.duration_words import tell_duration
from models.json_form import write_json
from models.paging import Part
from models.role import Role
from overview.changes import (
    ChangeFilter,
    fetch_action_names,
    fetch_changes,
    verify_changes,
)
from overview.doctor.finding import Finding, Health
from overview.installation.installed import fetch_installed, make_bundle
from serving.access.key_documents import (
    DEFAULT_LIFETIME,
    DEFAULT_OVERLAP,
    ENDLESS,
    INVITED_FOR,
    Invitation,
    InvitationModel,
    NewKey,
    NewKeyModel,
    RotationModel,
    ShownInvitation,
    ShownKey,
)
from serving.access.manage_keys import (
    create_key,
    fetch_key,
    fetch_keys,
    invite,
    revoke_key,
    rotate_key,
)
from serving.access.sign_ins import (
    fetch_invitation,
    fetch_invitations,
    make_address,
    revoke_invitation,
)
from serving.context import Admin, Context, Viewer
from serving.guarding import heavy
from web.forms import Form, give_file, go_to
from web.guarding import make_router
from web.query import Query, Unread, list_apps, read_part
from web.questions import after_question
from web.rendering import find_address, render

router = make_router("/settings")

#: A key that ends within this time is one to look at.
_SOON = timedelta(days=7)

#: Keys on a page; invitations, too.
_KEYS = 100


@router.get("")
def show_settings(context: Viewer) -> Response:
    """Show keys, to those who manage them, and how somebody likes to look."""
    query = Query(context)
    part: Part[ShownKey] | Unread | None = None
    invited: list[ShownInvitation] | Unread = []
    if context.caller.role >= Role.ADMIN:
        page = query.page(_KEYS)
        part = read_part(context, fetch_keys, app=context.app, page=page)
        invited = read_part(context, fetch_invitations, app=context.app)
    keys = part.entries if isinstance(part, Part) else ()
    values = {
        "invited": invited,
        "most": _KEYS,
        "active": [each for each in keys if each.state == "active"],
        "soon": _SOON,
        "version": version("minutehand"),
    }
    return render(context, "settings/settings.html", query.show(part) | values)


@router.get("/changes")
def show_changes(context: Admin) -> Response:
    """List who changed what, the latest first."""
    query = Query(context)
    since, until = query.day("day")
    kind, subject, by = (query.text(name) for name in ("kind", "subject", "by"))
    app = context.narrow(query.text("app"))
    wanted = ChangeFilter(app, kind, subject, by, since, until)
    part = read_part(context, fetch_changes, wanted, query.page())
    changed = () if isinstance(part, Unread) else part.entries
    names = read_part(context, fetch_action_names, changed)
    values = {
        "names": {} if isinstance(names, Unread) else names,
        "filtered": query.has_any("app", "kind", "subject", "by", "day"),
    }
    return render(context, "settings/changes.html", query.show(part) | values)


@router.get("/changes/verify")
@heavy
def verify(context: Admin) -> Response:
    """Follow the chain of the record of changes, and tell whether it is whole."""
    context.caller.demand_installation("the chain of changes")
    found = read_part(context, verify_changes)
    return render(context, "settings/verified.html", {"found": found})


@router.get("/doctor")
@heavy
async def show_doctor(context: Viewer) -> Response:
    """Tell what doctor finds."""
    context.caller.demand_installation("what doctor finds")
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
    context.caller.demand_installation("what is installed")
    settings = context.services.settings
    found = read_part(context, fetch_installed, settings)
    return render(context, "settings/installation.html", {"found": found})


@router.get("/support-bundle")
@heavy
async def download_support_bundle(context: Admin) -> Response:
    """Give what somebody who helps from afar needs to see, as a file."""
    context.caller.demand_installation("a support bundle")
    findings, _age_s = await context.services.examine()
    return await run_in_threadpool(_write_bundle, context, findings)


def _write_bundle(context: Context, findings: list[Finding]) -> Response:
    bundle = context.fetch(make_bundle, context.services.settings, findings)
    return give_file("minutehand-support.json", write_json(bundle))


#: What each role may do, in words.
_ROLES = (
    ("viewer", "viewer: reads"),
    ("operator", "operator: also runs, cancels, retries and pauses"),
    ("editor", "editor: also writes actions, users and data"),
    ("admin", "admin: also manages keys and reads the record of changes"),
)


def _tell_all(*lengths: Duration | str) -> list[tuple[str, str]]:
    """Return each length of time as a form sends it, and in words."""
    return [(str(each), tell_duration(str(each))) for each in lengths]


#: Chooses all small apps; no uid begins so.
_ALL_APPS = "*"


def _ask_new(context: Context) -> tuple[str, dict[str, Any]]:
    """Ask what the new key is for."""
    return "settings/key_new.html", {
        "lifetimes": [*_tell_all("P30D", DEFAULT_LIFETIME, "P1Y"), ("", ENDLESS)],
        "lifetime": str(DEFAULT_LIFETIME),
        "roles": _ROLES,
        "all_apps": _ALL_APPS,
        "apps": list_apps(context),
    }


@after_question(router, "/keys/new", _ask_new)
def make(context: Admin, form: Form) -> Response:
    """Make a key, and show its text this once."""
    wanted = _read_new(context, form)
    new = context.change(
        create_key,
        app=context.narrow(wanted.app),
        role=wanted.role,
        name=wanted.name,
        lifetime=wanted.lifetime,
        maker=context.caller,
    )
    return _show_once(context, new)


def _ask_whom(context: Context) -> tuple[str, dict[str, Any]]:
    """Ask whom an invitation is for."""
    return "settings/invite.html", {
        "lifetimes": _tell_all("PT12H", "P1D", INVITED_FOR, "P30D"),
        "lifetime": str(INVITED_FOR),
        "roles": _ROLES,
        "apps": list_apps(context),
    }


@after_question(router, "/invite", _ask_whom)
def invite_colleague(context: Admin, form: Form) -> Response:
    """Make an invitation, and show its link this once."""
    values = form.given(*InvitationModel.model_fields)
    if context.app is not None:
        values.setdefault("app", context.app)
    wanted = form.read(InvitationModel, "invitation", values)
    new = context.change(invite, wanted, context.caller)
    link = make_address(find_address(context.request), new.text)
    return _show_once(context, replace(new, text=link), "link")


def _ask_end(context: Context, invitation_id: str) -> tuple[str, dict[str, Any]]:
    """Ask before an invitation is revoked."""
    shown = context.fetch(fetch_invitation, invitation_id, context.app)
    return "settings/uninvite.html", {"invitation": shown}


@after_question(router, "/invitations/{invitation_id}/revoke", _ask_end)
def uninvite(context: Admin, invitation_id: str) -> Response:
    """Revoke an invitation."""
    shown = context.change(revoke_invitation, invitation_id, context.app)
    return go_to("/settings", f"Revoked the invitation of {shown.name}.")


def _read_new(context: Context, form: Form) -> NewKeyModel:
    """
    Return what the new key is for; nobody gets one of all small apps by saying nothing.

    Raises:
        InvalidDocumentError: Something is wrong with it.
    """
    # left empty, it does not end
    values: dict[str, Any] = {"expires": None} | form.given(*NewKeyModel.model_fields)
    if context.app is None:
        if "app" not in values:
            hint = "Choose one, or all of them."
            raise InvalidDocumentError((Problem("/app", "No app is chosen.", hint),))
        if values["app"] == _ALL_APPS:
            values["app"] = None
    return form.read(NewKeyModel, "key", values)


def _ask(template: str, context: Context, key_id: str) -> tuple[str, dict[str, Any]]:
    """Ask before a key is revoked, or how long it goes on beside its successor."""
    shown = context.fetch(fetch_key, key_id, app=context.app)
    return template, {
        "key": shown,
        "overlaps": [
            *_tell_all(DEFAULT_OVERLAP, "P1D", "PT1H"),
            ("PT0S", "not at all: it was seen by others"),
        ],
        "overlap": str(DEFAULT_OVERLAP),
    }


@after_question(
    router, "/keys/{key_id}/rotate", partial(_ask, "settings/key_rotate.html")
)
def rotate(context: Admin, form: Form, key_id: str) -> Response:
    """Make a key's successor, and show its text this once."""
    wanted = form.read(RotationModel, "rotation")
    new = context.change(
        rotate_key, key_id, overlap=Duration.parse(wanted.overlap), maker=context.caller
    )
    return _show_once(context, new)


@after_question(
    router, "/keys/{key_id}/revoke", partial(_ask, "settings/key_revoke.html")
)
def revoke(context: Admin, key_id: str) -> Response:
    """Revoke a key."""
    shown = context.change(revoke_key, key_id, maker=context.caller)
    name = f" ({shown.name})" if shown.name else ""
    return go_to("/settings", f"Revoked {shown.prefix}…{name}.")


def _show_once(
    context: Context, new: NewKey | Invitation, what: str = "key"
) -> Response:
    values = {"new": new, "what": what}
    response = render(context, "settings/key_made.html", values)
    # Going back must not show it again.
    response.headers["Cache-Control"] = "no-store"
    return response
