"""
What the editor knows of an action that is being written.

The text is the truth; the form beside it is another look at the same. Who saves, checks
or writes is decided below the pages: here is only what becomes of a request, and what
the page shows of the answer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from pydantic import JsonValue

from actions.list_actions import WHEN_KEYS
from actions.posting.edit import Terms
from models.door.json_text import decode_json
from models.door.places import Places
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    NotFoundError,
    Problem,
)
from overview.previews.new import Asked, FullPreview, preview_text
from serving.context import Context
from serving.refusals import place_problem
from web.action_form import (
    DAYS,
    PREFIX,
    ActionForm,
    Kind,
    apply_form,
    show_action,
)
from web.document_text import replace_token
from web.forms import Form
from web.reading import Unread, read_part

#: The fields of a form that hold text; the others are boxes.
_TEXTS = (
    *("name", "kind", "time", "every", "anchor", "date", "rule", "event", "delay"),
    *("at", "zone", "domains", "template", "url", "task", "queue"),
    *("users", "groups", "overlap"),
)
_BOXES = (
    *("refresh", "publish", "send_email", "send_execsum", "call_webhook", "run_task"),
    *("data", "design", "permissions", "not_activated", "inactive"),
)


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

    @cached_property
    def form(self) -> ActionForm:
        """The same as a form."""
        return show_action(self.document or {})

    @property
    def digest(self) -> str:
        """Of the text: it tells whether somebody typed on."""
        return hashlib.sha256(self.text.encode()).hexdigest()[:16]

    @property
    def line_count(self) -> int:
        """How many lines the text has."""
        return self.text.count("\n") + 1

    def write_form(self, form: ActionForm) -> Draft:
        """Return the draft with what was changed in the form."""
        if self.document is None:
            return self
        return replace(self, text=apply_form(self.text, self.document, form))


def digest_form(form: ActionForm) -> str:
    """Return what tells whether somebody changed a form."""
    values = {key: value.strip() for key, value in form.values.items() if value.strip()}
    said = json.dumps([values, form.days], sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def read_action_form(form: Form) -> ActionForm:
    """Return the fields of the action in what was sent."""
    values = {name: form.get(f"{PREFIX}{name}") for name in _TEXTS}
    values |= {name: "on" for name in _BOXES if form.has(f"{PREFIX}{name}")}
    if values["kind"] not in list(Kind):
        values["kind"] = Kind.AS_WRITTEN.value
    chosen = form.get_all(f"{PREFIX}day")
    return ActionForm(values, tuple(day for day in DAYS if day in chosen))


def read_draft(form: Form, draft: Draft, field: str) -> tuple[Draft, bool]:
    """
    Return what was sent, and whether a change of the form was left out.

    Text and form may both have been changed, without a script that asks in between:
    then the text counts.

    Args:
        form: As it was sent; without fields of an action, the text counts.

        draft: What is edited; its text does not matter.

        field: The last field that was typed into, if the script tells.
    """
    draft = replace(draft, text=form.find("document") or "")
    if not form.has(f"{PREFIX}kind"):
        return draft, False
    sent = read_action_form(form)
    is_form_changed = digest_form(sent) != form.get("shown")
    is_text_changed = draft.digest != form.get("of")
    if field:
        is_asked = field.startswith(PREFIX)
    else:
        is_asked = form.get("do") == "form" or (is_form_changed and not is_text_changed)
    if is_asked:
        return draft.write_form(sent), draft.document is None and is_form_changed
    return draft, is_form_changed and not field


@dataclass(frozen=True, slots=True)
class Trouble:
    """
    Something that is wrong with a text, or may be.

    Args:
        number: It is named so when its proposal is taken.

        line: From 1. None: nobody can tell.

        column: The same.

        instead: The key or text that was probably meant.

        is_grave: Whether it keeps the action from being saved.
    """

    number: int
    pointer: str
    message: str
    hint: str
    line: int | None
    column: int | None
    instead: str | None
    is_grave: bool


@dataclass(frozen=True, slots=True)
class Judged:
    """
    What the server says of a draft.

    Args:
        troubles: What is wrong, in the order of the text; then what may be.

        found: What it would do. None: there is something wrong, or no text.
    """

    troubles: Sequence[Trouble] = ()
    found: FullPreview | None = None

    @property
    def grave(self) -> list[Trouble]:
        """What keeps it from being saved."""
        return [each for each in self.troubles if each.is_grave]

    @property
    def doubts(self) -> list[Trouble]:
        """What may be a mistake."""
        return [each for each in self.troubles if not each.is_grave]

    def find_lines(self) -> dict[int, list[Trouble]]:
        """Return what is wrong by line."""
        lines: dict[int, list[Trouble]] = {}
        for each in self.grave:
            lines.setdefault(each.line or 1, []).append(each)
        return lines


def judge(
    context: Context, draft: Draft, *, terms: Terms, viewer_zone: ZoneInfo
) -> Judged | Unread:
    """
    Return what the server says of *draft*; nothing is stored.

    Args:
        context: Of the request.

        draft: What is edited.

        terms: Of the installation.

        viewer_zone: Of whoever looks.
    """
    if not draft.text.strip():
        return Judged()
    asked = Asked(viewer_zone, uid=draft.uid)

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
        graves = _place_all(error.problems, draft.text, is_grave=True)
        return Judged(graves, _preview_rule(context, draft, terms, viewer_zone))
    if isinstance(found, Unread):
        return found
    if found.action is None:
        problem = Problem("", "Its name and operations are missing.", "Add both.")
        return Judged(_place_all([problem], draft.text, is_grave=True), found)
    refusals = _place_all(found.refusals, draft.text, is_grave=True)
    doubts = _place_all(found.warnings, draft.text, is_grave=False, start=len(refusals))
    return Judged((*refusals, *doubts), found)


def _preview_rule(
    context: Context, draft: Draft, terms: Terms, viewer_zone: ZoneInfo
) -> FullPreview | None:
    """Return when a draft would run that cannot be saved; None: nobody can tell."""
    given = draft.document or {}
    rule = {key: given[key] for key in WHEN_KEYS if key in given}
    text, asked = json.dumps(rule), Asked(viewer_zone, uid=draft.uid)
    try:
        found = read_part(
            context,
            lambda connection: preview_text(
                connection, draft.app, text, terms=terms, asked=asked
            ),
        )
    except MinutehandError:
        return None
    return None if isinstance(found, Unread) else found


def _place_all(
    problems: Sequence[Problem], text: str, *, is_grave: bool, start: int = 0
) -> tuple[Trouble, ...]:
    troubles = []
    places = Places(text)
    for number, problem in enumerate(problems, start):
        place = place_problem(problem, places)
        troubles.append(
            Trouble(
                number=number,
                pointer=problem.pointer,
                message=problem.message,
                hint=problem.hint,
                line=place["line"],
                column=place["column"],
                instead=problem.instead,
                is_grave=is_grave,
            )
        )
    return tuple(troubles)


def take_proposal(draft: Draft, judged: Judged | Unread, number: str) -> Draft:
    """Return *draft* with what was probably meant in the place of what is wrong."""
    if isinstance(judged, Unread):
        return draft
    for each in judged.troubles:
        if str(each.number) != number or each.instead is None:
            continue
        if each.line is not None and each.column is not None:
            place = (each.line, each.column)
            return replace(draft, text=replace_token(draft.text, place, each.instead))
    return draft
