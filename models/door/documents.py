"""
The door: everything that people write comes in here, or is refused. Pure.

The result is a model that nothing inside needs to check again, or an
InvalidDocumentError with every problem of the document, in document order: a JSON
pointer, what was found and why it is refused, and what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import TypeVar

from pydantic import JsonValue, ValidationError

from models.door.json_text import (
    BYTES_PER_ENTRY,
    LARGEST_TEXT,
    TextTooLargeError,
    check_json,
    decode_json,
    make_pointer,
    move_to_line,
    without_mark,
)
from models.errors import InvalidDocumentError, Problem
from models.event import CloudEventModel, UserEventModel
from models.fields.strict_model import (
    MOST_PROBLEMS,
    DocumentModel,
    make_complaint,
    show,
)
from models.fields.task_rules import TASK_RULES, TaskRules
from models.operation import EVERY_DOMAIN, RefreshModel
from models.scheduled_action import ScheduledActionModel
from models.when import DEFAULT_TIMEZONE

#: Bytes of a small app with all its users, or of many actions or events.
LARGEST_BULK = 32 * LARGEST_TEXT

#: The key with which documents tell editors how to check them.
SCHEMA_KEY = "$schema"

_Model = TypeVar("_Model", bound=DocumentModel)
_Given = TypeVar("_Given")
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class ReadContext:
    """
    What a document of an action leaves to where it is read.

    Args:
        timezone: The zone of rules that name none, an IANA name.
        task_rules: Where this installation lets ``run_task`` send tasks. None: only
            the form is checked, as for documents that are already stored.
    """

    timezone: str = "UTC"
    task_rules: TaskRules | None = None


_PLAIN = ReadContext()


def read_action(
    text: str | bytes, reading: ReadContext = _PLAIN
) -> ScheduledActionModel:
    """
    Return the scheduled action that *text* describes.

    Args:
        text: One JSON object of at most 1 MiB.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    return read_action_object(decode_json(text), reading)


def read_action_object(
    value: object, reading: ReadContext = _PLAIN
) -> ScheduledActionModel:
    """
    Return the action in the decoded JSON *value*; see ``read_action``.

    A ``$schema`` is for editors, and neither read nor stored.
    """
    if isinstance(value, dict) and isinstance(value.get(SCHEMA_KEY), str):
        value = {key: each for key, each in value.items() if key != SCHEMA_KEY}
    context = {DEFAULT_TIMEZONE: reading.timezone, TASK_RULES: reading.task_rules}
    return read_value(ScheduledActionModel, value, "scheduled action", context)


def read_model(model: type[_Model], text: str | bytes, *, noun: str) -> _Model:
    """
    Return what *text* says as a *model*.

    Args:
        model: Of one JSON object.
        text: JSON of at most 1 MiB. Nothing at all is an empty object.
        noun: What it is, for messages: "pause".

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    return read_value(model, decode_json(text) if text.strip() else {}, noun)


def read_actions(
    text: str | bytes, reading: ReadContext = _PLAIN, *, most: int | None = None
) -> ScheduledActionModel | tuple[ScheduledActionModel, ...]:
    """
    Return the scheduled action, or the several, that *text* describes.

    Args:
        text: As for ``read_action``; or a JSON list, or JSON lines, of at most 32 MiB.
            Empty lines are ignored.
        most: Refuse more than this many before any of them is read. None: no bound.

    Raises:
        InvalidDocumentError: With every problem. If there are several actions,
            pointers begin with the number of the action, from 0.
    """

    def read_one(entry: object) -> ScheduledActionModel:
        return read_action_object(entry, reading)

    value = _decode_many(text, most)
    if not isinstance(value, list):
        return read_one(decode_json(text))

    hint = 'Write {"name": "weekly update", "operations": {...}, "when": {...}}.'
    return read_each(value, read_one, hint, most=most)


def read_event_object(value: object) -> UserEventModel:
    """
    Return the event in the decoded JSON *value*.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    return read_value(UserEventModel, value, "event")


