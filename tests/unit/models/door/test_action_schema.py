"""The JSON Schema of a scheduled action."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from models.door.action_schema import make_action_schema
from models.door.documents import action_document, read_action_object
from models.errors import InvalidDocumentError
from models.fields.strict_model import get_keys
from models.scheduled_action import ScheduledActionModel
from tests.scheduling import make_document

ROOT = Path(__file__).parents[4]
VALIDATOR = jsonschema.Draft202012Validator(
    make_action_schema(), format_checker=jsonschema.FormatChecker()
)

FIELDS = get_keys(ScheduledActionModel)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = [ROOT / "cli/examples", ROOT / "docs/examples", ROOT / "tests/examples"]


def is_accepted(document: Any) -> bool:
    """Whether the schema accepts a document."""
    return bool(VALIDATOR.is_valid(document))


def test_schema_is_a_schema():
    """Of the draft that it names."""
    VALIDATOR.check_schema(make_action_schema())


def test_every_field_is_described():
    """By the docstrings of the models."""
    schema = make_action_schema()
    undescribed = [
        (name, field)
        for name, part in {"": schema, **schema["$defs"]}.items()
        for field, said in part.get("properties", {}).items()
        if not said.get("description")
    ]

    assert [] == undescribed


def test_schema_is_made_without_docstrings():
    """As ``python -OO`` leaves them out; it says less then."""
    made = "from models.door.action_schema import make_action_schema as f; f()"

    subprocess.run([sys.executable, "-OO", "-c", made], cwd=ROOT, check=True)


def find_examples() -> Iterator[tuple[str, Any]]:
    """Yield all JSON of examples, with its place."""
    for folder in FOLDERS:
        for path in sorted(folder.glob("*.json")):
            document = json.loads(path.read_text("utf-8"))
            for each in document if isinstance(document, list) else [document]:
                yield f"{folder.name}/{path.name}", each
    for page in PAGES:
        text = page.read_text("utf-8")
        for n, block in enumerate(re.findall(r"```json\n(.*?)```", text, re.DOTALL)):
            yield f"{page.name}-{n}", json.loads(block)


def find_actions() -> list[Any]:
    """Return what is an action, or some fields of one, as a whole action."""
    return [
        pytest.param({**make_document(), **found}, id=place)
        for place, found in find_examples()
        if isinstance(found, dict) and found.keys() <= {"$schema", *FIELDS}
    ]


@pytest.mark.parametrize("example", find_actions())
def test_examples_are_accepted(example: Any):
    """
    All that are printed as templates, and all that the pages show; and as stored, which
    reads back as the same action.
    """
    action = read_action_object(example)
    stored = action_document(action)

    VALIDATOR.validate(example)
    VALIDATOR.validate(stored)
    assert action == read_action_object(stored)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"active": "true"},
        {"active": False},
        {"operations": {"publish": {"data": "true", "design": "false"}}},
        {"operations": {"send_execsum": True}},
        {"active": "yes"},
        {"active": 1},
        {"active": "OFF"},
        {"operations": {"refresh": True}},
        {"operations": {"refresh": "all"}},
        {"operations": {"refresh": "Yes", "publish": 1, "send_email": "no"}},
        {"operations": {"refresh": {"domains": "all", "force": "on"}}},
        {"operations": {"run_task": {"name": "t", "priority": "5"}}},
        {"operations": {"maintenance": "true", "run_task": False}},
        {"starts_at": "2026-12-01T00:00:00", "ends_at": None},
        {"instead": None},
        {"when": {"on": "instance.user.created"}},
        {"when": [{"cron_rule": "0 7 * * *"}, {"due_date": "2099-01-01T00:00:00Z"}]},
        {"except": ["2026-12-25", {"from": "2026-12-24", "until": "2027-01-03"}]},
        {"except": [{"weekdays": ["sat", "SUNDAY"]}], "instead": "after"},
        {"when": {"working_day": -1, "at": "09:00"}},
        {"overlap": "queue", "jitter": "PT5M", "catch_up": {"runs": "latest"}},
        {"retries": 0, "rest_after": 3, "ping": "https://hc-ping.com/x"},
        {"expect": {"within": "PT30M"}},
        {"operations": {"refresh": True, "publish": True}, "if": {"refreshed": "yes"}},
        {"retries": "5", "retry_after": "PT1M"},
    ],
)
def test_what_is_posted_well_is_accepted(changes: dict[str, Any]):
    """The schema refuses nothing that the door takes."""
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
        {"retries": 11},
        {"rest_after": 0},
        {"expect": {"takes": 10}},
        {"if": {}},
        {"retries": "five"},
        {"operations": {"refresh": "everything"}},
        {"operations": {"refresh": {"domains": []}}},
        {"operations": {"refresh": {"force": True}}},
        {"operations": {"send_email": True}},
        {"when": []},
        {"when": {"working_day": 0, "at": "09:00"}},
        {"when": {"working_day": 28, "at": "09:00"}},
        {"when": {"working_day": 1, "at": "9:00"}},
        {"when": {"on": "instance.user.created", "at": "24:00"}},
        {"except": ["25.12.2026"]},
        {"except": [{"weekdays": []}]},
        {"except": [{"weekdays": ["Sat-Sun"]}]},
        {"instead": "after"},
        {"instead": "after", "except": []},
    ],
)
def test_what_has_another_form_is_refused(changes: dict[str, Any]):
    """An editor shows a typo where it is made; the door refuses the same."""
    document = make_document(**changes)
    with pytest.raises(InvalidDocumentError):
        read_action_object(copy.deepcopy(document))

    assert not is_accepted(document)
