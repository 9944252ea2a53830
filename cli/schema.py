"""``schema``: prints the JSON Schema of a scheduled action, for editors."""

from __future__ import annotations

import json
import sys

from models.door.action_schema import make_action_schema


def schema() -> None:
    """
    Print the JSON Schema of a scheduled action, for editors and programs.

    A document may name the file that has it: "$schema": "action.schema.json".
    """
    text = json.dumps(make_action_schema(), ensure_ascii=False, indent=2)
    sys.stdout.write(f"{text}\n")
