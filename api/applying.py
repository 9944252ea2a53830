"""How routes apply what belongs to a small app, or say what that would change."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from actions.small_apps.apply import Applied, ApplyTerms, apply_small_app
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
    terms: ApplyTerms,
    *,
    dry_run: bool,
) -> Applied | AppDifference:
    """Apply *model* as ``apply_small_app`` does; with *dry_run* nothing is changed."""
    if dry_run:
        return foresee_apply(context.services.engine, model, terms)
    with context.writing() as connection:
        return apply_small_app(connection, model, terms)
