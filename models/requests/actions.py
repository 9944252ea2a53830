"""What people ask of a stored action: to run now, to rest for a while. Pure."""

from __future__ import annotations

import unicodedata
from typing import Annotated

from pydantic import AfterValidator, Field

from models.errors import RuleError
from models.fields.field_types import Instant, Name
from models.fields.strict_model import DocumentModel, Most, show

#: The longest note, in characters: some sentences.
LONGEST_NOTE = 1000


def check_note(text: str) -> str:
    """Refuse what a terminal or a list could not show."""
    for character in text:
        # Cc are control characters, Cs halves of one; Zl and Zp break lines.
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"}:
            msg = f"{show(text)} contains the control character {character!r}."
            raise RuleError(msg, "Write it on one line, without tabs.")
    return text


#: Why somebody does something, in their words.
Note = Annotated[
    str, Field(min_length=1, max_length=LONGEST_NOTE), AfterValidator(check_note)
]

#: The most steps of one run; an action has fewer kinds.
_MOST_STEPS = 20


class RunModel(DocumentModel):
    """
    A run of an action, now.

    Args:
        steps: Those of the action's steps that are to run; the others are skipped.
            None: all of them.
        user: Id of the user who triggers the run; of event-driven actions only.
        force: Whether to refresh even data whose source has not changed.
    """

    steps: Annotated[tuple[Name, ...], Field(min_length=1), Most(_MOST_STEPS)] | (
        None
    ) = Field(default=None, examples=[["publish"]])
    user: Name | None = Field(default=None, examples=["u1"])
    force: bool = False
    note: Note | None = Field(default=None, examples=["the import is fixed"])


class PauseModel(DocumentModel):
    """
    A pause.

    Args:
        until: When it ends by itself, aware UTC; in JSON with an offset. None: when
            somebody ends it.
    """

    note: Note | None = Field(default=None, examples=["until the import is fixed"])
    until: Instant | None = Field(default=None, examples=["2035-01-01T00:00:00Z"])


class NoteModel(DocumentModel):
    """
    What somebody says about what they do.

    Args:
        note: Why, for the record of changes.
    """

    note: Note | None = Field(default=None, examples=["new kernel"])
