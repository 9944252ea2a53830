"""What states and reasons mean to people."""

from __future__ import annotations

import re

import pytest

from models.operation_state import OperationState, Reason
from operations.reasons import REASONS, STATES, read_reason
from tests.unit.models.test_operation_state import read_rows


def strip_markup(text: str) -> str:
    """Return *text* without code marks, links, and links in brackets."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


@pytest.mark.parametrize(
    ("heading", "said"),
    [
        ("Reasons", {each.value: REASONS[each] for each in Reason}),
        ("States", {each.value: STATES[each] for each in OperationState}),
    ],
)
def test_docs_say_the_same(heading: str, said: dict[str, str]):
    """Whoever looks up what a page showed finds the very words, and each of them."""
    rows = read_rows(heading)

    assert said == {row[0].strip("`"): strip_markup(row[-1]) for row in rows}


@pytest.mark.parametrize(
    ("text", "reason", "detail"),
    [
        ("overlap", Reason.OVERLAP, ""),
        ("platform: no space left: /data", Reason.PLATFORM, "no space left: /data"),
        ("of a newer version: x", None, "of a newer version: x"),
    ],
)
def test_reason_is_told_from_its_detail(text: str, reason: Reason | None, detail: str):
    """Free text follows after a colon; what is unknown is shown as it stands."""
    read = read_reason(text)

    assert (reason, detail) == (read.reason, read.detail)
    assert read.meaning
