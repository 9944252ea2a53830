"""What is refused of an option is said of that option."""

from __future__ import annotations

import sys
from typing import NoReturn, Self

import pytest
from pydantic import model_validator

from cli.options import confirm, read_options
from models.errors import RuleError, UsageError
from models.fields.strict_model import DocumentModel
from models.requests.actions import BackfillModel


class _NeverModel(DocumentModel):
    @model_validator(mode="after")
    def _refuse(self) -> Self:
        msg = "It is never accepted."
        raise RuleError(msg, "")


def test_option_is_named_as_it_is_typed():
    """With hyphens, not with the underscores of the field."""
    with pytest.raises(UsageError, match=r"^--at-once: "):
        read_options(BackfillModel, since="2026-11-01T00:00:00Z", at_once="many")


class _Keyboard:
    """Of a terminal: whatever is asked, somebody types Ctrl-C."""

    def isatty(self) -> bool:
        return True

    def readline(self) -> NoReturn:
        raise KeyboardInterrupt


def test_interrupted_question_is_no_answer(monkeypatch: pytest.MonkeyPatch):
    """Exit code 1 would mean that it ran and failed."""
    monkeypatch.setattr(sys, "stdin", _Keyboard())
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)

    with pytest.raises(KeyboardInterrupt):
        confirm("Delete small app 'shop'", yes=False)


def test_what_is_said_of_all_together_names_none():
    """It has no place, and so no option."""
    with pytest.raises(UsageError, match=r"^It is never"):
        read_options(_NeverModel)
