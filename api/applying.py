"""How routes apply what belongs to a small app, or say what that would change."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from actions.small_apps.apply import Applied, apply_small_app
from actions.small_apps.differences import AppDifference, foresee_apply
from models.small_app import SmallAppModel
from serving.context import Context

DryRun = Annotated[
    bool, Query(description="Change nothing; answer with what would change.")
]
RaiseEvents = Annotated[
    bool,
    Query(
        description="Record events of users who are new, newly activated or seen more"
        " recently. Without it, nobody is mailed because users were imported."
    ),
]


def apply_or_foresee(
    context: Context,
    model: SmallAppModel,
    expected: int | None,
    *,
    may_create: bool,
    dry_run: bool,
    events: bool,
) -> Applied | AppDifference:
    """
    Apply *model*; with *dry_run* nothing is changed.

    Args:
        expected: The revision that the caller has seen; 0: none. None: any.
        may_create: Whether the caller may make small apps.
        dry_run: Whether only to say what would change.
        events: Whether to record events of users.

    Raises:
        MinutehandError: As ``apply_small_app`` does.
    """
    options: dict[str, Any] = {
        "raise_events": events,
        "by": context.caller.name,
        "expected_revision": expected,
        "may_create": may_create,
    }
    if dry_run:
        return foresee_apply(context.services.engine, model, **options)
    with context.writing() as connection:
        return apply_small_app(connection, model, **options)
