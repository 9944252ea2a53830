"""What the page of the workers says in words. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from models.operation_state import WORKER_QUEUES, Queue
from overview.installation.queues import ShownQueue

#: The prefix that queues have unless a setting says otherwise.
_USUAL_PREFIX = "minutehand"


def tell_verdict(queues: Sequence[ShownQueue]) -> str:
    """Return in a sentence or two which queues of our workers are served."""
    queues = [each for each in queues if each.queue in WORKER_QUEUES]
    served = [e.queue.value for e in queues if e.workers and e.pause is None]
    paused = [e.queue.value for e in queues if e.pause is not None]
    left = [e.queue.value for e in queues if not e.workers and e.pause is None]
    if len(served) == len(queues):
        return "Every queue is served."
    if len(left) == len(queues):
        return "No queue is served: no worker takes anything."
    told = []
    if served:
        told.append(f"{_join(served)} {_be(served)} served.")
    if paused:
        told.append(f"{_join(paused)} {_be(paused)} paused.")
    if left:
        told.append(f"{_join(left)} {_be(left)} not{' served' if not served else ''}.")
    return " ".join(told)


def _be(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"


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
    given = prefix or "none"
    own = (
        ""
        if given == _USUAL_PREFIX
        else f"MINUTEHAND_QUEUE_PREFIX={shlex.quote(given)} "
    )
    return [
        ("Start a worker", f"{own}minutehand worker -Q {names} -n {name}@%h"),
        (
            "Or, with Celery's own options",
            f"{own}celery -A celery_app worker -Q {names} -n {name}@%h",
        ),
    ]
