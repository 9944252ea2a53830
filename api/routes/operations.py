"""Operations: what ran, what runs, and what did not."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from http import HTTPStatus
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from api.answers import ROOT, ListJson, answer, answer_begun, answer_list
from api.guarding import ApiRoute
from api.parameters import query, read_query
from dispatch.operation_filters import resolve_filter
from models.errors import ConflictError, NotFoundError
from models.requests.notes import NoteModel
from models.requests.operations import OperationFilterModel, RetryModel
from operations.cancel_and_retry import cancel_or_refuse, retry_or_refuse
from operations.operation_log import FIRST_KEPT, LAST_KEPT, LogPage, fetch_log_page
from operations.state import (
    ReachedState,
    find_operation_id,
    make_reached,
    require_operation_state,
)
from overview.operations import (
    ShownOperation,
    ShownStep,
    fetch_shown_operation,
    fetch_shown_part,
)
from serving.context import Context, Operator, Viewer
from serving.cursors import Paged
from serving.guarding import Body
from serving.refusals import HttpError

router = APIRouter(
    prefix=f"{ROOT}/operations", tags=["operations"], route_class=ApiRoute
)

#: Seconds for which a request may wait: less than what proxies take for dead.
LONGEST_WAIT_S = 60

_ID_EXAMPLE = "3771f246-cc92-5326-b56a-8665f62de245"


def _find_id(
    request: Request,
    operation_id: Annotated[
        str,
        Path(
            description="Id of an operation, its Celery task id; or its first digits,"
            " as lists show them.",
            examples=[_ID_EXAMPLE],
        ),
    ],
) -> UUID:
    context: Context = request.state.context
    with suppress(ValueError):
        return UUID(operation_id)
    try:
        return context.fetch(find_operation_id, operation_id, app=context.app)
    except ConflictError as error:  # several begin so
        raise NotFoundError(str(error)) from None


_Id = Annotated[UUID, Depends(_find_id)]


_read_query = read_query(OperationFilterModel, without="ids")


def _read_filter(
    asked: Annotated[OperationFilterModel, Depends(_read_query)],
) -> OperationFilterModel:
    _refuse_empty("until", asked.since, asked.until)
    _refuse_empty("recorded_until", asked.recorded_since, asked.recorded_until)
    return asked


def _refuse_empty(name: str, since: datetime | None, until: datetime | None) -> None:
    if since is None or until is None or since < until:
        return
    raise HttpError(
        HTTPStatus.UNPROCESSABLE_ENTITY,
        f"nothing lies between {since.isoformat()} and {until.isoformat()}.",
        parameter=name,
        hint="Give a later end, or an earlier beginning.",
    )


@router.get("", response_model=ListJson[ShownOperation])
def list_operations(
    context: Viewer,
    page: Paged,
    asked: Annotated[OperationFilterModel, Depends(_read_filter)],
) -> Response:
    """
    List operations, the latest recorded first.

    What no index knows is looked for among a bounded number of operations. So a part
    may have few items, or none, and still a `next_cursor`: the list ends where there
    is none.
    """
    with context.reading() as connection:
        context.narrow(asked.app)
        wanted = resolve_filter(connection, asked, app=context.app)
        part = fetch_shown_part(connection, wanted, page)
    return answer_list(context, part)


@router.get("/{operation_id}", response_model=ShownOperation)
def read_operation(context: Viewer, operation_id: _Id) -> Response:
    """Return an operation with its steps."""
    return answer(context.fetch(fetch_shown_operation, operation_id, app=context.app))


@router.get("/{operation_id}/steps", response_model=ListJson[ShownStep])
def list_steps(context: Viewer, operation_id: _Id) -> Response:
    """List the steps of an operation, in the order in which they run."""
    shown = context.fetch(fetch_shown_operation, operation_id, app=context.app)
    return answer({"items": shown.steps, "next_cursor": None})


@router.get("/{operation_id}/log", response_model=LogPage)
def read_log(
    context: Viewer,
    operation_id: _Id,
    after: Annotated[
        int, query("`next_after` of the answer before.", ge=0, le=2**31 - 1)
    ] = 0,
    limit: Annotated[
        int, query("The most lines.", ge=1, le=FIRST_KEPT + LAST_KEPT)
    ] = FIRST_KEPT + LAST_KEPT,
) -> Response:
    """
    Return what the steps said while they ran, the oldest line first.

    The first 100 and the last 400 lines are kept; numbers that are missing in between
    were dropped. To follow it, ask again with `next_after` until `is_final`.
    """
    found = context.fetch(
        fetch_log_page, operation_id, after=after, limit=limit, app=context.app
    )
    return answer(found)


@router.get("/{operation_id}/state", response_model=ReachedState)
async def read_state(
    context: Viewer,
    operation_id: _Id,
    wait: Annotated[
        int,
        query("Seconds for which to wait until it is final.", ge=0, le=LONGEST_WAIT_S),
    ] = 0,
) -> Response:
    """
    Return the state of an operation, in one word.

    With `wait`, the answer comes as soon as it is final, or when the time is over. An
    id that nobody knows is 404, never `pending`.
    """
    find = partial(require_operation_state, operation_id=operation_id, app=context.app)
    state = await run_in_threadpool(context.fetch, find)
    if wait:
        at_most = timedelta(seconds=wait)
        waiters = context.services.waiters
        found = await waiters.wait(operation_id, state, at_most=at_most)
        if found is None:  # it was removed meanwhile; reading it again says so
            found = await run_in_threadpool(context.fetch, find)
        state = found
    return answer(make_reached(operation_id, state))


@router.post("/{operation_id}/cancel", response_model=ShownOperation)
@Body(
    NoteModel,
    examples={"with a note": {"note": "the source is wrong"}, "nothing": {}},
    required=False,
)
def cancel_operation(context: Operator, operation_id: _Id) -> Response:
    """
    Cancel an operation that is not final.

    It is final at once; a worker that runs it stops at its next progress point.
    """
    asked = context.read(NoteModel, "cancellation")
    with context.writing() as connection:
        cancel_or_refuse(connection, operation_id, app=context.app, note=asked.note)
        shown = fetch_shown_operation(connection, operation_id, app=context.app)
    return answer(shown)


@router.post("/{operation_id}/retry", status_code=202, response_model=ShownOperation)
@Body(
    RetryModel,
    examples={"from a step": {"from_step": "refresh"}, "from the failed step": {}},
    required=False,
)
def retry_operation(context: Operator, operation_id: _Id) -> Response:
    """
    Run a failed or canceled operation again, under the same id.

    It begins with the first step that has not succeeded, or with `from_step`, which
    runs again with all after it. Nobody gets a mail twice.
    """
    asked = context.read(RetryModel, "retry")
    app, step, note = context.app, asked.from_step, asked.note
    with context.writing() as connection:
        retry_or_refuse(connection, operation_id, from_step=step, app=app, note=note)
        shown = fetch_shown_operation(connection, operation_id, app=context.app)
    return answer_begun(shown, f"/operations/{operation_id}")
