"""What is accepted, and may be a mistake: what needs no database to be seen."""

from __future__ import annotations

import pytest

from actions.posting.doubts import find_doubts
from actions.posting.references import References
from models.door.documents import read_action
from tests.unit.models.documents import action

KNOWN = References("app", (), (), (), (), ())


@pytest.mark.parametrize(
    ("within", "jitter", "is_told"),
    [
        ("PT29M", "PT30M", True),
        ("PT30M", "PT30M", True),
        ("PT30M1S", "PT30M", False),
        ("PT23H", "P1D", True),
        ("PT1M", None, False),
        (None, "PT30M", False),
    ],
)
def test_expectation_that_jitter_uses_up_is_told(
    within: str | None, jitter: str | None, *, is_told: bool
):
    """A run may be sent when it should have ended."""
    read = read_action(
        action(expect={"within": within, "takes": "PT1M"}, jitter=jitter)
    )
    told = {each.pointer: each.message for each in find_doubts(KNOWN, read)}

    assert is_told == ("/expect/within" in told)
    assert not is_told or "later than their time" in told["/expect/within"]


@pytest.mark.parametrize(
    ("members", "told"),
    [({"retries": 5}, ["/retries"]), ({"retries": 0}, []), ({}, [])],
)
def test_retries_that_no_task_has_are_told(members: dict[str, object], told: list[str]):
    """Its own worker tries a task again, or nobody does."""
    for wait, expected in ((True, told), (False, [])):
        task = {"name": "shop.report", "wait": wait}
        read = read_action(action(operations={"run_task": task}, **members))

        pointers = [each.pointer for each in find_doubts(KNOWN, read)]
        assert expected == [each for each in pointers if each == "/retries"]
