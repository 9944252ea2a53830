"""
The editor: an action as text, builders that write into it, and what it would do.

Whatever is sent comes back with the page, so that nothing that was typed is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa
from starlette.responses import Response

from actions.lookup import fetch_app
from actions.posting.edit import PostedAction, post_text, replace_text, tell_superseded
from actions.posting.post import SeenAction
from actions.previews.sentences import tell_nth
from actions.read_actions import fetch_names, fetch_shown_revision
from actions.small_apps.apply import ApplyTerms, apply_small_app
from dispatch.manual_runs import run_now
from models.database.engine import read_clock
from models.door.app_documents import read_small_app
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
    StaleError,
)
from models.operation import MAILING_STEPS
from models.revision import ActionState
from overview.actions import ShownAction, fetch_shown_action
from overview.previews import AppCalendar, fetch_app_calendar
from serving.context import Context, Editor
from serving.refusals import find_status
from web.editor import builders
from web.editor.draft import Draft, foresee, judge, take_proposal, write_text
from web.editor.starters import Starter, get_starter, list_starters
from web.forms import Form, Refused, go_to, make_refused, read_form, read_revision
from web.guarding import make_router, takes_form
from web.query import Unread, find_apps, list_apps, read_part
from web.rendering import find_own_zone, render

router = make_router()

#: What the first small app is called, unless its author has a better name.
_FIRST_APP = "main"

#: Which day of a month, in words.
_NTHS = [
    *((nth, tell_nth(nth)) for nth in range(1, 32)),
    (-1, "last"),
    *((-nth, f"{tell_nth(nth)} last") for nth in range(2, 11)),
]


#: The most actions that a list offers; of more, names are typed.
_MOST_FORMERS = 200


@dataclass(frozen=True, slots=True)
class _Attempt:
    """
    What became of an attempt to save.

    Args:
        refused: Why nothing was saved. None: nobody tried.
        other: The revision that others have saved since the author has read it.
    """

    refused: Refused | None = None
    status: HTTPStatus = HTTPStatus.OK
    other: object = None


_NONE, _UNSENT = _Attempt(), Form()


@router.get("/actions/new")
def show_new(context: Editor) -> Response:
    """Show an empty text, a starter, or a copy of another action."""
    query = context.request.query_params
    apps = list_apps(context) if context.app is None else []
    attempt, draft = _NONE, Draft("", context.app)
    try:
        if query.get("from"):
            draft = _copy(context, query["from"])
        elif context.app is None:
            only = apps[0][0] if apps and len(apps) == 1 else None
            if app := query.get("app") or only:
                with context.reading() as connection:
                    draft = replace(draft, app=fetch_app(connection, app).uid)
        if query.get("starter"):
            starter = _get_starter(context, query["starter"], draft.app)
            draft = replace(draft, text=starter.text)
    except NotFoundError as error:
        attempt = _Attempt(make_refused(error))
    if draft.app is None and apps != []:
        values = {"apps": apps, "refused": attempt.refused}
        return render(context, "editor/choose_app.html", values)
    return _show(context, draft, None, attempt)


@router.post("/actions/new")
@takes_form
def change_new(context: Editor) -> Response:
    """Check, build or save a new action."""
    form = read_form(context.body)
    draft = Draft("", context.narrow(form.get("app") or None))
    return _answer(context, form, draft, None)


@router.get("/actions/{uid}/edit")
def show_stored(context: Editor, uid: str) -> Response:
    """Show a stored action as text, or one of its earlier revisions."""
    action = _read_action(context, uid)
    document = action.written
    wanted = read_revision(context.request.query_params.get("revision"))
    attempt = _NONE
    if wanted is not None:
        try:
            with context.reading() as connection:
                document = fetch_shown_revision(connection, uid, wanted).document
        except NotFoundError as error:
            attempt = _Attempt(make_refused(error))
    draft = Draft(write_text(document), action.app, uid, action.document_revision)
    return _show(context, draft, action, attempt)


@router.post("/actions/{uid}/edit")
@takes_form
def change_stored(context: Editor, uid: str) -> Response:
    """Check, build or save a stored action."""
    form = read_form(context.body)
    action = _read_action(context, uid, deleted=True)
    revision = read_revision(form.get("revision")) or 0
    return _answer(context, form, Draft("", action.app, uid, revision), action)


def _answer(
    context: Context, form: Form, draft: Draft, action: ShownAction | None
) -> Response:
    draft = replace(draft, text=form.find("document") or "")
    asked, _, name = form.get("do").partition("-")
    attempt, anew = _NONE, ""
    try:
        if form.has("fix"):
            judged = judge(context, draft, viewer_zone=find_own_zone(context))
            draft = take_proposal(draft, judged, form.get("fix"))
        elif name in builders.BUILDERS:
            draft = draft.put(name, form) if asked == "put" else draft
            anew = name
        elif asked in {"save", "run", "overwrite"}:
            _refuse_left_out(form)
            if asked == "overwrite":
                current = read_revision(form.get("current")) or 0
                draft = replace(draft, revision=current)
            outcome = _save(context, draft, form.get("note") or None)
            return _go_on(context, outcome, is_run=asked == "run")
    except MinutehandError as error:
        other = error.current if isinstance(error, StaleError) else None
        attempt = _Attempt(make_refused(error), find_status(error), other)
    return _show(context, draft, action, attempt, form=form, anew=anew)


def _refuse_left_out(form: Form) -> None:
    """
    Let nothing be saved while somebody has filled in what is not in the document.

    Raises:
        InvalidDocumentError: Somebody has.
    """
    for name, builder in builders.BUILDERS.items():
        if builders.is_typed(name, form):
            told = f"What is filled in under “{builder.title}” is not in the document."
            hint = "Put it into the document, or read it from there; then save."
            raise InvalidDocumentError((Problem("", told, hint),))


def _save(context: Context, draft: Draft, note: str | None) -> PostedAction:
    """
    Store *draft*; in an installation without small apps, with its first one.

    Raises:
        MinutehandError: As ``post_text`` and ``replace_text``; nothing is stored.
    """
    terms = context.sign(note)
    text = draft.text.encode()
    with context.writing() as connection:
        if draft.uid is not None:
            seen = SeenAction(draft.uid, context.app, draft.revision)
            return replace_text(connection, seen, text, terms=terms)
        app = draft.app or _FIRST_APP
        if context.app is None and not find_apps(connection):
            first = read_small_app(b"{}", uid=app)
            apply_small_app(connection, first, ApplyTerms(by=context.caller.name))
        return post_text(connection, app, text, terms=terms)


def _go_on(context: Context, outcome: PostedAction, *, is_run: bool) -> Response:
    """Lead to the action that was saved, or to its run."""
    posted = outcome.judge()
    told = f"{posted.name!r} is saved as revision {posted.revision}."
    if posted.superseded:
        told += f" {tell_superseded(len(posted.superseded))}"
    if posted.warnings:
        told += f" Warning: {posted.warnings[0]}"
    goal = f"/actions/{posted.uid}"
    if not is_run:
        return go_to(goal, told)
    try:
        engine, author = context.services.engine, context.author
        operation = run_now(engine, str(posted.uid), app=context.app, author=author)
    except MinutehandError as error:
        return go_to(goal, f"{told} It does not run now: {error}")
    return go_to(f"/operations/{operation}", f"{told} This is its run.")


def _show(
    context: Context,
    draft: Draft,
    action: ShownAction | None,
    attempt: _Attempt = _NONE,
    *,
    form: Form = _UNSENT,
    anew: str = "",
) -> Response:
    """
    Show the page with *draft*, and what the server says of it.

    Args:
        action: That is stored. None: it is to be a new one.
        attempt: To save.
        form: What was sent: whatever was typed into a builder stays there.
        anew: The builder that is to show the document all the same.
    """
    viewer_zone = find_own_zone(context)
    calendar = _read_calendar(context, draft.app)
    holidays = ", ".join(sorted(calendar.holidays))
    built = builders.open_builders(
        draft.document or {}, form, holidays=holidays, anew=anew
    )
    values: dict[str, Any] = {
        "action": action,
        "attempt": attempt,
        "builders": builders,
        "built": built,
        "calendar": calendar,
        "draft": draft,
        "first_app": _FIRST_APP,
        "foreseen": foresee(context, draft, built, viewer_zone=viewer_zone),
        "formers": _list_formers(context, draft, built.get("when_former")),
        "is_mailing": MAILING_STEPS.intersection,
        "is_part": "x-part" in context.request.headers,
        "judged": judge(context, draft, viewer_zone=viewer_zone),
        "starters": [] if draft.text.strip() else _list_starters(context, calendar),
        "NTHS": _NTHS,
        "viewer_zone": viewer_zone,
    }
    return render(context, "editor/editor.html", values, status=attempt.status)


def _read_action(context: Context, uid: str, *, deleted: bool = False) -> ShownAction:
    """
    Return a stored action with its document.

    Raises:
        NotFoundError: There is none; or it is deleted, and *deleted* is not wanted.
    """
    found = context.fetch(fetch_shown_action, uid, app=context.app, count=0)
    if found.state is ActionState.DELETED and not deleted:
        raise NotFoundError(f"there is no scheduled action {uid!r}")
    return found


def _copy(context: Context, uid: str) -> Draft:
    """Return the text of an action as that of another one."""
    found = _read_action(context, uid, deleted=True)
    document = {key: value for key, value in found.written.items() if key != "uid"}
    copied = {**document, "name": f"copy of {found.name}"}
    return Draft(write_text(copied), found.app)


def _get_starter(context: Context, kind: str, app: str | None) -> Starter:
    calendars = _read_calendar(context, app).holidays
    with context.reading() as connection:
        return get_starter(kind, read_clock(connection).date(), calendars)


def _list_starters(context: Context, calendar: AppCalendar) -> list[Starter]:
    found = read_part(context, read_clock)
    if isinstance(found, Unread):
        return []
    return list_starters(found.date(), calendar.holidays)


def _list_formers(
    context: Context, draft: Draft, chosen: str
) -> list[tuple[str, str]] | None:
    """Return the actions that it may start after. None: too many for a list."""
    if draft.app is None:
        return None
    app, uid = draft.app, draft.uid
    names = read_part(context, fetch_names, app, but=uid, limit=_MOST_FORMERS + 1)
    if isinstance(names, Unread) or len(names) > _MOST_FORMERS:
        return None
    if chosen and chosen not in names:  # by its uid, or a name of former times
        names.append(chosen)
    return [("", "choose an action"), *((name, name) for name in names)]


def _read_calendar(context: Context, app: str | None) -> AppCalendar:
    """Return the zone and the holidays of *app*; of none, those of the installation."""
    usual = AppCalendar(context.services.timezone)
    if app is None:
        return usual

    def read(connection: sa.Connection) -> AppCalendar:
        try:
            return fetch_app_calendar(connection, app, default_timezone=usual.timezone)
        except NotFoundError:
            return usual  # it is to be made, or is gone: saving will tell

    found = read_part(context, read)
    return usual if isinstance(found, Unread) else found
