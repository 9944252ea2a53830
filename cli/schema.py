"""``schema``: prints the JSON Schema of a scheduled action, for editors."""

from __future__ import annotations

from cli.output import out
from models.door.action_schema import make_action_schema


def schema() -> None:
    """
    Print the JSON Schema of a scheduled action, for editors and programs.

    A document may name the file that has it: "$schema": "action.schema.json".
    """
    out().json(make_action_schema(), indented=True)
