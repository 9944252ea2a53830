"""
What people typed, what was wrong with it, and what they are told afterwards.

A form's fields become the JSON that the API takes, and pass the same door: a page says
what a program would be told, beside the field, and keeps what was typed.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import parse_qsl
from zoneinfo import ZoneInfo

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from models.door.documents import read_value
from models.errors import (
    InvalidDocumentError,
    MinutehandError,
    Problem,
    RuleError,
    UsageError,
)
from models.fields.instants import parse_instant
from models.fields.strict_model import DocumentModel
from models.requests.notes import PauseModel
from models.units import capitalize

_Model = TypeVar("_Model", bound=DocumentModel)

#: The most fields of a form: a bulk change names each thing that is chosen.
_MOST_FIELDS = 2000

#: The digits of the largest number of a form: no count or version comes near it.
_MOST_DIGITS = 15

#: The greatest number that a revision may have in the database.
LARGEST_REVISION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a form as they were sent."""

    fields: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> str | None:
        """Return the field *name*. None: it was not sent."""
        return next((value for key, value in self.fields if key == name), None)

    def get(self, name: str) -> str:
        """Return the field *name* without space around it. Empty: it was not sent."""
        return (self.find(name) or "").strip()

    def get_all(self, name: str) -> list[str]:
        """Return every field *name*, as check boxes of a list send them."""
        return [value for key, value in self.fields if key == name]

    def given(self, *names: str) -> dict[str, str]:
        """Return those of the fields *names* that are not empty."""
        return {name: self.get(name) for name in names if self.get(name)}

    def has(self, name: str) -> bool:
        """Tell whether the box *name* was checked, or the button pressed."""
        return self.find(name) is not None

    def read(
        self, model: type[_Model], noun: str, values: Mapping[str, Any] | None = None
    ) -> _Model:
        """
        Return what the form says, as the API would take it.

        Args:
            model: Its fields are named as those of the form.
            noun: Names it in messages.
            values: The document. None: of each field of *model* that is not empty, its
                text.

        Raises:
            InvalidDocumentError: With every problem.
        """
        if values is None:
            values = self.given(*model.model_fields)
        return read_value(model, dict(values), noun)

    def read_pause(self, zone: ZoneInfo) -> PauseModel:
        """
        Return the pause that is asked for.

        Args:
            zone: Of an end without offset.

        Raises:
            InvalidDocumentError: Note or end cannot be read.
        """
        asked = self.read(PauseModel, "pause", {"note": self.get("note") or None})
        return asked.model_copy(update={"until": self.read_instant("until", zone)})

    def read_instant(self, name: str, zone: ZoneInfo | None) -> datetime | None:
        """
        Return the instant of the field *name*. None: it is empty.

        Args:
            name: Of the field, at which a problem is told.
            zone: Of an instant without offset; None: it is refused.

        Raises:
            InvalidDocumentError: It is none.
        """
        text = self.get(name)
        if not text:
            return None
        try:
            return parse_instant(text, zone)
        except RuleError as error:
            problem = Problem(f"/{name}", error.message, error.hint)
            raise InvalidDocumentError((problem,)) from None


def read_number(text: str) -> int | str:
    """
    Return the number that *text* is; any other text as it is, for the door to refuse.

    >>> read_number("12"), read_number("²"), read_number("-1")
    (12, '²', '-1')
    """
    is_number = text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS
    return int(text) if is_number else text


def read_revision(text: str | None) -> int | None:
    """Return the number of a revision; of nonsense, None."""
    if not text or not (text.isascii() and text.isdigit()) or len(text) > 10:
        return None
    number = int(text)
    return number if 1 <= number <= LARGEST_REVISION else None


def is_own_path(text: str) -> bool:
    r"""
    Tell whether *text* leads to a page of ours.

    A browser takes //host and /\host for another host, and leaves out any tab.

    >>> [is_own_path(text) for text in ("/actions", "//host", "/\t/host", "host")]
    [True, False, False, False]
    """
    return (
        text.startswith("/")
        and text[1:2] not in {"/", "\\"}
        and text.isascii()
        and text.isprintable()
    )