def read_events(
    text: str | bytes, *, most: int | None = None
) -> tuple[UserEventModel | CloudEventModel, ...]:
    """
    Return the events that *text* describes: one, a list, or one on each line.

    Args:
        text: JSON, or JSON lines; at most 32 MiB. Empty lines are ignored. What has a
            ``specversion`` is a CloudEvent, all else an event in our own form.
        most: As for ``read_actions``.

    Raises:
        InvalidDocumentError: With every problem. Pointers begin with the number of
            the event, from 0, unless *text* is a single event.
    """

    def read_one(entry: object) -> UserEventModel | CloudEventModel:
        is_cloud = isinstance(entry, dict) and "specversion" in entry
        return read_cloud_event_object(entry) if is_cloud else read_event_object(entry)

    value = _decode_many(text, most)
    if not isinstance(value, list):
        return (read_one(value),)

    hint = 'Write {"event": "instance.user.last_seen", "user": "u1"}.'
    return read_each(value, read_one, hint, most=most)


def read_cloud_event_object(value: object) -> CloudEventModel:
    """Return the CloudEvent in the decoded JSON *value* (structured mode)."""
    return read_value(CloudEventModel, value, "event")


def read_value(
    model: type[_Model],
    value: object,
    noun: str,
    context: Mapping[str, object] | None = None,
) -> _Model:
    """
    Return what the decoded JSON *value* says as a *model*.

    Args:
        model: Of one JSON object.
        value: Decoded JSON.
        noun: What it is, for messages: "pause".
        context: As validators of *model* expect it.

    Raises:
        InvalidDocumentError: With every problem, in document order.
    """
    check_json(value)
    if not isinstance(value, dict):
        msg = f"{show(value)} is not an object."
        hint = f"Write the {noun} as one JSON object, {{...}}."
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
        place = model.say_place(path) if complaint.about_key else ""
        problem = Problem(
            make_pointer(path),
            complaint.message,
            place or complaint.hint,
            about_key=complaint.about_key,
            instead=None if place else complaint.instead,
        )
        placed.append((_find_place(value, path), problem))

    placed.sort(key=lambda each: each[0])
    # Several branches may report the same problem; one report is enough.
    return tuple(dict.fromkeys(problem for _, problem in placed))[:MOST_PROBLEMS]


