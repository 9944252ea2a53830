"""The queues, the workers and the leader; to pause a queue, and to drain a worker."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from functools import partial
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from starlette.responses import Response

from actions.pausing.queues import pause_queue, resume_queue
from models.database.engine import read_clock
from models.operation_state import WORKER_QUEUES, Queue
from models.requests.notes import NoteModel
from models.units import capitalize, format_count
from operations.fleet.processes import RENEW_EVERY
from overview.doctor.examine import look
from overview.doctor.finding import Finding, View
from overview.installation.leaders import fetch_leaders
from overview.installation.queues import fetch_queues
from overview.installation.status import fetch_app_status
from overview.installation.workers import fetch_worker, fetch_workers, set_drained
from serving.context import Context, Operator, Viewer
from settings import Settings
from web.charts import DEPTH, draw_spark
from web.forms import Form, go_to
from web.guarding import make_router, takes_form
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import find_shown_zone, render

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
        shown = {"status": status, "tell": tell_verdict}
        return render(context, "workers/workers_of_app.html", shown)
    queues = read_part(context, fetch_queues)
    troubles = read_part(context, _find_troubles, settings)
    known = [] if isinstance(queues, Unread) else queues
    untaken = [e.queue for e in known if e.queue in WORKER_QUEUES and not e.workers]
    values = {
        "queues": queues,
        "troubles": troubles,
        "tell": tell_verdict,
        "depths": {e.queue: draw_spark(e.history, DEPTH) for e in known},
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
        found = next(e for e in fetch_queues(connection) if e.queue is queue)
    return "workers/queue_pause.html", {
        "shown": found,
        "waits": format_count(found.waiting, *_WAITS),
        "zone": find_shown_zone(context).key,
    }


@after_question(router, "/queues/{queue}/pause", _ask_pause)
def pause(context: Operator, form: Form, queue: Queue) -> Response:
    """Pause a queue, or give its pause another note and end."""
    context.caller.demand_installation(_SHARED)
    asked = form.read_pause(find_shown_zone(context))
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


def _find_troubles(connection: sa.Connection, settings: Settings) -> list[Finding]:
    """Return the queues that doctor does not call well."""
    view = View(connection, settings, read_clock(connection))
    return [each for each in look(view, ("queues",)) if each.queue]


def tell_verdict(findings: Sequence[Finding]) -> str:
    """Return in a sentence which queues are not served, in the words of doctor."""
    names = [each.name for each in findings if each.queue]
    if not names:
        return "Every queue that is needed is served."
    return f"{capitalize('; '.join(names))}."


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
