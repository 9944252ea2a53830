"""
The editor: an action as text and as a form, and what it would do, before it is saved.

Whatever is sent comes back with the page, so that nothing that was typed is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.posting.edit import Signature, post_text, replace_text
from actions.posting.foretell import OneOutcome
from actions.read_actions import ActionState
from actions.small_apps.apply import apply_small_app
from dispatch.manual_runs import run_now
from models.database.engine import read_clock
from models.door.app_documents import read_small_app
from models.errors import MinutehandError, NotFoundError, StaleError
from models.operation import MAILING_STEPS
from models.paging import Page
from overview.actions.revisions import fetch_shown_revision
from overview.actions.shown import ShownAction, fetch_shown_action
from overview.apps.shown import fetch_app_part
from overview.starters.starters import Starter, get_starter, list_starters
from serving.context import Context, Editor
from serving.refusals import find_status
from web.action_form import DAYS, FLAGS, STEPS, Kind
from web.clocks import find_zone
from web.document_text import write_text
from web.editing import (
    Draft,
    digest_form,
    judge,
    read_draft,
    take_proposal,
)
from web.forms import Form, Refused, make_refused, read_form, read_number
from web.guarding import PageRoute, takes_form
from web.meanwhile import Meanwhile, fetch_meanwhile
from web.messages import go_to
from web.preferences import read_preferences
from web.reading import Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Small apps that are offered by name; of more, one types the uid.
_APPS_LISTED = 200

#: What the first small app is called, unless its author has a better name.
_FIRST_APP = "main"

_DAY_NAMES = dict(
    zip(DAYS, ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"), strict=True)
)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """
    What became of an attempt to save.

    Args:
        refused: Why nothing was saved. None: nobody tried.

        meanwhile: What others have changed since the author has read it.
    """

    refused: Refused | None = None
    status: HTTPStatus = HTTPStatus.OK
    meanwhile: Meanwhile | None = None


_NONE = _Attempt()


@router.get("/actions/new")
def show_new(context: Editor) -> Response:
    """Show an empty text, a starter, or a copy of another action."""
    query = context.request.query_params
    attempt, draft = _NONE, Draft("", context.narrow(_get_own_app(context)))
    try:
        if query.get("from"):
            draft = _copy(context, query["from"])
        elif query.get("starter"):
            draft = replace(draft, text=_get_starter(context, query["starter"]).text)
    except NotFoundError as error:
        attempt = _Attempt(make_refused(error))
    return _show(context, draft, None, attempt)


@router.post("/actions/new")
@takes_form
def change_new(context: Editor) -> Response:
    """Check, write as JSON, or save a new action."""
    form = read_form(context.body)
    draft = Draft("", context.narrow(form.get("app") or None))
    return _answer(context, form, draft, None)


@router.get("/actions/{uid}/edit")
def show_stored(context: Editor, uid: str) -> Response:
    """Show a stored action as text, or one of its earlier revisions."""
    action = _read_action(context, uid)
    document = action.document
    wanted = context.request.query_params.get("revision", "")
    attempt = _NONE
    if wanted.isascii() and wanted.isdigit() and len(wanted) < 10:
        try:
            with context.reading() as connection:
                document = fetch_shown_revision(connection, uid, int(wanted)).document
        except NotFoundError as error:
            attempt = _Attempt(make_refused(error))
    draft = Draft(write_text(document), action.app, uid, action.document_revision)
    return _show(context, draft, action, attempt)


@router.post("/actions/{uid}/edit")
@takes_form
def change_stored(context: Editor, uid: str) -> Response:
    """Check, write as JSON, or save a stored action."""
    form = read_form(context.body)
    action = _read_action(context, uid, deleted=True)
    read = form.get("revision")
    revision = int(read) if read.isascii() and read.isdigit() and len(read) < 10 else 0
    return _answer(context, form, Draft("", action.app, uid, revision), action)


def _answer(
    context: Context, form: Form, draft: Draft, action: ShownAction | None
) -> Response:
    field = context.request.headers.get("x-field", "")
    draft, left_out = read_draft(form, draft, field)
    if form.has("fix"):
        judged = judge(
            context,
            draft,
            terms=context.services.terms,
            viewer_zone=_find_zone(context),
        )
        return _show(context, take_proposal(draft, judged, form.get("fix")), action)
    asked = form.get("do")
    if asked not in {"save", "run", "overwrite"}:
        return _show(context, draft, action, left_out=left_out, field=field)
    if asked == "overwrite":
        current = read_number(form.get("current"))
        draft = replace(draft, revision=current if isinstance(current, int) else 0)
    try:
        outcome = _save(context, draft, form.get("note") or None)
    except StaleError as error:
        meanwhile = read_part(context, lambda c: fetch_meanwhile(c, draft, context.app))
        attempt = _Attempt(
            make_refused(error),
            find_status(error),
            None if isinstance(meanwhile, Unread) else meanwhile,
        )
        return _show(context, draft, action, attempt)
    except MinutehandError as error:
        return _show(
            context, draft, action, _Attempt(make_refused(error), find_status(error))
        )
    return _go_on(context, outcome, is_run=asked == "run")


def _save(context: Context, draft: Draft, note: str | None) -> OneOutcome:
    """
    Store *draft*; in an installation without small apps, with its first one.

    Raises:
        MinutehandError: As ``post_text`` and ``replace_text``; nothing is stored.
    """
    terms, signed = context.services.terms, Signature(context.caller.name, note)
    text = draft.text.encode()
    with context.writing() as connection:
        if draft.uid is not None:
            return replace_text(
                connection,
                draft.uid,
                text,
                app=context.app,
                expected_revision=draft.revision,
                terms=terms,
                signed=signed,
            )
        app = draft.app or _FIRST_APP
        if context.app is None and not fetch_app_part(connection, Page(1)).entries:
            first = read_small_app(b"{}", uid=app)
            apply_small_app(connection, first, by=context.caller.name)
        return post_text(connection, app, text, terms=terms, signed=signed)


def _go_on(context: Context, outcome: OneOutcome, *, is_run: bool) -> Response:
    """Lead to the action that was saved, or to its run."""
    posted, name = outcome.posted, outcome.row.name
    told = f"{name!r} is saved as revision {posted.revision}."
    if posted.superseded:
        count = len(posted.superseded)
        told += f" {count:,} occurrences were due before this edit and will not run."
    doubts = outcome.find_doubts()
    if doubts:
        told += f" Warning: {doubts[0]}"
    goal = f"/actions/{posted.uid}"
    if not is_run:
        return go_to(goal, told)
    try:
        operation = run_now(
            context.services.engine,
            posted.uid,
            app=context.app,
            author=context.caller.as_author(context.request_id),
        )
    except MinutehandError as error:
        return go_to(goal, f"{told} It does not run now: {error}")
    return go_to(f"/operations/{operation}", f"{told} It runs once now.")


def _show(
    context: Context,
    draft: Draft,
    action: ShownAction | None,
    attempt: _Attempt = _NONE,
    *,
    left_out: bool = False,
    field: str = "",
) -> Response:
    """Show the page with *draft*, and what the server says of it."""
    viewer_zone = _find_zone(context)
    is_part = "x-part" in context.request.headers
    apps = [] if is_part or action else _list_apps(context)
    if draft.app is None and isinstance(apps, list) and apps:
        draft = replace(draft, app=apps[0])  # the one that the page offers first
    judged = judge(
        context, draft, terms=context.services.terms, viewer_zone=viewer_zone
    )
    values: dict[str, Any] = {
        "action": action,
        "apps": apps,
        "attempt": attempt,
        "day_names": _DAY_NAMES,
        "digest_form": digest_form,
        "draft": draft,
        "FLAGS": FLAGS,
        "first_app": _FIRST_APP,
        "is_mailing": MAILING_STEPS.intersection,
        "is_part": is_part,
        "is_typing": field == "document",
        "judged": judged,
        "Kind": Kind,
        "left_out": left_out,
        "starters": [] if draft.text.strip() else _list_starters(context),
        "STEPS": STEPS,
        "viewer_zone": viewer_zone,
    }
    return render(context, "editor.html", values, status=attempt.status)


def _get_own_app(context: Context) -> str | None:
    """Return the app that a link names, if it is one of the caller's."""
    named = context.request.query_params.get("app")
    return None if context.app is not None else named


