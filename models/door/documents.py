"""
The door: everything that people write comes in here, or is refused. Pure.

What comes out is a model that nothing inside needs to check again, or an
InvalidDocumentError with every problem of the document, in its order: a JSON
pointer, what was found and why it is refused, and what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from models.door.json_text import (
    LARGEST_TEXT,
    check_json,
    decode_json,
    make_pointer,
)
from models.errors import InvalidDocumentError, Problem
from models.event import UserEventModel
from models.fields.strict_model import (
    MOST_PROBLEMS,
    DocumentModel,
    make_complaint,
    show,
)
from models.fields.task_rules import TASK_RULES, TaskRules
from models.operation import EVERY_DOMAIN, RefreshModel
from models.scheduled_action import ScheduledActionModel
from models.small_app import SmallAppModel
from models.timing import make_timing, timing_text
from models.when import DEFAULT_TIMEZONE

__all__ = [
    "LARGEST_BULK",
    "action_document",
    "make_timing",
    "place_problems",
    "read_action",
    "read_action_object",
    "read_actions",
    "read_event",
    "read_event_object",
    "read_events",
    "read_small_app",
    "read_small_app_object",
    "timing_text",
]

#: Bytes of a small app with all its users, or of many actions or events.
LARGEST_BULK = 32 * LARGEST_TEXT

_Model = TypeVar("_Model", bound=DocumentModel)
_Read = TypeVar("_Read")


def read_action(
    text: str | bytes,
    *,
    default_timezone: str = "UTC",
    task_rules: TaskRules | None = None,
) -> ScheduledActionModel:
    """
    Return the scheduled action that *text* describes.

    Args:
        text: One JSON object of at most 1 MiB.

        default_timezone: Of rules that name none.

        task_rules: Where this installation lets ``run_task`` send. None: only the form
            of it is checked, as of what is stored already.

    Raises:
        InvalidDocumentError: With all that is wrong, in document order.
    """
    return read_action_object(
        decode_json(text), default_timezone=default_timezone, task_rules=task_rules
    )


def read_action_object(
    value: object,
    *,
    default_timezone: str = "UTC",
    task_rules: TaskRules | None = None,
) -> ScheduledActionModel:
    """Return the action that the decoded JSON *value* is; as ``read_action``."""
    context = {DEFAULT_TIMEZONE: default_timezone, TASK_RULES: task_rules}
    return _read(ScheduledActionModel, value, "scheduled action", context)


def read_actions(
    text: str | bytes,
    *,
    default_timezone: str = "UTC",
    task_rules: TaskRules | None = None,
) -> ScheduledActionModel | tuple[ScheduledActionModel, ...]:
    """
    Return the scheduled action that *text* describes, or all of many.

    Args:
        text: As for ``read_action``; or a JSON list, or JSON lines, of at most 32 MiB.
            Empty lines are passed over.

        default_timezone: Of rules that name none.

        task_rules: As for ``read_action``.

    Raises:
        InvalidDocumentError: With all that is wrong. Pointers into many begin with
            the number of the action, from 0.
    """

    def read_one(entry: object) -> ScheduledActionModel:
        return read_action_object(
            entry, default_timezone=default_timezone, task_rules=task_rules
        )

    value = _decode_many(text)
    if not isinstance(value, list):
        return read_one(decode_json(text))

    hint = 'Write {"name": "weekly update", "operations": {...}, "when": {...}}.'
    return _read_each(value, read_one, "The list holds no action.", hint)


def read_small_app(text: str | bytes) -> SmallAppModel:
    """
    Return the small app that *text*, at most 32 MiB of JSON, describes.

    Raises:
        InvalidDocumentError: With all that is wrong, in document order.
    """
    return read_small_app_object(decode_json(text, largest=LARGEST_BULK))


def read_small_app_object(value: object) -> SmallAppModel:
    """Return the app that the decoded JSON *value* is; as ``read_small_app``."""
    return _read(SmallAppModel, value, "small app")


def read_event(text: str | bytes) -> UserEventModel:
    """
    Return the event that *text* describes.

    Raises:
        InvalidDocumentError: With all that is wrong, in document order.
    """
    return read_event_object(decode_json(text))


def read_event_object(value: object) -> UserEventModel:
    """Return the event that the decoded JSON *value* is; as ``read_event``."""
    return _read(UserEventModel, value, "event")


def read_events(text: str | bytes) -> tuple[UserEventModel, ...]:
    """
    Return the events that *text* describes: one, a list, or one on each line.

    Args:
        text: JSON, or JSON lines; at most 32 MiB. Empty lines are passed over.

    Raises:
        InvalidDocumentError: With all that is wrong. Pointers begin with the number
            of the event, from 0, unless there is only one.
    """
    value = _decode_many(text)
    if not isinstance(value, list):
        return (read_event_object(value),)

    hint = 'Write {"event": "instance.user.last_seen", "user": "u1"}.'
    return _read_each(value, read_event_object, "The list holds no event.", hint)


def action_document(action: ScheduledActionModel) -> dict[str, JsonValue]:
    """
    Return the canonical JSON form of *action*.

    What is unset is left out, booleans are booleans, zones and what is published
    are always written; ``read_action_object`` reads back an equal model.
    """
    return _write_model(action)


def _read(
    model: type[_Model],
    value: object,
    noun: str,
    context: Mapping[str, object] | None = None,
) -> _Model:
    check_json(value)
    if not isinstance(value, dict):
        msg = f"{show(value)} is no object, so no {noun}."
        hint = "Write one JSON object, {...}."
        raise InvalidDocumentError((Problem("", msg, hint),))

    try:
        return model.model_validate(
            value, context=dict(context or {}), by_alias=True, by_name=False
        )
    except ValidationError as error:
        raise InvalidDocumentError(_find_problems(error, model, value)) from None


def _find_problems(
    error: ValidationError, model: type[DocumentModel], value: object
) -> tuple[Problem, ...]:
    """Return all that pydantic found, in the order of the document *value*."""
    placed = []
    for found in error.errors(include_url=False):
        complaint = make_complaint(found, model)
        path = _find_path(value, found["loc"])
        problem = Problem(make_pointer(path), complaint.message, complaint.hint)
        placed.append((_find_place(value, path), problem))

    placed.sort(key=lambda each: each[0])
    # Branches that agree about one value need to be heard only once.
    return tuple(dict.fromkeys(problem for _, problem in placed))[:MOST_PROBLEMS]


def _find_path(value: object, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return where *loc* points to; pydantic says of a key that it is at "[key]"."""
    if loc[-1:] != ("[key]",):
        return loc

    for part in loc[:-1]:
        # no model: what pydantic named by a path is a list or an object
        value = value[part]  # type: ignore[index]
    return loc if isinstance(value, dict) and "[key]" in value else loc[:-1]


