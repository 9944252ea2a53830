"""Switches that are not written as true or false."""

from __future__ import annotations

import json

from models.door.documents import action_document, read_action, read_actions
from tests.unit.models.documents import action


def test_other_spellings_of_a_switch_are_read() -> None:
    """Documents that mean the same are the same action."""
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
