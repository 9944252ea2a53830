"""
Placeholders in what an action hands to a task: ``{{ occurrence }}``. Pure.

Plain substitution of a few known names: what a tenant writes is never evaluated. A text
that is nothing but one placeholder becomes its value, with its type; in a longer text
the value is written out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from models.errors import RuleError
from models.fields.strict_model import show, suggest

#: What each placeholder stands for. An instant is ISO 8601, in UTC.
PLACEHOLDERS: Mapping[str, str] = {
    "occurrence": "the due instant; null in a manual run",
    "scheduled_for": "the due instant; in a manual run, when that was recorded",
    "operation.id": "the id of the operation, the same in each attempt",
    "operation.trigger": "schedule, event, action, manual or backfill",
    "action.uid": "the uid of the action",
    "action.name": "the name of the action",
    "app.uid": "the uid of the small app",
    "app.name": "the name of the small app",
    "user.id": "the user whose event it follows",
    "user.email": "their address",
    "user.name": "their name",
    "user.locale": "their language",
    "event.name": "the event that it follows",
    "event.at": "when that happened",
}

#: Begin the names of what only an action has that follows an event.
OF_EVENTS = ("user.", "event.")

#: Writes two braces that are no placeholder.
LITERAL = "{{ '{{' }}"

_PLACEHOLDER = re.compile(r"\{\{(?:\s*'(?P<literal>\{\{)'\s*|(?P<name>[^{}]*))\}\}")


def find_texts(
    value: JsonValue, path: tuple[str | int, ...] = ()
) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield each text within *value*, with its path; keys of objects are none."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from find_texts(each, (*path, key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(value):
            yield from find_texts(each, (*path, index))


def find_names(text: str) -> tuple[str, ...]:
    """
    Return the names of the placeholders in *text*, known or not.

    >>> find_names("from {{ occurrence }} of {{app.uid}}")
    ('occurrence', 'app.uid')
    """
    found = _PLACEHOLDER.finditer(text)
    return tuple(m["name"].strip() for m in found if m["literal"] is None)


def check_placeholders(text: str) -> None:
    """
    Refuse a placeholder that is not known, or has no end.

    Raises:
        RuleError: With the name that was probably meant.
    """
    for name in find_names(text):
        if name not in PLACEHOLDERS:
            msg = f"{show('{{ ' + name + ' }}')} is not a known placeholder."
            hint = f"{suggest(name, PLACEHOLDERS)} For two braces write {LITERAL}."
            raise RuleError(msg, hint)
    if "{{" in _PLACEHOLDER.sub("", text):
        msg = f"{show(text)} has '{{{{' that begins a placeholder without an end."
        raise RuleError(msg, f"End it with '}}}}', or write {LITERAL} for two braces.")


def fill(value: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """
    Return *value* with each placeholder replaced, however deep it is.

    Args:
        value: Is not changed.
        values: By name. What is not in it stays as it was written: a document that was
            stored before there were placeholders may have such texts.

    Raises:
        RuleError: A placeholder that has no value (None) is part of a longer text.

    >>> fill(["{{ a }}", "is {{ a }}", "{{ b }}"], {"a": 1})
    [1, 'is 1', '{{ b }}']
    """
    if isinstance(value, str):
        return _fill_text(value, values) if "{{" in value else value
    if isinstance(value, dict):
        return {key: fill(each, values) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [fill(each, values) for each in value]
    return value


def _fill_text(text: str, values: Mapping[str, JsonValue]) -> JsonValue:
    def write(found: re.Match[str]) -> str:
        if found["literal"] is not None:
            return "{{"
        name = found["name"].strip()
        if name not in values:
            return found[0]
        value = values[name]
        if value is None:
            msg = f"{show(text)}: {found[0]} has no value in this run."
            raise RuleError(msg, "Only by itself, not within a text, can it be null.")
        return str(value)

    whole = _PLACEHOLDER.fullmatch(text)
    if whole is not None and whole["literal"] is None:
        return values.get(whole["name"].strip(), text)
    return _PLACEHOLDER.sub(write, text)
