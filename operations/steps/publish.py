"""publish: point live at what is staged. Rolling back is the same move."""

from __future__ import annotations

from pydantic import JsonValue

from models.operation import PublishModel
from operations.ports import StepContext, StepResult

#: What can be published, as the fields of PublishModel.
KINDS = ("data", "design", "permissions")


def publish(context: StepContext, asked: PublishModel) -> StepResult:
    """
    Publish the kinds *asked* for, together or not at all.

    Returns:
        ``published``: the kinds; ``moved``: the domains and documents that were not
        live already, with the version before and after.

    Raises:
        StepError: Permanent: nothing is staged for one of the kinds.
    """
    kinds = tuple(kind for kind in KINDS if getattr(asked, kind))
    context.progress(0, 1, ", ".join(kinds))
    moves = context.ports.workspace.publish(
        context.app, kinds, now=context.now, guard=context.guard, notify=False
    )
    moved: list[JsonValue] = [
        {
            "kind": move.kind,
            "name": move.name,
            "before": move.before,
            "after": move.after,
        }
        for move in moves
    ]
    return {"published": list(kinds), "moved": moved}