def _find_place(value: object, path: Sequence[str | int]) -> tuple[float, ...]:
    """Return where *path* stands in *value*; what is missing comes last."""
    place: list[float] = []
    for part in path:
        if isinstance(value, dict) and part in value:
            place.append(list(value).index(part))
            value = value[part]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            place.append(part)
            value = value[part]
        else:
            place.append(float("inf"))
            break

    return tuple(place)


def _decode_many(text: str | bytes) -> object:
    """Return what *text* says as JSON, or as JSON lines if it is not."""
    try:
        return decode_json(text, largest=LARGEST_BULK)
    except InvalidDocumentError:
        lines = _split_lines(text)
        # Else it is one document over several lines, with a mistake in it.
        if len(lines) < 2 or not _is_whole_object(lines[0][1]):
            raise
        return _decode_lines(lines)


def _read_each(
    values: list[object], read_one: Callable[[object], _Read], none: str, hint: str
) -> tuple[_Read, ...]:
    """Return what *read_one* makes of each of *values*, of which there must be one."""
    read: list[_Read] = []
    problems: list[Problem] = []
    for index, entry in enumerate(values):
        try:
            read.append(read_one(entry))
        except InvalidDocumentError as error:
            problems += place_problems(error, index)
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise InvalidDocumentError(tuple(problems))
    if not read:
        raise InvalidDocumentError((Problem("", none, hint),))

    return tuple(read)


def _split_lines(text: str | bytes) -> list[tuple[int, str | bytes]]:
    """Return the lines of *text* that are not empty, with their numbers."""
    lines: list[str | bytes] = []
    if isinstance(text, bytes):
        lines += text.split(b"\n")
    else:
        lines += text.split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _is_whole_object(line: str | bytes) -> bool:
    """Tell whether *line* looks like one of JSON lines."""
    stripped = line.strip()
    return stripped[:1] in ("{", b"{") and stripped[-1:] in ("}", b"}")


def _decode_lines(lines: list[tuple[int, str | bytes]]) -> list[object]:
    values: list[object] = []
    problems: list[Problem] = []
    for index, (number, line) in enumerate(lines):
        try:
            values.append(decode_json(line))
        except InvalidDocumentError as error:
            prefix = f"Line {number} of the input: "
            problems += place_problems(error, index, prefix)
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise InvalidDocumentError(tuple(problems))

    return values


def place_problems(
    error: InvalidDocumentError, index: int, prefix: str = ""
) -> list[Problem]:
    """Return the problems of *error* as those of entry *index* of a list."""
    return [
        Problem(f"/{index}{problem.pointer}", prefix + problem.message, problem.hint)
        for problem in error.problems
    ]


#: Written even where they have their default, so that nobody has to know it.
_ALWAYS_WRITTEN = frozenset({"active", "timezone", "data", "design", "permissions"})


def _write_model(model: DocumentModel) -> dict[str, JsonValue]:
    written: dict[str, JsonValue] = {}
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        default = field.get_default(call_default_factory=True)
        if name in _ALWAYS_WRITTEN or value != default:
            written[field.alias or name] = _write_value(value)

    return written


def _write_value(value: object) -> JsonValue:
    if isinstance(value, RefreshModel):
        return _write_refresh(value)
    if isinstance(value, DocumentModel):
        return _write_model(value)
    if isinstance(value, tuple):
        return [_write_value(entry) for entry in value]

    # A copy: what is stored must not change with the caller's arguments of a task.
    plain: JsonValue = json.loads(json.dumps(value, default=_write_text))
    return plain


def _write_text(value: object) -> str:
    """Return the text of what JSON has no value for."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()

    raise TypeError(value)


def _write_refresh(refresh: RefreshModel) -> JsonValue:
    if refresh.domains is None and not refresh.force:
        return True

    written: dict[str, JsonValue] = {"domains": EVERY_DOMAIN}
    if refresh.domains is not None:
        written["domains"] = list(refresh.domains)
    if refresh.force:
        written["force"] = True
    return written
