"""
The JSON Schema of a scheduled action, for editors and for programs that write them.

Made from the models that judge what is posted. A document that the schema accepts may
still be refused: whether a rule can be read, or a template exists, is not a matter of
form. One that is posted well is never refused by the schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Any

from models.back_off import ATTEMPTS, LOSS_DELAY, RETRY_DELAY
from models.fields.duration import Duration
from models.fields.field_types import DAY_NAMES
from models.operation import EVERY_DOMAIN
from models.scheduled_action import ScheduledActionModel
from models.when import MOST_RULES

#: Where a sentence of a docstring goes on, which a reader's window breaks elsewhere.
_SAME_LINE = re.compile(r"(?<!\n)\n(?!\n)")

#: Begins what a docstring says of a field, which is what a schema says of it, too.
_ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)


#: What is read as true or false (``read_boolean``): so documents have always been
#: written (origin.md). Other JSON numbers and texts are refused.
_ON, _OFF = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")


def _in_any_case(words: Iterable[str]) -> str:
    """Return a pattern of *words*, for JSON Schema cannot pass over the case."""
    letters = (
        "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word)
        for word in words
    )
    return "|".join(letters)


_SWITCHES: dict[str, Any] = {
    "Switch": {
        "description": "true or false; other spellings are read, too.",
        "anyOf": [
            {"type": "boolean"},
            {"enum": [0, 1]},
            {"type": "string", "pattern": f"^({_in_any_case([*_ON, *_OFF])})$"},
        ],
    },
    "Off": {
        "description": "The step is not requested.",
        "anyOf": [
            {"enum": [False, 0, None]},
            {"type": "string", "pattern": f"^({_in_any_case(_OFF)})$"},
        ],
    },
}
_SWITCH, _OFF_STEP = {"$ref": "#/$defs/Switch"}, {"$ref": "#/$defs/Off"}

#: How each step may be written beside its object.
_SHORT: dict[str, list[dict[str, Any]]] = {
    "refresh": [_SWITCH, {"const": EVERY_DOMAIN}],
    "publish": [_SWITCH],
    "send_email": [_OFF_STEP],
    "call_webhook": [_OFF_STEP],
    "run_task": [_OFF_STEP],
}

_WEEKDAY = rf"^\s*({_in_any_case(DAY_NAMES)})\s*$"
_TIME_OF_DAY = "^([01][0-9]|2[0-3]):[0-5][0-9]$"

#: "instead" needs a day to move from.
_INSTEAD = {
    "if": {"properties": {"instead": {"type": "string"}}, "required": ["instead"]},
    "then": {"properties": {"except": {"minItems": 1}}, "required": ["except"]},
}


@cache
def make_action_schema() -> dict[str, Any]:
    """Return the schema: JSON Schema, draft 2020-12. Not to be changed."""
    made = ScheduledActionModel.model_json_schema(mode="validation", by_alias=True)
    for part in (made, *made["$defs"].values()):
        describe(part)
        # what follows the first paragraph is for readers of the source
        part["description"] = part["description"].partition("\n\n")[0]
    _take_switches(made)
    made["$defs"] |= _SWITCHES
    _say_what_validators_say(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        **_INSTEAD,
        "properties": {
            "$schema": {
                "type": "string",
                "description": "Where this schema is, for editors; not stored.",
            },
            **made["properties"],
        },
        "title": "Scheduled action",
    }


def describe(part: dict[str, Any]) -> None:
    """Say what the docstring of a class says of it, and of each field that JSON has."""
    said = part.get("description", "").replace("``", "`").replace("None", "`null`")
    text, _, arguments = said.partition("\n\nArgs:\n")
    part["description"] = _SAME_LINE.sub(" ", text)
    _, *told = _ARGUMENT.split(arguments)
    for name, said in zip(told[::2], told[1::2], strict=True):
        field = part["properties"].get(name.removesuffix("_"), {})
        field["description"] = " ".join(said.split())


def _take_switches(schema: Any) -> None:
    """Accept all that is read as a boolean where there is one, or a step without."""
    if isinstance(schema, list):
        for each in schema:
            _take_switches(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "boolean":
            del schema["type"]
            schema.pop("const", None)
            schema |= _SWITCH
        for each in schema.values():
            _take_switches(each)


def _say_what_validators_say(made: dict[str, Any]) -> None:
    """Put into *made* what the models judge by functions, which pydantic cannot see."""
    fields = {name: part.get("properties", {}) for name, part in made["$defs"].items()}
    steps = fields["OperationModel"]
    for step, forms in _SHORT.items():
        steps[step]["anyOf"] += forms
    refresh = fields["RefreshModel"]
    (names, _null) = refresh["domains"].pop("anyOf")
    del refresh["domains"]["default"]
    refresh["domains"]["anyOf"] = [{**names, "minItems": 1}, {"const": EVERY_DOMAIN}]
    made["$defs"]["RefreshModel"]["required"] = ["domains"]

    fields["WorkingDayModel"]["working_day"]["not"] = {"const": 0}
    fields["WorkingDayModel"]["at"]["pattern"] = _TIME_OF_DAY
    for kind in ("OnEventModel", "AfterEventModel"):
        fields[kind]["at"]["anyOf"][0]["pattern"] = _TIME_OF_DAY
    weekdays = fields["WeekdaysModel"]["weekdays"]
    weekdays["minItems"] = 1
    weekdays["items"]["pattern"] = _WEEKDAY
    first, lost = map(Duration.from_elapsed, (RETRY_DELAY, LOSS_DELAY))
    usual = {
        "retries": ATTEMPTS - 1,
        "retry_after": f"{first}, of a lost worker {lost}",
    }
    for name, value in usual.items():
        field = made["properties"][name]
        # python -OO leaves docstrings out
        told = f"{field.get('description', '')} Left out: {value}."
        field["description"] = told.lstrip()
    # read as a number, as each number of a document is
    numbers = [made["properties"][name] for name in ("retries", "rest_after")]
    for number in (fields["RunTaskModel"]["priority"], *numbers):
        number["anyOf"] += [
            {"type": "string", "pattern": r"^\s*[+-]?[0-9][0-9_]*(\.0+)?\s*$"},
            {"type": "boolean"},
        ]
    made["properties"]["when"]["anyOf"][-1] |= {"minItems": 1, "maxItems": MOST_RULES}
    for bound in ("starts_at", "ends_at"):
        # editors take the format to demand an offset
        del made["properties"][bound]["anyOf"][0]["format"]
