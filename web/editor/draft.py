"""
What the editor knows of an action that is being written, and its text.

The text is the document, and stays as it was typed, character for character; builders
beside it write it anew when a button is pressed, and never by themselves. What may be
saved is decided below the pages: here is only what becomes of a request, and what the
page shows of the answer.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from pydantic import JsonValue

from actions.list_actions import WHEN_KEYS
from models.door.json_text import decode_json
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
    RuleError,
)
from overview.previews import (
    FullPreview,
    PlacedProblem,
    PreviewTerms,
    place_problems,
    preview_text,
)
from serving.context import Context
from web.editor.builders import BUILDERS
from web.forms import Form
from web.query import Unread, read_part

#: The longest list or object that is written on one line.
_LONGEST_LINE = 48

_INDENT = "    "

_DECODER = json.JSONDecoder()


def write_text(document: Mapping[str, JsonValue]) -> str:
    r"""
    Return the text of *document*: a member a line, short values on one line.

    >>> print(write_text({"name": "a", "except": ["2026-12-25", "2027-01-01"]}))
    {
        "name": "a",
        "except": ["2026-12-25", "2027-01-01"]
    }
    """
    return _write_object(document, "")


def replace_token(text: str, place: tuple[int, int], instead: str) -> str:
    """
    Return *text* with another key or text in a place.

    Args:
        text: JSON.
        place: Line and column, from 1. If there is no key or text, nothing changes.
        instead: What is to stand there.
    """
    lines = text.split("\n")
    line, column = place
    at = sum(len(each) + 1 for each in lines[: line - 1]) + column - 1
    if not text.startswith('"', at):
        return text
    end = _DECODER.raw_decode(text, at)[1]
    return text[:at] + json.dumps(instead, ensure_ascii=False) + text[end:]


def _write(value: JsonValue, indent: str) -> str:
    if isinstance(value, dict) and value:
        plain = not any(isinstance(each, dict) for each in value.values())
        return (plain and _write_short(value)) or _write_object(value, indent)
    if isinstance(value, list) and value:
        return _write_short(value) or _write_list(value, indent)
    return json.dumps(value, ensure_ascii=False)


def _write_short(value: JsonValue) -> str | None:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_LINE else None


def _write_object(value: Mapping[str, JsonValue], indent: str) -> str:
    inner = indent + _INDENT
    lines = (
        f"{inner}{json.dumps(key, ensure_ascii=False)}: {_write(each, inner)}"
        for key, each in value.items()
    )
    return "{\n" + ",\n".join(lines) + f"\n{indent}}}"


def _write_list(value: list[JsonValue], indent: str) -> str:
    inner = indent + _INDENT
    lines = (f"{inner}{_write(each, inner)}" for each in value)
    return "[\n" + ",\n".join(lines) + f"\n{indent}]"


@dataclass(frozen=True)
class Draft:
    """
    An action that is being written.

    Args:
        text: As it was typed, character for character.
        app: Uid of its small app. None: not known yet.
        uid: Of the stored action that it is to replace. None: it is to be a new one.
        revision: Of the document that its author has read. None: of a new one.
    """

    text: str
    app: str | None = None
    uid: str | None = None
    revision: int | None = None

    @cached_property
    def document(self) -> Mapping[str, JsonValue] | None:
        """What the text says, right or wrong. None: it is no JSON object."""
        if not self.text.strip():
            return {}
        try:
            value = decode_json(self.text)
        except InvalidDocumentError:
            return None
        return value if isinstance(value, dict) else None

    @property
    def line_count(self) -> int:
        """How many lines the text has."""
        return self.text.count("\n") + 1

    def put(self, name: str, form: Form) -> Draft:
        """
        Return the draft with what the builder *name* says.

        Raises:
            InvalidDocumentError: It says nothing; or the text is no JSON object.
        """
        problem = Problem("", "The document is no JSON object.", "Mend it first.")
        if self.document is not None:
            try:
                changed = BUILDERS[name].put(self.document, form)
                is_said = changed == self.document and bool(self.text.strip())
                return self if is_said else replace(self, text=write_text(changed))
            except RuleError as error:
                problem = Problem("", error.message, error.hint)
        raise InvalidDocumentError((problem,))


@dataclass(frozen=True, slots=True)
class Judged:
    """
    What the server says of a draft.

    Args:
        grave: What keeps it from being saved, in the order of the text.
        doubts: What may be a mistake.
        found: What it would do. None: there is something wrong, or no text.
    """

    grave: Sequence[PlacedProblem] = ()
    doubts: Sequence[PlacedProblem] = ()
    found: FullPreview | None = None

    def find_lines(self) -> dict[int, list[PlacedProblem]]:
        """Return what is wrong by line."""
        lines: dict[int, list[PlacedProblem]] = {}
        for each in self.grave:
            lines.setdefault(each.line or 1, []).append(each)
        return lines


def judge(context: Context, draft: Draft, *, viewer_zone: ZoneInfo) -> Judged | Unread:
    """
    Return what the server says of *draft*; nothing is stored.

    Args:
        viewer_zone: Of whoever looks.
    """
    if not draft.text.strip():
        return Judged()
    asked, terms = PreviewTerms(viewer_zone, uid=draft.uid), context.services.terms

    def preview(connection: sa.Connection) -> FullPreview:
        text = draft.text.encode()
        try:
            return preview_text(connection, draft.app, text, terms=terms, asked=asked)
        except NotFoundError:
            # The small app is to be made with it, or is gone: saving will tell.
            return preview_text(
                connection, None, text, terms=terms, asked=replace(asked, uid=None)
            )

    try:
        found = read_part(context, preview)
    except InvalidDocumentError as error:
        grave = place_problems(error.problems, draft.text)
        try:
            rule = draft.document or {}
            return Judged(grave, found=_preview_rule(context, draft, rule, asked))
        except MinutehandError:
            return Judged(grave)
    if isinstance(found, Unread):
        return found
    if found.action is None:
        problem = Problem("", "Its name and operations are missing.", "Add both.")
        return Judged(place_problems([problem], draft.text), found=found)
    return Judged(found.refusals, found.warnings, found)


def _preview_rule(
    context: Context,
    draft: Draft,
    document: Mapping[str, JsonValue],
    asked: PreviewTerms,
) -> FullPreview | None:
    """Return when *document* would run in the place of *draft*; None: unread."""
    text = json.dumps({key: document[key] for key in WHEN_KEYS if key in document})
    terms = context.services.terms
    found = read_part(context, preview_text, draft.app, text, terms=terms, asked=asked)
    return None if isinstance(found, Unread) else found


@dataclass(frozen=True, slots=True)
class WhenEffect:
    """
    What the builder of ``when`` would do.

    Args:
        problems: Why its fields say nothing.
        is_said: Whether the document says the same.
        found: When it would run. None: there is a problem.
    """

    problems: tuple[str, ...] = ()
    is_said: bool = False
    found: FullPreview | None = None


def foresee(
    context: Context, draft: Draft, form: Form, *, viewer_zone: ZoneInfo
) -> WhenEffect:
    """
    Return what the builder of ``when`` would do; the document stays as it is.

    Args:
        form: With the fields of the builder.
        viewer_zone: Of whoever looks.
    """
    asked = PreviewTerms(viewer_zone, uid=draft.uid)
    try:
        document = BUILDERS["when"].put(draft.document or {}, form)
        found = _preview_rule(context, draft, document, asked)
    except InvalidDocumentError as error:
        return WhenEffect(tuple(f"{e.message} {e.hint}" for e in error.problems))
    except (RuleError, MinutehandError) as error:
        return WhenEffect((str(error),))
    return WhenEffect((), document == draft.document, found)


def take_proposal(draft: Draft, judged: Judged | Unread, pointer: str) -> Draft:
    """Return *draft* with what was probably meant in the place of what is wrong."""
    if isinstance(judged, Unread):
        return draft
    for each in (*judged.grave, *judged.doubts):
        if each.pointer != pointer or each.instead is None:
            continue
        if each.line is not None and each.column is not None:
            place = (each.line, each.column)
            return replace(draft, text=replace_token(draft.text, place, each.instead))
    return draft
