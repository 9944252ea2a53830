"""The text of an action, as people read and write it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from web.editor.draft import write_text


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"a": {"b": {"c": [1, 2, {"d": None}]}}, "é": "\u2028"},
        {"a": ["x" * 50, "y" * 50], "b": [], "c": {}},
    ],
)
def test_text_says_what_the_document_says(document: Any) -> None:
    """Over as many lines as it takes."""
    assert document == json.loads(write_text(document))
