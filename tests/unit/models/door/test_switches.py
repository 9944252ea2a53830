"""Switches that are not written as true or false: accepted, and told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.door.documents import action_document, read_action, read_actions
from tests.unit.models.documents import action


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ({"active": "yes"}, [("/active", "'yes' was read as true.", "Write true.")]),
        ({"active": 0}, [("/active", "0 was read as false.", "Write false.")]),
        (
            {"operations": {"publish": {"data": "on"}, "send_execsum": 1}},
            [
                ("/operations/send_execsum", "1 was read as true.", "Write true."),
                ("/operations/publish/data", "'on' was read as true.", "Write true."),
            ],
        ),
        (
            {"recipients": {"groups": ["all"], "include_inactive_users": "no"}},
            [
                (
                    "/recipients/include_inactive_users",
                    "'no' was read as false.",
                    "Write false.",
                )
            ],
        ),
        ({"operations": {"refresh": "all", "publish": "true"}}, []),
        ({"active": "true"}, []),
        ({"active": False}, []),
    ],
)
def test_reading_of_a_switch_is_told(
    document: dict[str, Any], told: list[tuple[str, str, str]]
) -> None:
    """The texts of the documentation, "true" and "false", need no remark."""
    read = read_action(action(**document))

    assert told == [(each.pointer, each.message, each.hint) for each in read.remarks]


def test_remarks_are_no_part_of_an_action() -> None:
    """Two documents that mean the same are the same action."""
    loose = read_action(action(active="yes"))
    strict = read_action(action(active=True))

    assert strict == loose
    assert action_document(strict) == action_document(loose)


def test_schema_and_byte_order_mark_are_passed_over() -> None:
    """What editors write for themselves is neither refused nor stored."""
    plain = action()
    named = json.dumps({"$schema": "action.schema.json", **json.loads(plain)})

    for text in (f"\ufeff{plain}", b"\xef\xbb\xbf" + named.encode(), named):
        assert read_action(plain) == read_action(text)
    assert "$schema" not in action_document(read_action(named))
    lines = f"\ufeff{action(name='a')}\n{action(name='b')}\n"
    many = read_actions(lines.encode())
    assert isinstance(many, tuple)
    assert 2 == len(many)
