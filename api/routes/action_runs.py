"""Run an action now, let it rest; whom it reaches, and what became of it."""

from __future__ import annotations

from typing import Annotated

import sqlalchemy as sa
from fastapi import APIRouter, Path
from starlette.responses import Response
from typing_extensions import TypedDict

from actions.explaining.why import WhyAnswer
from actions.pausing import pause_and_resume
from actions.pausing.pause_and_resume import ActionPause, fetch_action_pause
from actions.read_actions import (
    RevisionNote,
    ShownRevision,
    fetch_revision_part,
    fetch_shown_revision,
)
from api.answers import ROOT, ListJson, answer, answer_begun, answer_list
from api.guarding import ApiRoute
from api.parameters import NoteQuery, query
from api.routes.action_examples import PAUSES, RUNS
from dispatch.manual_runs import run_now
from models.errors import Problem, RuleError
from models.fields.field_types import Instant
from models.requests.actions import RunModel
from models.requests.notes import PauseModel
from overview.operations import ShownOperation, fetch_shown_operation
from overview.previews import RunPreview, preview_run
from overview.recipients import Recipient, fetch_recipient_part
from overview.why.instant import explain_asked
from overview.why.occurrence_list import ShownOccurrence, fetch_occurrence_part
from serving.context import Context, Operator, Viewer
from serving.cursors import Paged
from serving.guarding import Body
from serving.refusals import refuse_parameter

router = APIRouter(
    prefix=f"{ROOT}/actions/{{uid}}", tags=["actions"], route_class=ApiRoute
)


_LARGEST = 2**31 - 1
_Revision = Annotated[int, Path(ge=1, le=_LARGEST)]


class AnswerListJson(TypedDict):
    """One answer for each operation of that minute, else exactly one."""

    items: list[WhyAnswer]


@router.get("/revisions", response_model=ListJson[RevisionNote])
def list_revisions(context: Viewer, uid: str, page: Paged) -> Response:
    """List the revisions of an action, newest first: what was changed, and by whom."""
    part = context.fetch(fetch_revision_part, uid, page, app=context.app)
    return answer_list(context, part)


@router.get("/revisions/{revision}", response_model=ShownRevision)
def read_revision_document(context: Viewer, uid: str, revision: _Revision) -> Response:
    """Return one revision of an action with the document that it had then."""
    return answer(context.fetch(fetch_shown_revision, uid, revision, app=context.app))


@router.get("/occurrences", response_model=ListJson[ShownOccurrence])
def list_occurrences(
    context: Viewer,
    uid: str,
    page: Paged,
    since: Annotated[
        Instant | None, query("Inclusive. Left out: seven days ago.", alias="from")
    ] = None,
    until: Annotated[
        Instant | None, query("Exclusive. Left out: in seven days.")
    ] = None,
) -> Response:
    """
    List the occurrences of an action, past and planned, each with its decision.

    Of an event-driven action: those that were decided, and those to which the events so
    far will lead. At most 400 days.
    """
    part = context.fetch(
        fetch_occurrence_part, uid, page, since=since, until=until, app=context.app
    )
    return answer_list(context, part)


@router.get("/why", response_model=AnswerListJson)
def explain(
    context: Viewer,
    uid: str,
    at: Annotated[
        str | None,
        query(
            "The minute that is asked about, by the clock of the rule"
            " unless it has an offset; also now, -1h, 07:00 or yesterday 07:00.",
            max_length=60,
            examples=["2026-11-23T06:00:00Z"],
        ),
    ] = None,
) -> Response:
    """
    Say why an action ran in a minute, or did not: past or future.

    Without a minute, of the last run and the next.
    """
    with context.reading() as connection:
        try:
            answers = explain_asked(connection, uid, at, app=context.app)
        except RuleError as error:
            raise refuse_parameter("at", error) from None
    return answer({"items": answers})


class RecipientListJson(ListJson[Recipient]):
    """
    A part of the users of the action's small app, and what is true of all.

    ``count`` would get the mails, ``on_event``: each only when an event of theirs
    triggers the action; ``unknown``: names that the small app does not have.
    """

    count: int
    on_event: bool
    unknown: list[Problem]


@router.post(
    "/runs",
    status_code=202,
    response_model=ShownOperation,
    responses={200: {"model": RunPreview, "description": "Of a dry run"}},
)
@Body(RunModel, examples=RUNS, required=False)
def run_action(
    context: Operator,
    uid: str,
    *,
    dry_run: Annotated[bool, query("Say what it would do; record nothing.")] = False,
) -> Response:
    """
    Run an action now; its schedule does not move.

    The operation is recorded, and sent within a second while a scheduler leads. An
    event-driven action runs for all its recipients, unless `user` names one.
    """
    wanted = context.read(RunModel, "run")
    if dry_run:
        foreseen = context.fetch(
            preview_run, uid, user_id=wanted.user, steps=wanted.steps, app=context.app
        )
        return answer(foreseen)
    operation_id = run_now(
        context.services.engine,
        uid,
        wanted,
        request=context.repeatable,
        app=context.app,
        author=context.author,
    )
    shown = context.fetch(fetch_shown_operation, operation_id)
    return answer_begun(shown, f"/operations/{operation_id}")


@router.put("/pause", response_model=ActionPause)
@Body(PauseModel, examples=PAUSES, required=False)
def pause_action(context: Operator, uid: str) -> Response:
    """
    Pause an action; or give its pause this end and note, or none.

    Occurrences that come due during the pause are not recorded and never run. What was
    recorded before still runs.
    """
    wanted = context.read(PauseModel, "pause")
    app, expected = context.app, context.expected
    with context.writing() as connection:
        pause_and_resume.pause_action(
            connection, uid, wanted, app=app, expected=expected, as_it_is=False
        )
        return _answer_pause(connection, context, uid)


@router.delete("/pause", response_model=ActionPause)
def resume_action(context: Operator, uid: str, note: NoteQuery = None) -> Response:
    """
    Resume an action from now on; a quarantine ends, too, if its rule can be read.

    An action that is paused with its small app is resumed with that.
    """
    app, expected = context.app, context.expected
    bounds = context.services.terms.bounds
    with context.writing() as connection:
        pause_and_resume.resume_action(
            connection, uid, note, app=app, expected=expected, bounds=bounds
        )
        return _answer_pause(connection, context, uid)


def _answer_pause(connection: sa.Connection, context: Context, uid: str) -> Response:
    found = fetch_action_pause(connection, uid, app=context.app)
    return answer(found, etag=found.tag)


@router.get("/recipients", response_model=RecipientListJson)
def list_recipients(
    context: Viewer,
    uid: str,
    page: Paged,
    *,
    is_in: Annotated[
        bool | None, query("Only those who are in, or out. Left out: all.")
    ] = None,
) -> Response:
    """
    List the users of the small app: who would get the mails now, and why.

    A filtered part may have few entries or none although the list goes on: follow
    `next_cursor` until it is null.
    """
    found = context.fetch(
        fetch_recipient_part, uid, page, inside=is_in, app=context.app
    )
    more = {"count": found.count, "on_event": found.on_event, "unknown": found.unknown}
    return answer_list(context, found.part, more=more)
