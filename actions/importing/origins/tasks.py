"""What an entry ran, as the step ``run_task``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from actions.importing.origins.durations import write_elapsed
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults

#: Options that run_task takes under the same name.
_SAME = ("priority", "headers")

#: The key of what a reader leaves in the place of something that JSON has not.
UNREADABLE = "__unreadable__"


@dataclass(frozen=True, slots=True)
class Task:
    """
    A task of Celery, and how it was sent.

    Args:
        name: As it is registered.
        args: As JSON has them; see UNREADABLE.
        kwargs: As *args*.
        options: Of ``apply_async``, by name; None and empty ones mean nothing.
    """

    name: str
    args: Sequence[object] = ()
    kwargs: Mapping[str, object] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)


def run_task(draft: ActionDraft, task: Task, defaults: Defaults) -> None:
    """
    Let the action of *draft* send *task*.

    Raises:
        CannotBeError: If an argument is something that JSON has not.
    """
    _refuse_unreadable(task)
    given = {
        name: value
        for name, value in task.options.items()
        if value is not None and value not in ("", {}, [])
    }
    step: dict[str, object] = {
        "name": task.name,
        "args": list(task.args),
        "kwargs": dict(task.kwargs),
        **_find_way(draft, given, defaults),
    }
    if defaults.connection is not None:
        step["connection"] = defaults.connection
    step |= {name: given.pop(name) for name in _SAME if name in given}
    expires = given.pop("expires", None)
    if expires is not None:
        _expire(draft, step, expires)
    for name in sorted(given):
        draft.differences.append(
            f"The option {name!r} is not kept: set it in the task itself."
        )
    # what is no JSON has been refused; the door checks the rest
    step_json: dict[str, JsonValue] = step  # type: ignore[assignment]
    draft.document["operations"] = {"run_task": step_json}


def _find_way(
    draft: ActionDraft, given: dict[str, object], defaults: Defaults
) -> dict[str, object]:
    """Return the queue, or else the exchange; take both out of *given*."""
    queue, exchange = given.pop("queue", None), given.pop("exchange", None)
    key = given.pop("routing_key", None)
    if queue is not None:  # Celery, too, passes over the other two then
        return {"queue": queue}
    if exchange is not None:
        return {"exchange": exchange, **({} if key is None else {"routing_key": key})}
    if key is None:
        return {"queue": defaults.queue}
    draft.differences.append(
        f"Its routing key, {key!r}, has no exchange, so the queue of that name gets it."
    )
    return {"queue": key}


def _expire(draft: ActionDraft, step: dict[str, object], expires: object) -> None:
    """Drop a task that waited for so long; an instant ends the whole action."""
    if isinstance(expires, int | float):
        step["expires"] = write_elapsed(math.ceil(expires))
    elif isinstance(expires, datetime):
        draft.document.setdefault("ends_at", expires.isoformat())
        draft.differences.append(
            "Its tasks expire at one instant, so the action ends there (ends_at)."
        )
    else:
        draft.differences.append(
            "When its tasks expire could not be read: set 'expires' of run_task."
        )


def _refuse_unreadable(task: Task) -> None:
    found = next(_find_unreadable([task.args, task.kwargs]), None)
    if found is not None:
        msg = (
            f"Its arguments have {found}, which JSON has not. Let the task take text"
            " or a number, and change the entry first."
        )
        raise CannotBeError(msg)


def _find_unreadable(value: object) -> Iterator[str]:
    if isinstance(value, Mapping):
        if UNREADABLE in value:
            yield str(value[UNREADABLE])[:80]
        for each in value.values():
            yield from _find_unreadable(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _find_unreadable(each)
