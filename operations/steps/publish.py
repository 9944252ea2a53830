"""publish: make what is staged live."""

from __future__ import annotations

from dataclasses import asdict

from pydantic import JsonValue

from models.errors import StepError
from models.operation import PublishModel
from operations.domains import Move
from operations.ports import StepContext, StepResult

#: What can be published, as the fields of PublishModel.
KINDS = ("data", "design", "permissions")


def publish(context: StepContext, asked: PublishModel) -> StepResult:
    """
    Publish the kinds *asked* for, all of them or none.

    If all three are asked for (``true`` means that), the staged ones are published: a
    small app with data need not have documents.

    Returns:
        ``published``: the kinds; ``moved``: the domains and documents that were not
        yet live, with the versions before and after.

    Raises:
        StepError: Permanent: nothing is staged for one of the kinds, or, if all three
            are asked for, nothing at all.
    """
    kinds = tuple(kind for kind in KINDS if getattr(asked, kind))
    if kinds == KINDS:
        kinds = _find_staged(context)
    context.progress(0, len(kinds), ", ".join(kinds))
    workspace = context.ports.workspace
    moves = workspace.publish(context.claimant, kinds, notify=False)
    for move in moves:
        context.say(_describe(move))
    if not moves:
        context.say("nothing moved: what is staged was live already")
    context.progress(len(kinds), len(kinds))
    moved: list[JsonValue] = [asdict(move) for move in moves]
    return {"published": list(kinds), "moved": moved}


def _describe(move: Move) -> str:
    """Say which pointer moved, and from where."""
    if move.after is None:  # documents have no versions
        return f"{move.kind}: what was staged is live"
    before = "nothing" if move.before is None else f"version {move.before}"
    return f"{move.kind} {move.name}: version {move.after} is live, {before} was"


def _find_staged(context: StepContext) -> tuple[str, ...]:
    staged = context.ports.workspace.fetch_staged(context.app, KINDS)
    if not staged:
        msg = (
            f"small app {context.app!r} has nothing staged: neither data nor documents."
            ' Run "refresh" before "publish", or apply documents (minutehand apps'
            " apply FILE)."
        )
        raise StepError(msg, permanent=True)
    return staged
