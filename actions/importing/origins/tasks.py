"""What an entry ran, as the step ``run_task``. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from pydantic import JsonValue

from actions.importing.origins.imported import UNREADABLE, ActionDraft, Stored, refuse
from models.fields.duration import write_elapsed

#: Options of ``apply_async`` that run_task has, or that something is said of, in order.
_OPTIONS = (
    *("priority", "headers", "expires"),
    *("time_limit", "soft_time_limit", "serializer"),
)


def run_task(
    draft: ActionDraft,
    name: object,
    args: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
    options: Mapping[str, object] | None = None,
) -> None:
    """
    Let the action of *draft* send a task of Celery.

    Args:
        draft: Gets the step, and what differs.
        name: As the task is registered; the door checks it.
        args: As their origin has them; see UNREADABLE.
        kwargs: As *args*.
        options: Of ``apply_async``, by name; None and empty ones mean nothing.

    Raises:
        CannotBeError: If an argument is something that JSON has not.
    """
    args, kwargs = _make_plain(args), _make_plain(kwargs or {})
    given = {
        option: value
        for option, value in (options or {}).items()
        if value is not None and value not in ("", {}, [])
    }
    step: dict[str, Any] = {"name": name, "args": list(args), "kwargs": dict(kwargs)}
    step |= _find_way(draft, given)
    if draft.defaults.connection is not None:
        step["connection"] = draft.defaults.connection
    for option in (*_OPTIONS, *sorted(given.keys() - set(_OPTIONS))):
        if option in given:
            draft.differences += _set_option(draft, step, option, given[option])
    draft.document["operations"] = {"run_task": step}


def _set_option(
    draft: ActionDraft, step: dict[str, Any], option: str, value: object
) -> Iterator[str]:
    """Keep an option in *step*, or in the action; yield what differs."""
    match option, value:
        case "priority" | "headers", _:
            step[option] = value
        case "expires" | "time_limit" | "soft_time_limit", int() | float():
            step[option] = write_elapsed(math.ceil(value))
        case "time_limit" | "soft_time_limit", _:
            yield f"Its {option} could not be read: set it by hand."
        case "expires", datetime():
            draft.document.setdefault("ends_at", value.isoformat())
            yield "Its tasks expire at one instant, so the action ends there (ends_at)."
        case "expires", _:
            yield "When its tasks expire could not be read: set 'expires' of run_task."
        case "serializer", _:
            if value != "json":
                yield (
                    f"It was sent as {value!r}, and is sent as JSON: its workers must"
                    " accept that (accept_content)."
                )
        case _:
            yield (
                f"The option {option!r}, {value!r:.80}, is not kept: let the rule or"
                " the task itself do what it did."
            )


def _find_way(draft: ActionDraft, given: dict[str, object]) -> dict[str, JsonValue]:
    """Return where Celery sends it; take that out of *given*."""
    way: dict[str, Any] = {
        name: given.pop(name, None) for name in ("exchange", "routing_key", "queue")
    }
    queue = way.pop("queue")
    # Celery passes over either of them alone, and over a queue beside both.
    return way if all(way.values()) else {"queue": queue or draft.defaults.queue}


def _make_plain(value: Any) -> Any:
    """Return *value* as JSON has it; refuse what JSON has not."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_make_plain(each) for each in value]
    is_plain = isinstance(value, dict) and all(isinstance(key, str) for key in value)
    if is_plain and UNREADABLE not in value:
        return {key: _make_plain(each) for key, each in value.items()}
    kind = value.kind if isinstance(value, Stored) else type(value).__name__
    found = str(value[UNREADABLE] if is_plain else f"a {kind}")
    return refuse(
        f"Its arguments have {found[:80]}, which JSON has not. Let the task take text"
        " or a number, and change the entry first."
    )
