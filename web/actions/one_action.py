"""One action: what it is and did, and what people do to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import quote
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from starlette.responses import Response

from actions.explaining.why import WhyAnswer
from actions.pausing import pause_and_resume
from actions.posting.post import delete_action
from actions.posting.revisions import refuse_action
from actions.previews.preview import Preview
from actions.read_actions import RevisionNote, compare_revisions
from dispatch.backfills.requests import fetch_shown_backfills
from dispatch.manual_runs import run_now
from models.door.differences import ValueDifference
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
    RuleError,
)
from models.operation import MAILING_STEPS
from models.operation_state import OperationState
from models.paging import Page
from models.requests.actions import RunModel
from models.requests.notes import NoteModel
from models.revision import OF_DOCUMENT
from operations.operation_filter import OperationFilter
from overview.actions import (
    DetailedAction,
    ShownAction,
    describe_deletion,
    fetch_detailed_action,
    fetch_shown_action,
)
from overview.operations import fetch_shown_part
from overview.previews import RunPreview, preview_run
from overview.recent_runs import RecentRuns, fetch_runs_of_action
from overview.recipients import ForeseenRecipients, Recipient, foresee_stored
from overview.why.instant import explain_instant, read_asked
from serving.context import Context, Editor, Operator, Viewer
from web.actions import words
from web.actions.days_chart import DayMap, Trend, count_weeks, draw_days, draw_trend
from web.actions.fetch_days import ActionDays, fetch_action_days
from web.actions.fetch_preview import preview_stored
from web.forms import Form, go_to
from web.guarding import make_router
from web.query import Query, Unread, read_part
from web.questions import after_question
from web.rendering import find_own_zone, render

#: Runs in the table; in the strip, and in the picture of durations.
TABLED, STRIPPED = 5, 20


def foresee(connection: sa.Connection, uid: str, zone: ZoneInfo) -> Preview | str:
    """Return the next runs, in *zone*, too; or why they cannot be told."""
    try:
        return preview_stored(connection, uid, count=10, viewer_zone=zone)
    except InvalidDocumentError as error:
        return str(error)


class ReachedRecipients(NamedTuple):
    """
    Who gets the mails, and who of those named does not.

    Args:
        outside: How many are not, why, and some of them; a row for each reason.
        unknown: Names that the small app does not have.
    """

    found: ForeseenRecipients
    outside: Sequence[tuple[int, str, Sequence[Recipient]]]
    unknown: Sequence[Problem]


def fetch_reached(connection: sa.Connection, uid: str) -> ReachedRecipients:
    """Return who gets the mails, and who of those named does not."""
    found, unknown = foresee_stored(connection, uid)
    some = found.first_left_out
    outside = [
        (left.count, left.reason, [e for e in some if e.standing is left.standing])
        for left in found.left_out
    ]
    return ReachedRecipients(found, outside, unknown)


class Difference(NamedTuple):
    """How the document differs from the one before. old: None if that is gone."""

    old: RevisionNote | None
    new: RevisionNote
    found: Sequence[ValueDifference]


def fetch_difference(connection: sa.Connection, found: DetailedAction) -> Difference:
    """Return how the document differs from the one before, if that is still there."""
    changes = [each for each in found.revisions if each.change in OF_DOCUMENT]
    newest = changes[0] if changes else found.revisions[0]
    for old in [each for each in changes if each.revision < newest.revision][:1]:
        with suppress(NotFoundError):  # pruned since
            numbers = old.revision, newest.revision
            compared = compare_revisions(connection, found.uid, *numbers)
            return Difference(old, newest, compared.differences)
    return Difference(None, newest, ())


def draw_durations(recent: RecentRuns) -> Trend | None:
    """Return the picture of how long the last runs took, oldest first."""
    took = [
        (each.took_s, each.state is OperationState.FAILED, str(each.state))
        for each in reversed(recent.runs)
        if each.took_s is not None
    ]
    return draw_trend(took, recent.median_s)


class Weeks(NamedTuple):
    """The days as a map, and as a table of weeks."""

    map: DayMap
    table: Sequence[tuple[date, Mapping[str, int]]]
    days: ActionDays


def fetch_weeks(connection: sa.Connection, uid: str) -> Weeks:
    """Return what became of an action on each day, as a map and as a table."""
    found = fetch_action_days(connection, uid)
    return Weeks(draw_days(found.days), count_weeks(found.days), found)


@dataclass(frozen=True, slots=True)
class AskedInstant:
    """
    An instant that was asked about, as it was typed.

    Args:
        answers: Why the action ran then, or did not.
        problem: What is wrong with what was typed.
    """

    text: str
    at: datetime | None = None
    answers: Sequence[WhyAnswer] = ()
    problem: str = ""


def ask_why(connection: sa.Connection, uid: str, text: str | None) -> AskedInstant:
    """Return why an action ran at an instant, as it was typed."""
    if text is None:
        return AskedInstant("")
    try:
        at = read_asked(connection, uid, text)
        return AskedInstant(text, at, explain_instant(connection, uid, at))
    except (RuleError, MinutehandError) as error:
        return AskedInstant(text, problem=str(error))


router = make_router()

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
    mine, zone = find_own_zone(context), found.zone
    asked, ran = query.text("at"), OperationFilter(action_uid=uid)
    steps = found.document.get("operations")
    recent = read_part(context, fetch_runs_of_action, uid, limit=STRIPPED)
    values = {
        "found": found.seen_by(context.app),
        "zone": zone.key,
        "mine": None if mine.key in {zone.key, "UTC"} else mine.key,
        "foreseen": read_part(context, foresee, uid, mine),
        "runs": read_part(
            context, fetch_shown_part, ran, Page(TABLED), with_steps=False
        ),
        "recent": recent,
        "trend": None if isinstance(recent, Unread) else draw_durations(recent),
        "weeks": read_part(context, fetch_weeks, uid),
        "reached": read_part(context, fetch_reached, uid),
        "difference": read_part(context, fetch_difference, found),
        "backfills": read_part(
            context,
            fetch_shown_backfills,
            Page(_BACKFILLS),
            app=context.app,
            action_uid=uid,
        ),
        "asked": read_part(context, ask_why, uid, asked),
        "mails": isinstance(steps, dict) and not MAILING_STEPS.isdisjoint(steps),
        "words": words,
    }
    return render(context, "actions/action.html", values)


def _fetch(connection: sa.Connection, context: Context, uid: str) -> ShownAction:
    """Return the action *uid* of the caller; raises as ``get_action``."""
    shown = fetch_shown_action(connection, uid, app=context.app)
    if shown.deleted_at is not None:
        refuse_action(uid)
    return shown.seen_by(context.app)


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
        action = _fetch(connection, context, uid)
        foreseen: RunPreview | None = None
        problem = ""
        try:
            whom, chosen = wanted.user, wanted.steps
            foreseen = preview_run(
                connection, uid, user_id=whom, steps=chosen, app=context.app
            )
        except MinutehandError as error:
            problem = str(error)
    steps = tuple(action.written.get("operations", {}))
    return "actions/run.html", {
        "steps": steps,
        "action": action,
        "chosen": form.get_all("steps") if form.has("known") else steps,
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
        context.services.engine, uid, wanted, app=context.app, author=context.author
    )
    return go_to(f"/operations/{operation_id}", "This is the run that you asked for.")


def _read_run(form: Form) -> RunModel:
    """Return the run that a form asks for: all its steps if all are checked."""
    values: dict[str, Any] = {**form.given("user", "note"), "force": form.has("force")}
    steps = form.get_all("steps")
    if steps and len(steps) < len(form.get_all("known")):
        values["steps"] = steps
    elif not steps and form.get_all("known"):
        problem = Problem("/steps", "No step is chosen.", "Choose at least one.")
        raise InvalidDocumentError((problem,))
    return form.read(RunModel, "run", values)


# ------------------------------------------------------ pause, resume and delete


def _ask(template: str, context: Context, uid: str) -> tuple[str, dict[str, Any]]:
    """Ask before an action is changed."""
    with context.reading() as connection:
        action = _fetch(connection, context, uid)
        title = describe_deletion(connection, [action])
    return template, {
        "action": action,
        "zone": action.zone.key,
        "title": title,
        "back": _path(uid),
    }


@after_question(router, "/actions/{uid}/pause", partial(_ask, "actions/pause.html"))
def pause_action(context: Operator, form: Form, uid: str) -> Response:
    """Pause an action."""
    with context.writing() as connection:
        action = _fetch(connection, context, uid)
        wanted = form.read_pause(action.zone)
        pause_and_resume.pause_action(
            connection, uid, wanted, app=context.app, as_it_is=False
        )
    told = f"{action.name} is paused."
    return go_to(_path(uid), told, undo=_path(uid, "/resume"))


@after_question(router, "/actions/{uid}/resume", partial(_ask, "actions/resume.html"))
def resume_action(context: Operator, form: Form, uid: str) -> Response:
    """Resume an action from now on."""
    with context.writing() as connection:
        action = _fetch(connection, context, uid)
        note = form.read(NoteModel, "note").note
        is_changed = pause_and_resume.resume_action(
            connection, uid, note, app=context.app, bounds=context.services.terms.bounds
        )
    told = "is resumed" if is_changed else "was not paused on its own"
    return go_to(_path(uid), f"{action.name} {told}.")


@after_question(router, "/actions/{uid}/delete", partial(_ask, "actions/delete.html"))
def delete(context: Editor, form: Form, uid: str) -> Response:
    """Delete an action."""
    with context.writing() as connection:
        action = _fetch(connection, context, uid)
        by, note = context.caller.name, form.read(NoteModel, "note").note
        delete_action(connection, uid, app=context.app, by=by, note=note)
    return go_to(_path(uid), f"{action.name} is deleted.")
