"""What states and reasons mean to people."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from models.operation_state import OperationState, Reason
from operations.reasons import REASONS, STATES, read_reason

PAGE = (Path(__file__).parents[3] / "docs" / "operations.md").read_text("utf-8")


def read_table(header: str) -> dict[str, str]:
    """Return the last column of a table of the page by the first, without markup."""
    _, _, rest = PAGE.partition(f"| {header} |")
    rows = rest.partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split(" | ")] for row in rows]
    return {each[0].strip("`"): strip_markup(each[-1]) for each in cells}


def strip_markup(text: str) -> str:
    """Return *text* without code marks, links, and links in brackets."""
    text = re.sub(r" \(\[[^]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("`", "")


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("reason", {each.value: REASONS[each] for each in Reason}),
        ("state", {each.value: STATES[each] for each in OperationState}),
    ],
    ids=["reasons", "states"],
)
def test_docs_say_the_same(header: str, said: dict[str, str]):
    """Whoever looks up what a page showed finds the very words, and each of them."""
    assert said == read_table(header)


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
