"""The commands ``queues list|pause|resume|aside``."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated

from actions.pausing.queues import pause_queue, resume_queue
from cli.connection import ask_database, change_database, get_settings
from cli.options import argument, option, takes_json, takes_pause
from cli.output import describe_pause, err, out, say_until
from models.fields.zone import load_zone
from models.operation_state import Queue
from models.requests.notes import PauseModel
from models.units import format_count, format_seconds, show_instant
from overview.installation.queues import ShownQueue, fetch_queues

_QueueArgument = Annotated[Queue, argument("QUEUE", "quick, heavy or celery.")]

#: Letters of a message in a table; --json has them all.
_SHOWN = 200


@takes_json
def list_queues() -> None:
    """
    List the queues: what waits, how fast it is taken, and what is paused.

    "Empty in" is how long what waits would take at the pace of the last 15 minutes, if
    nothing came in.
    """
    found = ask_database(fetch_queues)
    out().listed(
        found,
        lambda each: {
            "queue": each.queue,
            "waiting": str(each.waiting),
            "oldest": format_seconds(each.oldest_s),
            "taken 1 h": str(each.taken_1_h),
            "empty in": _show_end(each),
            "workers": f"{each.workers} ({each.slots} at a time)",
            "paused": "-" if each.pause is None else describe_pause(each.pause),
        },
    )


def _show_end(shown: ShownQueue) -> str:
    if not shown.waiting:
        return "-"
    return "no end" if shown.empty_in_s is None else format_seconds(shown.empty_in_s)


@takes_json
@takes_pause
def pause(queue: _QueueArgument, *, asked: PauseModel) -> None:
    """
    Pause a queue: nothing more of it is sent or claimed.

    What runs goes on. Occurrences are recorded as before and wait, so that nothing is
    lost; an action with "overlap": "skip" skips those that come while a former one
    waits.
    """
    paused = change_database(pause_queue, queue, asked)
    if out().gave_json(paused):
        return
    ends = say_until(paused.pause)
    out().say(f"Paused queue {queue.value}{ends}: {_count(paused.waiting)}.")
    err().say(
        "What runs goes on. Occurrences are recorded as before, and wait. To undo:"
        f" minutehand queues resume {queue.value}"
    )


@takes_json
def resume(queue: _QueueArgument) -> None:
    """
    Resume a queue: what waits is sent, the oldest first.

    It takes effect within a second, if a scheduler leads.
    """
    resumed = change_database(resume_queue, queue)
    if out().gave_json(resumed):
        return
    out().say(f"Resumed queue {queue.value}: {_count(resumed.waiting)}.")


@takes_json
def show_aside(
    *, empty: Annotated[bool, option("--empty", "Delete them all instead.")] = False
) -> None:
    """
    Show, or delete, messages that no worker could read.

    Workers put such a message aside, at the broker, instead of running it. The newest
    thousand are kept.
    """
    # Celery takes half a second to import.
    open_aside = import_module("celery_app.aside").open_aside
    with open_aside(get_settings()) as aside:
        if empty:
            count = aside.empty()
            if not out().gave_json({"deleted": count}):
                out().say(f"Deleted {count:,}.")
            return
        found = aside.look()
    if out().gave_json(found):
        return
    out().table(
        found,
        lambda each: {
            "at": show_instant(each.at, load_zone(get_settings().timezone)),
            "queue": each.queue,
            "problem": each.problem,
            "bytes": f"{each.size:,}",
            "begins with": repr(each.text[:_SHOWN]),
        },
        empty="Nothing lies aside.",
        spare=("bytes",),
    )


def _count(waiting: int) -> str:
    return format_count(waiting, "operation waits", "operations wait")
