"""Queues and their pauses; workers that are to take nothing new."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from actions.pausing.pause_state import tag_pause
from actions.pausing.queues import (
    PausedQueue,
    ResumedQueue,
    pause_queue,
    resume_queue,
)
from api.answers import ROOT, answer
from api.guarding import ApiRoute, takes
from models.operation_state import Queue
from models.requests.actions import NoteModel, PauseModel
from overview.installation.workers import ShownWorker, set_drained
from serving.context import Context, Operator

router = APIRouter(prefix=ROOT, tags=["system"], route_class=ApiRoute)

#: What all small apps share.
_SHARED = "queues and workers"


@router.put("/queues/{queue}/pause", response_model=PausedQueue)
@takes(
    PauseModel,
    examples={
        "until": {"note": "the mail server moves", "until": "2036-01-01T09:00:00Z"}
    },
    required=False,
)
def pause_one_queue(context: Operator, queue: Queue) -> Response:
    """
    Pause a queue: nothing more of it is sent or claimed, what runs goes on.

    Occurrences are recorded as before, and wait. This needs a key of the installation.
    """
    context.demand_installation(_SHARED)
    asked = context.read(PauseModel, "pause")
    with context.writing() as connection:
        paused = pause_queue(
            connection,
            queue,
            until=asked.until,
            note=asked.note,
            by=context.caller.name,
            expected=context.expected,
        )
    return answer(paused, etag=tag_pause(paused.pause))


@router.delete("/queues/{queue}/pause", response_model=ResumedQueue)
def resume_one_queue(context: Operator, queue: Queue) -> Response:
    """Resume a queue: what waits is sent within a second, the oldest first."""
    context.demand_installation(_SHARED)
    with context.writing() as connection:
        resumed = resume_queue(connection, queue, expected=context.expected)
    return answer(resumed, etag=tag_pause(None))


@router.post("/workers/{worker_id}/drain", response_model=ShownWorker)
@takes(
    NoteModel, examples={"before a deployment": {"note": "new kernel"}}, required=False
)
def drain_one_worker(context: Operator, worker_id: UUID) -> Response:
    """
    Ask a worker to finish what it runs and to take nothing new.

    It does so within 20 seconds, until it is resumed or started again; its state says
    when it is drained. This needs a key of the installation.
    """
    context.demand_installation(_SHARED)
    return _set_drained(context, worker_id, drained=True)


@router.post("/workers/{worker_id}/resume", response_model=ShownWorker)
@takes(NoteModel, examples={"it is not stopped": {}}, required=False)
def resume_one_worker(context: Operator, worker_id: UUID) -> Response:
    """
    Let a drained worker take operations again, within 20 seconds.

    This needs a key of the installation.
    """
    context.demand_installation(_SHARED)
    return _set_drained(context, worker_id, drained=False)


def _set_drained(context: Context, worker_id: UUID, *, drained: bool) -> Response:
    asked = context.read(NoteModel, "note")
    with context.writing() as connection:
        found = set_drained(
            connection,
            worker_id,
            drained=drained,
            by=context.caller.name,
            note=asked.note,
        )
    return answer(found)
