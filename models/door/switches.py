"""
Switches that are written as something else than true or false. Pure.

``"yes"``, ``1`` and ``"on"`` are accepted, as they have always been. Whoever posts them
is told how each was read, since "no" for "no mails" may have been meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from models.door.json_text import make_pointer
from models.errors import Problem
from models.fields.strict_model import show
from models.operation import OperationModel, PublishModel, read_boolean
from models.recipients import RecipientFilterModel

#: Where a document may have a switch.
_PLACES = (
    ("active",),
    *(("operations", step) for step in OperationModel.model_fields),
    ("operations", "refresh", "force"),
    *(("operations", "publish", part) for part in PublishModel.model_fields),
    *(
        ("recipients", name)
        for name, each in RecipientFilterModel.model_fields.items()
        if each.annotation is bool
    ),
)

#: The two texts that are documented, and need no remark.
_PLAIN = frozenset({"true", "false"})


def find_loose_switches(document: Mapping[str, object]) -> Iterator[Problem]:
    """Yield how each switch of *document* was read that is not true or false."""
    for path in _PLACES:
        value: object = document
        for part in path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, bool | Mapping | list | None) or value in _PLAIN:
            continue
        read = read_boolean(value)
        if read is not None:
            said = "true" if read else "false"
            message = f"{show(value)} was read as {said}."
            yield Problem(make_pointer(path), message, f"Write {said}.")
