"""One action: what it is and did, and what people do to it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.lookup import get_action
from actions.pausing.pause_and_resume import set_paused
from actions.posting.post import delete_action
from actions.posting.revisions import refuse_action
from actions.read_rules import find_zone
from dispatch.backfills.shown_backfills import fetch_shown_backfills
from dispatch.manual_runs import run_now
from models.errors import InvalidDocumentError, MinutehandError, Problem
from models.fields.zone import load_zone
from models.paging import Page
from models.requests.actions import NoteModel, RunModel
from overview.actions.recent_runs import fetch_runs_of_action
from overview.actions.shown import (
    ShownAction,
    describe_deletion,
    fetch_detailed_action,
    fetch_shown_action,
)
from overview.previews.runs import RunPreview, preview_run
from serving.context import Context, Editor, Operator, Viewer
from web.action.fetch_days import fetch_action_days
from web.action.parts import (
    STRIPPED,
    ask_why,
    draw_durations,
    draw_weeks,
    fetch_difference,
    fetch_reached,
    fetch_runs,
    foresee,
)
from web.action_words import (
    find_zone_name,
    make_strip,
    name_mark,
    tell_idleness,
    write_rules,
)
from web.clocks import Clock
from web.forms import Form, go_to
from web.guarding import PageRoute
from web.preferences import read_preferences
from web.query import Query, read_part
from web.questions import after_question
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Revisions and backfills that are looked at.
_REVISIONS, _BACKFILLS = 10, 3


@router.get("/actions/{uid}")
def show_action(context: Viewer, uid: str) -> Response:
    """Show one action."""
    query = Query(context)
    with context.reading() as connection:
        found = fetch_detailed_action(
            connection, uid, app=context.app, count=1, revisions=_REVISIONS, is_uid=True
        )
        zone = find_zone(get_action(connection, uid, app=context.app))
    preferences = read_preferences(context.request)
    mine = preferences.mine or load_zone(context.services.timezone)
    asked = query.text("at")
    values = {
        "found": found.seen_by(context.app),
        "zone": zone.key,
        "mine": None if mine.key in {zone.key, "UTC"} else mine.key,
        "whose": "you" if preferences.mine else "the installation",
        "foreseen": read_part(context, lambda c: foresee(c, uid, mine)),
        "runs": read_part(context, lambda c: fetch_runs(c, uid)),
        "recent": read_part(
            context, lambda c: fetch_runs_of_action(c, uid, limit=STRIPPED)
        ),
        "durations": read_part(
            context, lambda c: draw_durations(fetch_runs_of_action(c, uid, limit=30))
        ),
        "weeks": read_part(context, lambda c: draw_weeks(fetch_action_days(c, uid))),
        "reached": read_part(context, lambda c: fetch_reached(c, uid)),
        "difference": read_part(context, lambda c: fetch_difference(c, found)),
        "backfills": read_part(
            context,
            lambda c: fetch_shown_backfills(
                c, Page(_BACKFILLS), app=context.app, action_uid=uid
            ),
        ),
        "asked": read_part(context, lambda c: ask_why(c, uid, asked)),
        "Clock": Clock,
        "find_zone_name": find_zone_name,
        "make_strip": make_strip,
        "name_mark": name_mark,
        "tell_idleness": tell_idleness,
        "write_rules": write_rules,
    }
    return render(context, "action/action.html", values)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The action that an act is about, and the zone of its times."""

    action: ShownAction
    zone: Any
    steps: Sequence[str] = ()


def _fetch(connection: sa.Connection, context: Context, uid: str) -> _Subject:
    """Return the action *uid* of the caller; raises as ``get_action``."""
    row = get_action(connection, uid, app=context.app)
    if row.deleted_at is not None:
        refuse_action(uid)
    shown = fetch_shown_action(connection, uid, app=context.app).seen_by(context.app)
    return _Subject(shown, find_zone(row), tuple(row.document.get("operations", {})))


def _path(uid: str, rest: str = "") -> str:
    return f"/actions/{quote(uid, safe='')}{rest}"


# --------------------------------------------------------------------------- run


