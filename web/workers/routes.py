"""The queues, the workers and the leader; to pause a queue, and to drain a worker."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any
from uuid import UUID

from starlette.responses import Response

from actions.pausing.queues import pause_queue, resume_queue
from models.database.engine import read_clock
from models.operation_state import WORKER_QUEUES, Queue
from models.requests.notes import NoteModel, PauseModel
from models.units import format_count
from operations.fleet.processes import RENEW_EVERY
from overview.installation.leaders import fetch_leaders
from overview.installation.queues import ShownQueue, fetch_queues
from overview.installation.status import fetch_app_status
from overview.installation.workers import fetch_worker, fetch_workers, set_drained
from serving.context import Context, Operator, Viewer
from web.charts import DEPTH, draw_even_spark
from web.forms import Form, go_to
from web.guarding import make_router, takes_form
from web.preferences import format_iso
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import render

router = make_router("/workers")

#: The prefix that queues have unless a setting says otherwise.
_USUAL_PREFIX = "minutehand"

#: What all small apps share.
_SHARED = "queues and workers"

_WAITS = ("operation waits", "operations wait")


@router.get("")
def show_workers(context: Viewer) -> Response:
    """Show whether what waits is taken, by whom, and who leads."""
    settings = context.services.settings
    if context.app is not None:
        read = partial(fetch_app_status, settings=settings, app=context.app)
        status = read_part(context, read)
        return render(context, "workers/workers_of_app.html", {"status": status})
    queues = read_part(context, fetch_queues)
    known = [] if isinstance(queues, Unread) else queues
    untaken = [e.queue for e in known if e.queue in WORKER_QUEUES and not e.workers]
    values = {
        "queues": queues,
        "verdict": tell_verdict(known) if known else "",
        "depths": {e.queue: draw_even_spark(e.history, DEPTH) for e in known},
        "workers": read_part(context, fetch_workers),
        "leaders": read_part(context, fetch_leaders),
        "commands": tell_commands(
            untaken, prefix=settings.queue_prefix, broker_url=settings.broker_url
        ),
    }
    return render(context, "workers/workers.html", values)


def _ask_pause(context: Context, queue: Queue) -> tuple[str, dict[str, Any]]:
    """Ask whether to pause a queue."""
    context.caller.demand_installation(_SHARED)
    with context.reading() as connection:
        now = read_clock(connection)
        found = next(e for e in fetch_queues(connection) if e.queue is queue)
    return "workers/queue_pause.html", {
        "shown": found,
        "waits": format_count(found.waiting, *_WAITS),
        "example": format_iso(now + timedelta(hours=1)),
    }


@after_question(router, "/queues/{queue}/pause", _ask_pause)
def pause(context: Operator, form: Form, queue: Queue) -> Response:
    """Pause a queue, or give its pause another note and end."""
    context.caller.demand_installation(_SHARED)
    asked = form.read(PauseModel, "pause")
    paused = context.change(pause_queue, queue, asked)
    return go_to(
        "/workers",
        f"Paused {queue.value}; {format_count(paused.waiting, *_WAITS)}.",
        undo=f"/workers/queues/{queue.value}/resume",
    )


@router.post("/queues/{queue}/resume")
@takes_form
def resume(context: Operator, queue: Queue) -> Response:
    """Resume a queue."""
    context.caller.demand_installation(_SHARED)
    resumed = context.change(resume_queue, queue)
    waiting = format_count(resumed.waiting, "operation is", "operations are")
    return go_to("/workers", f"Resumed {queue.value}; {waiting} sent now.")


def _ask_drain(context: Context, worker_id: UUID) -> tuple[str, dict[str, Any]]:
    """Ask whether to drain a worker."""
    context.caller.demand_installation(_SHARED)
    with context.reading() as connection:
        found = fetch_worker(connection, worker_id)
        queues = fetch_queues(connection)
    alone = [
        each.queue.value
        for each in queues
        if each.workers == 1 and each.queue in (found.queues or ())
    ]
    values = {"worker": found, "alone": alone, "within": _WITHIN}
    return "workers/worker_drain.html", values


@after_question(router, "/{worker_id}/drain", _ask_drain)
def drain(context: Operator, form: Form, worker_id: UUID) -> Response:
    """Drain a worker."""
    context.caller.demand_installation(_SHARED)
    note = form.read(NoteModel, "note").note
    found = context.change(
        set_drained, worker_id, drained=True, by=context.caller.name, note=note
    )
    return go_to(
        "/workers",
        f"Draining {found.name}; it takes nothing new within {_WITHIN}.",
        undo=f"/workers/{worker_id}/resume",
    )


@router.post("/{worker_id}/resume")
@takes_form
def take_again(context: Operator, worker_id: UUID) -> Response:
    """Let a drained worker take work again."""
    context.caller.demand_installation(_SHARED)
    found = context.change(
        set_drained, worker_id, drained=False, by=context.caller.name
    )
    return go_to(
        "/workers", f"Resumed {found.name}; it takes operations within {_WITHIN}."
    )


_WITHIN = f"{RENEW_EVERY.total_seconds():.0f} seconds"


def tell_verdict(queues: Sequence[ShownQueue]) -> str:
    """Return in a sentence or two which queues of our workers are served."""
    found: dict[str, list[str]] = {"served": [], "paused": [], "not served": []}
    for each in queues:
        if each.queue in WORKER_QUEUES:
            served = "served" if each.workers else "not served"
            found[served if each.pause is None else "paused"].append(each.queue.value)
    told = {words: names for words, names in found.items() if names}
    match [*told]:
        case ["served"] | []:
            return "Every queue is served."
        case ["not served"]:
            return "No queue is served: no worker takes anything."
        case ["served", *_, "not served"]:
            told["not"] = told.pop("not served")  # it was said a moment ago
    return " ".join(
        f"{_join(names)} {'is' if len(names) == 1 else 'are'} {words}."
        for words, names in told.items()
    )


def _join(names: Sequence[str]) -> str:
    """
    Return *names* as one says them.

    >>> _join(["quick", "heavy", "celery"])
    'quick, heavy and celery'
    """
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def tell_commands(
    queues: Sequence[Queue], *, prefix: str, broker_url: str
) -> list[tuple[str, str]]:
    """
    Return what starts a worker of this installation: labels, and lines for a shell.

    Args:
        queues: Those that it is to take; none: quick.
        prefix: ``MINUTEHAND_QUEUE_PREFIX``; a worker of another prefix takes nothing.
        broker_url: Of this process; only its scheme matters.
    """
    if broker_url.startswith("memory"):
        return [("Everything in one process", "minutehand up")]
    names = ",".join(each.value for each in queues) or Queue.QUICK.value
    name = names.partition(",")[0]
    given, own = prefix or "none", ""
    if given != _USUAL_PREFIX:
        own = f"MINUTEHAND_QUEUE_PREFIX={shlex.quote(given)} "
    told = f"worker -Q {names} -n {name}@%h"
    return [
        ("Start a worker", f"{own}minutehand {told}"),
        ("Or, with Celery's own options", f"{own}celery -A celery_app {told}"),
    ]