def _find_path(value: object, loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Return the path that *loc* means; pydantic adds "[key]" to that of a bad key."""
    if loc[-1:] != ("[key]",):
        return loc

    for part in loc[:-1]:
        # pydantic's path leads only through lists and objects
        value = value[part]  # type: ignore[index]
    return loc if isinstance(value, dict) and "[key]" in value else loc[:-1]


def _find_place(value: object, path: Sequence[str | int]) -> tuple[float, ...]:
    """Return the position of *path* in *value*; what is missing comes last."""
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


def _decode_many(text: str | bytes, most: int | None) -> object:
    """Decode *text* as JSON or, if it is not JSON, as JSON lines, at most so many."""
    text = without_mark(text)
    try:
        return decode_json(text, largest=LARGEST_BULK)
    except TextTooLargeError:
        raise
    except InvalidDocumentError:
        lines = _split_lines(text)
        # Otherwise it is one document over several lines, with a mistake in it.
        if len(lines) < 2 or not _is_whole_object(lines[0][1]):
            raise
        _count(lines, most)
        return _read_all(lines, _decode_line)


def read_each(
    values: list[object],
    read_one: Callable[[object], _Read],
    hint: str,
    *,
    most: int | None,
) -> tuple[_Read, ...]:
    """
    Return what *read_one* makes of each of *values*.

    Args:
        values: Decoded JSON.
        read_one: Reads one of them.
        hint: What to write into an empty list, which is refused.
        most: Refuse more than this many before any of them is read. None: no bound.

    Raises:
        InvalidDocumentError: Pointers begin with the number of the entry, from 0.
            After so many problems that no more are shown, no more are looked for.
    """
    _count(values, most)
    read = _read_all(values, read_one)
    if not read:
        raise InvalidDocumentError((Problem("", "The list is empty.", hint),))

    return tuple(read)


def _read_all(
    entries: Iterable[_Given], read_one: Callable[[_Given], _Read]
) -> list[_Read]:
    read: list[_Read] = []
    problems: list[Problem] = []
    for index, entry in enumerate(entries):
        try:
            read.append(read_one(entry))
        except InvalidDocumentError as error:
            problems += (
                replace(each, pointer=f"/{index}{each.pointer}")
                for each in error.problems
            )
            if len(problems) >= MOST_PROBLEMS:
                break
    if problems:
        raise InvalidDocumentError(tuple(problems[:MOST_PROBLEMS]))
    return read


def _count(entries: Sequence[object], most: int | None) -> None:
    if most is not None and len(entries) > most:
        said = f"The list has {len(entries):,} entries; at most {most:,} are accepted."
        raise InvalidDocumentError((Problem("", said, "Split it up."),))


def _decode_line(numbered: tuple[int, str | bytes]) -> object:
    number, line = numbered
    try:
        return decode_json(line)
    except InvalidDocumentError as error:
        problems = (move_to_line(each, number) for each in error.problems)
        raise InvalidDocumentError(tuple(problems)) from None


def _split_lines(text: str | bytes) -> list[tuple[int, str | bytes]]:
    """Return the lines of *text* that are not empty, with their numbers from 1."""
    most = LARGEST_BULK // BYTES_PER_ENTRY
    count = text.count(b"\n") if isinstance(text, bytes) else text.count("\n")
    if count > most:
        said = f"It has {count:,} lines; at most {most:,} are accepted."
        raise TextTooLargeError((Problem("", said, "Split it up."),))
    lines: list[str | bytes] = []
    lines += text.split(b"\n") if isinstance(text, bytes) else text.split("\n")
    return [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def _is_whole_object(line: str | bytes) -> bool:
    """Tell whether *line* looks like a line of JSON lines."""
    stripped = line.strip()
    return stripped[:1] in ("{", b"{") and stripped[-1:] in ("}", b"}")


#: Keys that are written even with their default, so that readers need not know it.
_ALWAYS_WRITTEN = frozenset({"active", "timezone", "data", "design", "permissions"})


def action_document(action: DocumentModel) -> dict[str, JsonValue]:
    """
    Return the canonical JSON form of *action*, or of a part of it.

    Fields that are unset are left out, booleans are booleans, and zones and the parts
    to publish are always written. ``read_action_object`` reads back an equal model.
    """
    written: dict[str, JsonValue] = {}
    for name, field in type(action).model_fields.items():
        value = getattr(action, name)
        default = field.get_default(call_default_factory=True)
        if name in _ALWAYS_WRITTEN or value != default:
            written[field.alias or name] = _write_value(value)

    return written


def _write_value(value: object) -> JsonValue:
    if isinstance(value, RefreshModel):
        return _write_refresh(value)
    if isinstance(value, DocumentModel):
        return action_document(value)
    if isinstance(value, tuple):
        return [_write_value(entry) for entry in value]

    # A copy: what is stored must not change when the caller changes a task's arguments.
    plain: JsonValue = json.loads(json.dumps(value, default=_write_text))
    return plain


def _write_text(value: object) -> str:
    """Return a date or instant as text, since JSON has no such value."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    if isinstance(value, date):
        return value.isoformat()

    raise TypeError(value)


def _write_refresh(refresh: RefreshModel) -> JsonValue:
    if refresh.domains is None and not refresh.force:
        return True

    named = refresh.domains
    written: dict[str, JsonValue]
    written = {"domains": EVERY_DOMAIN if named is None else list(named)}
    if refresh.force:
        written["force"] = True
    return written