def _ask_run(context: Context, form: Form, uid: str) -> tuple[str, dict[str, Any]]:
    """Ask before an action runs: what it would do."""
    wanted = RunModel()
    if form.has("dry_run"):
        with suppress(InvalidDocumentError):
            wanted = _read_run(form)
    with context.reading() as connection:
        subject = _fetch(connection, context, uid)
        foreseen: RunPreview | None = None
        problem = ""
        try:
            foreseen = preview_run(
                connection,
                uid,
                user_id=wanted.user,
                steps=wanted.steps,
                app=context.app,
            )
        except MinutehandError as error:
            problem = str(error)
    return "action/run.html", {
        "subject": subject,
        "action": subject.action,
        "chosen": form.get_all("steps") if form.has("known") else subject.steps,
        "foreseen": foreseen,
        "problem": problem,
        "back": _path(uid),
    }


@after_question(router, "/actions/{uid}/run", _ask_run)
def run_action(context: Operator, form: Form, uid: str) -> Response | None:
    """Run an action now, or say what it would do."""
    wanted = _read_run(form)
    if form.has("dry_run"):
        return None
    operation_id = run_now(
        context.services.engine,
        uid,
        user_id=wanted.user,
        force=wanted.force,
        steps=wanted.steps,
        note=wanted.note,
        app=context.app,
        author=context.caller.as_author(context.request_id),
    )
    return go_to(
        f"/operations/{operation_id}",
        "It is recorded, and sent within a second while a scheduler leads.",
    )


def _read_run(form: Form) -> RunModel:
    """Return the run that a form asks for: all its steps if all are checked."""
    values: dict[str, Any] = {}
    steps = form.get_all("steps")
    if steps and len(steps) < len(form.get_all("known")):
        values["steps"] = steps
    elif not steps and form.get_all("known"):
        problem = Problem("/steps", "No step is chosen.", "Choose at least one.")
        raise InvalidDocumentError((problem,))
    for name in ("user", "note"):
        if form.get(name):
            values[name] = form.get(name)
    values["force"] = form.has("force")
    return form.read(RunModel, "run", values)


# ------------------------------------------------------ pause, resume and delete


def _ask(template: str, context: Context, uid: str) -> tuple[str, dict[str, Any]]:
    """Ask before an action is changed."""
    with context.reading() as connection:
        subject = _fetch(connection, context, uid)
        title = describe_deletion(connection, [subject.action])
    return template, {
        "action": subject.action,
        "zone": subject.zone.key,
        "title": title,
        "back": _path(uid),
    }


@after_question(router, "/actions/{uid}/pause", partial(_ask, "action/pause.html"))
def pause_action(context: Operator, form: Form, uid: str) -> Response:
    """Pause an action."""
    with context.writing() as connection:
        subject = _fetch(connection, context, uid)
        wanted = form.read_pause(subject.zone)
        set_paused(
            connection,
            uid,
            paused=True,
            until=wanted.until,
            note=wanted.note,
            by=context.caller.name,
            app=context.app,
            as_it_is=False,
        )
    told = f"{subject.action.name} is paused."
    return go_to(_path(uid), told, undo=_path(uid, "/resume"))


@after_question(router, "/actions/{uid}/resume", partial(_ask, "action/resume.html"))
def resume_action(context: Operator, form: Form, uid: str) -> Response:
    """Resume an action from now on."""
    with context.writing() as connection:
        subject = _fetch(connection, context, uid)
        is_changed = set_paused(
            connection,
            uid,
            paused=False,
            note=form.read(NoteModel, "note").note,
            by=context.caller.name,
            app=context.app,
        )
    words = "is resumed" if is_changed else "was not paused on its own"
    return go_to(_path(uid), f"{subject.action.name} {words}.")


@after_question(router, "/actions/{uid}/delete", partial(_ask, "action/delete.html"))
def delete(context: Editor, form: Form, uid: str) -> Response:
    """Delete an action."""
    with context.writing() as connection:
        subject = _fetch(connection, context, uid)
        delete_action(
            connection,
            uid,
            app=context.app,
            by=context.caller.name,
            note=form.read(NoteModel, "note").note,
        )
    return go_to(_path(uid), f"{subject.action.name} is deleted.")
