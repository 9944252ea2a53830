"""The JSON Schema of a scheduled action."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from models.door.action_schema import DESCRIPTIONS, make_action_schema
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError
from tests.scheduling import make_document

ROOT = Path(__file__).parents[4]
VALIDATOR = jsonschema.Draft202012Validator(make_action_schema())


def is_accepted(document: Any) -> bool:
    """Whether the schema accepts a document."""
    return bool(VALIDATOR.is_valid(document))


def test_schema_is_a_schema():
    """
    Of the draft that it names.
    """
    VALIDATOR.check_schema(make_action_schema())


def test_every_field_is_described():
    """
    And nothing that does not exist.
    """
    schema = make_action_schema()
    parts = {"ScheduledActionModel": schema, **schema["$defs"]}
    fields = {
        name: set(part["properties"]) - {"$schema"}
        for name, part in parts.items()
        if "properties" in part
    }

    assert fields == {name: set(known) for name, known in DESCRIPTIONS.items()}


@pytest.mark.parametrize(
    "path", sorted((ROOT / "cli" / "examples").glob("*.json")), ids=lambda p: p.name
)
def test_examples_are_accepted(path: Path):
    """
    All that are printed as templates.
    """
    document = json.loads(path.read_text())
    for each in document if isinstance(document, list) else [document]:
        if "operations" in each:
            VALIDATOR.validate(each)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"active": "true"},
        {"active": False},
        {"operations": {"publish": {"data": "true", "design": "false"}}},
        {"operations": {"send_execsum": True}},
        {"when": {"on": "instance.user.created"}},
        {"when": [{"cron_rule": "0 7 * * *"}, {"due_date": "2099-01-01T00:00:00Z"}]},
        {"except": ["2026-12-25", {"from": "2026-12-24", "until": "2027-01-03"}]},
        {"except": [{"weekdays": ["sat", "SUNDAY"]}], "instead": "after"},
        {"when": {"working_day": -1, "at": "09:00"}},
        {"overlap": "queue", "jitter": "PT5M", "catch_up": {"runs": "latest"}},
    ],
)
def test_what_is_posted_well_is_accepted(changes: dict[str, Any]):
    """
    The schema refuses nothing that the door takes.
    """
    document = make_document(**changes)
    read_action_object(copy.deepcopy(document))

    VALIDATOR.validate(document)


@pytest.mark.parametrize(
    "changes",
    [
        {"name": 1},
        {"operatons": {}},
        {"active": "truee"},
        {"operations": {"publish": {"dta": True}}},
        {"overlap": "never"},
    ],
)
def test_what_has_another_form_is_refused(changes: dict[str, Any]):
    """
    An editor shows a typo where it is made; the door refuses the same.
    """
    document = make_document(**changes)
    with pytest.raises(InvalidDocumentError):
        read_action_object(copy.deepcopy(document))

    assert not is_accepted(document)
