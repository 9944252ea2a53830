"""Tests of how dataclasses become the documented objects."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from pydantic import TypeAdapter

from models.json_form import ASIDE, write_json

AT = datetime(2026, 11, 23, 6, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Move:
    """A thing of which the schema and the text name the same members."""

    old: datetime = field(metadata={"serialization_alias": "from"})
    day: date
    row: object = field(metadata=ASIDE)


def test_members_are_those_of_the_schema():
    """What is beside the object is in neither; what has another name has it in both."""
    written = write_json(Move(AT, AT.date(), row=object()))
    schema = TypeAdapter(Move).json_schema(mode="serialization", by_alias=True)

    assert '{"from": "2026-11-23T06:00:00Z", "day": "2026-11-23"}' == written
    assert ["from", "day"] == schema["required"]


def test_no_text_commands_a_terminal():
    """JSON may have the controls above ASCII as they are; its value stays the same."""
    text = "a\x1b[2J\x7f\x9b31mé\xa0"
    written = write_json({text: [text]}, indent=2)

    assert r"a\u001b[2J\u007f\u009b31mé" in written
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f]", written)
    assert {text: [text]} == json.loads(written)
