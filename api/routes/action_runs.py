"""Run a scheduled action now, let it rest, and see whom it reaches."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from actions.pausing.pause_and_resume import (
    ActionPause,
    fetch_action_pause,
    set_paused,
)
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute, takes
from api.parameters import NoteQuery
from api.routes.action_examples import PAUSES, RUNS
from dispatch.manual_runs import run_now
from models.errors import Problem
from models.requests.actions import PauseModel, RunModel
from overview.operations import ShownOperation, fetch_shown_operation
from overview.previews.runs import RunPreview, preview_run
from overview.recipients import (
    Recipient,
    fetch_recipient_part,
)
from serving.context import Context, Operator, Viewer
from serving.cursors import Paged

router = APIRouter(
    prefix=f"{ROOT}/actions/{{uid}}", tags=["actions"], route_class=ApiRoute
)


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
@takes(RunModel, examples=RUNS, required=False)
def run_action(
    context: Operator,
    uid: str,
    *,
    dry_run: Annotated[
        bool, Query(description="Say what it would do; record nothing.")
    ] = False,
) -> Response:
    """
    Run an action now; its schedule does not move.

    The operation is recorded, and sent within a second while a scheduler leads. An
    event-driven action runs for all its recipients, unless `user` names one.
    """
    wanted = context.read(RunModel, "run") if context.body else RunModel()
    if dry_run:
        with context.reading() as connection:
            foreseen = preview_run(
                connection,
                uid,
                user_id=wanted.user,
                steps=wanted.steps,
                app=context.app,
            )
        return answer(foreseen)
    operation_id = run_now(
        context.services.engine,
        uid,
        request=context.repeatable,
        user_id=wanted.user,
        force=wanted.force,
        steps=wanted.steps,
        note=wanted.note,
        app=context.app,
        author=context.caller.as_author(context.request_id),
    )
    with context.reading() as connection:
        shown = fetch_shown_operation(connection, operation_id)
    return answer(
        shown,
        status=HTTPStatus.ACCEPTED,
        location=f"/operations/{operation_id}",
    )


@router.put("/pause", response_model=ActionPause)
@takes(PauseModel, examples=PAUSES, required=False)
def pause_action(context: Operator, uid: str) -> Response:
    """
    Pause an action; or give its pause this end and note, or none.

    Occurrences that come due during the pause are not recorded and never run. What was
    recorded before still runs.
    """
    wanted = context.read(PauseModel, "pause") if context.body else PauseModel()
    return _switch(context, uid, wanted)


@router.delete("/pause", response_model=ActionPause)
def resume_action(context: Operator, uid: str, note: NoteQuery = None) -> Response:
    """
    Resume an action from now on; a quarantine ends, too, if its rule can be read.

    An action that is paused with its small app is resumed with that.
    """
    return _switch(context, uid, None, note)


def _switch(
    context: Context, uid: str, wanted: PauseModel | None, note: str | None = None
) -> Response:
    expected = context.expected
    with context.writing() as connection:
        set_paused(
            connection,
            uid,
            paused=wanted is not None,
            until=None if wanted is None else wanted.until,
            note=note if wanted is None else wanted.note,
            by=context.caller.name,
            app=context.app,
            expected=expected,
            as_it_is=False,
        )
        found = fetch_action_pause(connection, uid, app=context.app)
    return answer(found, etag=found.tag)


@router.get("/recipients", response_model=RecipientListJson)
def list_recipients(
    context: Viewer,
    uid: str,
    page: Paged,
    *,
    is_in: Annotated[
        bool | None, Query(description="Only those who are in, or out. Left out: all.")
    ] = None,
) -> Response:
    """
    List the users of the small app: who would get the mails now, and why.

    A filtered part may have few entries or none although the list goes on: follow
    `next_cursor` until it is null.
    """
    with context.reading() as connection:
        found = fetch_recipient_part(
            connection, uid, page, inside=is_in, app=context.app
        )
    more = {
        "count": found.count,
        "on_event": found.on_event,
        "unknown": found.unknown,
    }
    return answer_list(context, found.part, more=more)
