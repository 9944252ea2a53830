"""Scheduled actions: list, post, read, replace, patch and delete them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from actions.list_actions import Order
from actions.posting.edit import (
    NEXT_SHOWN,
    PostedAction,
    PostedActions,
    patch_text,
    post_all_with_outcomes,
    post_text,
    read_all_text,
    replace_text,
)
from actions.posting.post import SeenAction, delete_action
from api.answers import ROOT, ListJson, answer, answer_list, answer_nothing
from api.guarding import ApiRoute
from api.parameters import (
    PATCH_TYPES,
    MergePatchModel,
    NoteQuery,
    need_app,
    query,
    read_query,
)
from api.routes.action_examples import EXAMPLES, MANY, PATCHES, REPLACEMENT
from models.door.documents import LARGEST_BULK
from models.requests.actions import ActionFilterModel
from models.scheduled_action import ScheduledActionModel
from overview.actions import (
    ActionWithRuns,
    DetailedAction,
    fetch_action_part,
    fetch_detailed_action,
)
from overview.recent_runs import MOST_LISTED
from serving.context import Editor, Viewer
from serving.cursors import Paged
from serving.guarding import Body, heavy
from serving.refusals import read_revision

router = APIRouter(prefix=f"{ROOT}/actions", tags=["actions"], route_class=ApiRoute)

#: Revisions that an action shows.
_REVISIONS = 10

_App = Annotated[
    str | None, query("Uid of its small app; a key of one app may leave it out.")
]

_DryRun = Annotated[bool, query("Store nothing.")]


_read_filter = read_query(ActionFilterModel, without="uids")


@router.get("", response_model=ListJson[ActionWithRuns])
def list_actions(
    context: Viewer,
    page: Paged,
    asked: Annotated[ActionFilterModel, Depends(_read_filter)],
    *,
    sort: Annotated[
        Order,
        query(
            "`name`: by small app and name. `next`: the next due first, and"
            " only those that will be due."
        ),
    ] = Order.NAME,
    runs: Annotated[
        int,
        query(
            "How many of their latest operations to show of each.",
            ge=0,
            le=MOST_LISTED,
            examples=[20],
        ),
    ] = 0,
) -> Response:
    """
    List scheduled actions, each with its last run.

    A part of a list that is filtered by text, kind or queue may have few entries or
    none although the list goes on: follow `next_cursor` until it is null.
    """
    wanted = asked.but(app=context.narrow(asked.app))
    part = context.fetch(fetch_action_part, wanted, page, order=sort, runs=runs)
    return answer_list(context, part, lambda each: each.seen_by(context.app))


@router.post(
    "",
    status_code=201,
    response_model=PostedAction,
    responses={200: {"model": PostedAction, "description": "With `dry_run`."}},
)
@Body(ScheduledActionModel, examples=EXAMPLES)
def create_action(
    context: Editor,
    app: _App = None,
    note: NoteQuery = None,
    *,
    dry_run: _DryRun = False,
) -> Response:
    """
    Post a scheduled action; it takes effect now, and earlier occurrences do not run.

    The body is the document, verbatim.
    """
    owner, terms = need_app(context, app), context.sign(note)
    outcome = context.change(
        post_text, owner, context.body, terms=terms, dry_run=dry_run
    )
    if dry_run:
        return answer(outcome.judge())
    return _answer_posted(outcome, HTTPStatus.CREATED)


@router.post("/batch", response_model=PostedActions)
@Body(
    Annotated[list[ScheduledActionModel], Field(min_length=1)],
    examples=MANY,
    largest=LARGEST_BULK,
    types=("application/json", "application/x-ndjson"),
)
@heavy
def create_actions(
    context: Editor,
    app: _App = None,
    note: NoteQuery = None,
    *,
    dry_run: _DryRun = False,
) -> Response:
    """
    Post many scheduled actions, all or none: a JSON list, or JSON lines.

    Ten thousand in one body take some seconds. Pointers of what is refused begin with
    the number of the action, from 0.
    """
    services = context.services
    owner = need_app(context, app)
    actions = read_all_text(services.engine, owner, context.body, services.terms)
    how = context.sign(note)
    found = context.change(post_all_with_outcomes, owner, actions, how, dry_run=dry_run)
    return answer(found.judge())


@router.get("/{uid}", response_model=DetailedAction)
def read_action(context: Viewer, uid: str) -> Response:
    """
    Return a scheduled action with its document; a deleted one, too.

    The ETag is the revision of its document, which a pause does not change.
    """
    found = context.fetch(
        fetch_detailed_action,
        uid,
        app=context.app,
        count=NEXT_SHOWN,
        revisions=_REVISIONS,
        is_uid=True,
    )
    return answer(found.seen_by(context.app), etag=found.document_revision)


@router.put("/{uid}", response_model=PostedAction)
@Body(ScheduledActionModel, examples=REPLACEMENT)
def replace_action(
    context: Editor, uid: str, note: NoteQuery = None, *, dry_run: _DryRun = False
) -> Response:
    """
    Replace the document of an action; it takes effect now.

    A paused action stays paused. Occurrences that were due under the old rule and not
    decided yet will not run: `superseded` lists them.
    """
    seen = SeenAction(uid, context.app, read_revision(context.expected))
    terms = context.sign(note)
    outcome = context.change(
        replace_text, seen, context.body, terms=terms, dry_run=dry_run
    )
    return answer(outcome.judge()) if dry_run else _answer_posted(outcome)


@router.patch("/{uid}", response_model=PostedAction)
@Body(MergePatchModel, examples=PATCHES, types=PATCH_TYPES)
def patch_action(context: Editor, uid: str, note: NoteQuery = None) -> Response:
    """
    Change some members of the document: a JSON Merge Patch (RFC 7396).

    Null removes a member. The result is read as a whole, so that pointers of what is
    refused are into the merged document.
    """
    seen = SeenAction(uid, context.app, read_revision(context.expected))
    return _answer_posted(
        context.change(patch_text, seen, context.body, terms=context.sign(note))
    )


@router.delete("/{uid}", status_code=204)
def remove_action(context: Editor, uid: str, note: NoteQuery = None) -> Response:
    """
    Delete an action; its operations and revisions stay, and its uid stays taken.

    Its waiting operations are canceled when a worker takes them.
    """
    expected, app = read_revision(context.expected), context.app
    by = context.caller.name
    context.change(
        delete_action, uid, app=app, expected_revision=expected, by=by, note=note
    )
    return answer_nothing()


def _answer_posted(
    outcome: PostedAction, status: HTTPStatus = HTTPStatus.OK
) -> Response:
    return answer(
        outcome.judge(),
        status=status,
        etag=outcome.document_revision,
        location=None if status is HTTPStatus.OK else f"/actions/{outcome.uid}",
    )