def read_form(body: bytes) -> Form:
    """
    Return the fields of a form.

    Raises:
        UsageError: It is not one.
    """
    try:
        text = body.decode("utf-8")
        pairs = parse_qsl(
            text, keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict"
        )
    except ValueError:
        msg = "This is not the form of the page. Load the page again."
        raise UsageError(msg) from None
    # Browsers send each line end as two characters.
    return Form(tuple((name, value.replace("\r\n", "\n")) for name, value in pairs))


@dataclass(frozen=True, slots=True)
class Refused:
    """
    Why nothing was done, for the page that shows the form again.

    Args:
        told: In a sentence or two.
        fields: What is wrong, by the name of the field.
        others: What is wrong with no field in particular.
    """

    told: str
    fields: Mapping[str, list[str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()


#: What is only for a shell: the command in parentheses behind what it does, and a last
#: sentence that leads to one.
_FOR_SHELLS = re.compile(
    r" \(minutehand [^)]*\)|(?:^| )[A-Z][a-z ]*: minutehand [^:]*$"
)

#: What is wrong with an option begins with it; on pages it is a field.
_OPTION = re.compile(r"(?<!\S)--(?=[a-z])")
_FIRST_OPTION = re.compile("--([a-z-]+)")


def tell_on_pages(text: str) -> str:
    """
    Return *text* without the commands that are for whoever has a shell.

    >>> tell_on_pages("it is paused; resume it (minutehand actions resume notices)")
    'it is paused; resume it'
    """
    if text.startswith("--"):
        text = capitalize(_OPTION.sub("", text))
    return _FOR_SHELLS.sub("", text)


def tell_error(error: MinutehandError) -> str:
    """Return what *error* says to whoever has pages."""
    return tell_on_pages(str(error))


def make_refused(error: MinutehandError) -> Refused:
    """
    Return what to show of *error* beside the fields of a form.

    A problem belongs to the field that its pointer begins with, or its option.
    """
    if not isinstance(error, InvalidDocumentError):
        if option := _FIRST_OPTION.match(str(error)):
            text = tell_on_pages(str(error).removeprefix(f"{option[0]}: "))
            return Refused(tell_error(error), {option[1].replace("-", "_"): [text]})
        return Refused(tell_error(error), others=(tell_error(error),))
    fields: dict[str, list[str]] = {}
    others: list[str] = []
    for problem in error.problems:
        name = problem.pointer.lstrip("/").partition("/")[0]
        text = tell_on_pages(f"{problem.message} {problem.hint}".rstrip())
        if name:
            fields.setdefault(name, []).append(text)
        else:
            others.append(text)
    count = len(error.problems)
    told = "There is a problem" if count == 1 else f"There are {count} problems"
    return Refused(f"{told}; nothing was saved.", fields, tuple(others))


_COOKIE = "minutehand-told"

_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Told:
    """
    What was done.

    Args:
        text: A sentence.
        undo: Path of ours to which a form is sent that undoes it. Empty: nothing does.
    """

    text: str
    undo: str = ""


def go_to(path: str, text: str = "", *, undo: str = "") -> Response:
    """
    Lead to a page of ours after something was done there or elsewhere.

    Args:
        path: With its query.
        text: What was done, a sentence; the page shows it once.
        undo: Path of ours to which a form is sent that undoes it.
    """
    response = RedirectResponse(path, status_code=303)
    if text:
        told = json.dumps(asdict(Told(text[: _LONGEST // 4], undo)))
        value = base64.urlsafe_b64encode(told.encode()).decode()
        response.set_cookie(_COOKIE, value, max_age=60, httponly=True, samesite="lax")
    return response


def give_file(name: str, content: str) -> Response:
    """Give JSON as a file of that *name*."""
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(content, media_type="application/json", headers=headers)


def take_told(request: Request) -> Told | None:
    """Return what was done before this page. None: nothing."""
    value = request.cookies.get(_COOKIE, "")[:_LONGEST]
    if not value:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(value))
        told = Told(str(found["text"]), str(found["undo"]))
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        return None
    return told if is_own_path(told.undo) else Told(told.text)


def forget_told(response: Response) -> None:
    """Let the page after this one not tell it again."""
    response.delete_cookie(_COOKIE, httponly=True, samesite="lax")
