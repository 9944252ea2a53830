"""
Occurrences of many actions at once, one JSON object on each line. Pure.

Made for comparison with other schedulers: the answers are bare instants.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import NoReturn

from actions.occurrences import make_schedule
from actions.when.searching import find_occurrences
from models.door.documents import read_action_object
from models.door.json_text import decode_json
from models.errors import InvalidDocumentError, Problem, RuleError
from models.fields.instants import format_instant, parse_instant
from models.fields.strict_model import show
from models.timing import DayRange, make_timing

#: Occurrences that one line may ask for: two months of every minute.
BATCH_LIMIT = 100_000


def preview_batch_line(
    line: str,
    *,
    default_timezone: str = "UTC",
    holidays: Mapping[str, Sequence[DayRange]] | None = None,
) -> str:
    """
    Return the answer to one line of ``preview --batch``; never raises.

    Args:
        line: ``{"id", "action", "from", "until"}``: *action* is a document as it is
            posted; *from* (inclusive) and *until* (exclusive) have a UTC offset. An
            interval without an anchor begins at *from*, floored to the minute, since
            there is no time of creation. A due date may have passed.
        default_timezone: The zone of rules that name none.
        holidays: As for make_timing.

    Returns:
        ``{"id", "occurrences": ["2026-11-23T06:00:00Z", ...]}``, without jitter and at
        most BATCH_LIMIT; or ``{"id", "error": {"pointer", "message", "hint"}}``, whose
        pointer is into the object on the line. An id that cannot be read is null.
    """
    answer: dict[str, object] = {"id": None}
    try:
        request = _read_object(line)
        answer["id"] = request.get("id")
        found = _answer(request, default_timezone, holidays)
    except InvalidDocumentError as error:
        first, *more = shown = [asdict(problem) for problem in error.problems]
        answer["error"] = {**first, "problems": shown} if more else first
    else:
        answer["occurrences"] = [format_instant(at) for at in found]
    return json.dumps(answer)


def _read_object(line: str) -> dict[str, object]:
    """Return the object on *line*."""
    request = decode_json(line)
    if not isinstance(request, dict):
        hint = 'Write one object a line: {"id", "action", "from", "until"}.'
        _refuse("", f"{show(request)} is not an object.", hint)
    return request


def _answer(
    request: dict[str, object],
    default_timezone: str,
    holidays: Mapping[str, Sequence[DayRange]] | None,
) -> list[datetime]:
    """Return the occurrences that *request* asks for."""
    for key in ("id", "action", "from", "until"):
        if request.get(key) is None:
            hint = "Write all four keys on every line."
            _refuse(f"/{key}", f"{key!r} is missing.", hint)
    start, end = _read_bound(request, "from"), _read_bound(request, "until")
    if end < start:
        _refuse("/until", "'until' is earlier than 'from'.", "Swap the two.")

    try:
        action = read_action_object(
            request["action"], default_timezone=default_timezone
        )
        timing = make_timing(action, created_at=start, holidays=holidays or {})
    except InvalidDocumentError as error:
        placed = (
            Problem(f"/action{each.pointer}", each.message, each.hint)
            for each in error.problems
        )
        raise InvalidDocumentError(tuple(placed)) from None

    if timing is None:
        message = "This action waits for events, so no occurrence can be foreseen."
        _refuse("/action/when", message, "Ask only about rules of time.")

    found = find_occurrences(make_schedule(timing), start, end, limit=BATCH_LIMIT + 1)
    if len(found) > BATCH_LIMIT:
        message = f"There are more than {BATCH_LIMIT:,} occurrences in this range."
        _refuse("/until", message, "Ask for a shorter range.")
    return found


def _read_bound(request: dict[str, object], key: str) -> datetime:
    """Return the instant under *key*."""
    text = request[key]
    if not isinstance(text, str):
        hint = "Write '2026-11-23T06:00:00Z'."
        _refuse(f"/{key}", f"{show(text)} is not text.", hint)
    try:
        return parse_instant(text)
    except RuleError as error:
        _refuse(f"/{key}", error.message, error.hint)


def _refuse(pointer: str, message: str, hint: str) -> NoReturn:
    raise InvalidDocumentError((Problem(pointer, message, hint),))