def _find_zone(context: Context) -> ZoneInfo:
    mine = read_preferences(context.request).mine
    return mine or find_zone(context.services.timezone) or ZoneInfo("UTC")


def _read_action(context: Context, uid: str, *, deleted: bool = False) -> ShownAction:
    """
    Return a stored action with its document.

    Raises:
        NotFoundError: There is none; or it is deleted, and *deleted* is not wanted.
    """
    with context.reading() as connection:
        found = fetch_shown_action(connection, uid, app=context.app, count=0)
    if found.state is ActionState.DELETED and not deleted:
        msg = f"there is no scheduled action {uid!r}"
        raise NotFoundError(msg)
    return found


def _copy(context: Context, uid: str) -> Draft:
    """Return the text of an action as that of another one."""
    found = _read_action(context, uid, deleted=True)
    document = {key: value for key, value in found.document.items() if key != "uid"}
    copied = {**document, "name": f"copy of {found.name}"}
    return Draft(write_text(copied), found.app)


def _get_starter(context: Context, kind: str) -> Starter:
    with context.reading() as connection:
        return get_starter(kind, read_clock(connection).date())


def _list_starters(context: Context) -> list[Starter]:
    found = read_part(context, lambda connection: read_clock(connection).date())
    return [] if isinstance(found, Unread) else list_starters(found)


def _list_apps(context: Context) -> list[str] | Unread | None:
    """Return the uids of the small apps; None: there are too many to choose from."""

    def read(connection: sa.Connection) -> list[str] | None:
        part = fetch_app_part(connection, Page(_APPS_LISTED), app=context.app)
        return None if part.following else [each.uid for each in part.entries]

    return read_part(context, read)
