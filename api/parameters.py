"""What several routes take: filters, terms, and words for parameters of one name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Query
from pydantic import RootModel

from actions.small_apps.apply import Applied, ApplyTerms, apply_small_app
from actions.small_apps.differences import AppDifference, foresee_apply
from models.errors import UsageError
from models.fields.field_types import Instant, Note
from models.fields.strict_model import DocumentModel
from models.small_app import SmallAppModel
from serving.context import Context, Viewer


def query(told: str, **more: Any) -> Any:
    """Return a parameter of the query, of which *told* is the description."""
    return Query(description=told, **more)


async def _narrow(
    context: Viewer, app: Annotated[str | None, query("Uid of a small app.")] = None
) -> str | None:
    return context.narrow(app)


#: The only small app that is meant, within what the caller may see. None: all.
OnlyApp = Annotated[str | None, Depends(_narrow)]


@dataclass(frozen=True, slots=True)
class Period:
    """From *since*, inclusive, until *until*, exclusive; None: without that end."""

    since: datetime | None
    until: datetime | None


def _read_period(
    since: Annotated[Instant | None, query("Inclusive.", alias="from")] = None,
    until: Annotated[Instant | None, query("Exclusive.")] = None,
) -> Period:
    return Period(since, until)


Within = Annotated[Period, Depends(_read_period)]


_Filter = TypeVar("_Filter", bound=DocumentModel)


def read_query(model: type[_Filter], *, without: str) -> Callable[..., _Filter]:
    """
    Return what reads *model* off the query of a request.

    Args:
        without: The field that no query has room for.
    """

    def read(**given: Any) -> _Filter:
        return model(**{n: value for n, value in given.items() if value is not None})

    # FastAPI reads the parameters of the query off the model.
    read.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=None,
                annotation=Annotated[
                    field.rebuild_annotation() | None,
                    Query(alias=field.alias or name, description=field.description),
                ],
            )
            for name, field in model.model_fields.items()
            if name != without
        ]
    )
    return read


class MergePatchModel(RootModel[dict[str, Any]]):
    """A JSON Merge Patch (RFC 7396): any member of the document; null clears it."""


PATCH_TYPES = ("application/merge-patch+json", "application/json")

#: Why something is changed, beside a body that is a document.
NoteQuery = Annotated[
    Note | None, query("Why; kept with the revision, and in the record of changes.")
]


def need_app(context: Context, app: str | None) -> str:
    """
    Return the small app that something is posted to.

    Raises:
        UsageError: None is named, and the caller has no only one.
        NotFoundError: It is none of the caller's.
    """
    found = context.narrow(app)
    if found is None:
        raise UsageError("a key of the installation must name the small app: ?app=UID")
    return found


#: Parameters of any route: a value that works, and what it is, in a sentence.
KNOWN: Mapping[str, tuple[object, str]] = {
    "app": ("shop", "Uid of a small app."),
    "uid": ("weekly-report", "Uid of a scheduled action."),
    "action": ("weekly-report", "Uid of a scheduled action."),
    "revision": (1, "Number of a revision of the action; the first is 1."),
    "operation_id": ("5e2f1f5c-6b0b-5a0e-9d0e-3f6f0a5a1d11", "Id of an operation."),
    "backfill_id": ("0b0c6e0e-6d0f-4c55-8c4c-0b5d3a7e9a01", "Id of a backfill."),
    "bulk_id": ("7d9f2b52-3a44-4b0a-9f0f-51b5c8e6b202", "Id of a bulk change."),
    "event_id": ("c2a1d7b4-9e1b-4e0e-8a6e-3d7f6b2c4e03", "Id of an event."),
    "key_id": ("hW3k9TzQpL7v", "Id of a key: the part after mh_."),
    "worker_id": (
        "4b1e8a52-7a0e-4d0e-9a51-6f2b8c3d5e04",
        "Id of one start of a worker.",
    ),
    "queue": ("quick", "A queue: quick, heavy, tasks or celery."),
    "user": ("ada", "Id of a user of the small app."),
    "group": ("manager", "Name of a group of the small app."),
    "step": ("send_email", "Name of a step that sends mails."),
    "recipient": ("ada", "Id of a user; of notices, an address."),
    "domain": ("sales", "Name of a domain of the small app."),
    "from": ("2026-01-05T00:00:00Z", "The first instant, inclusive."),
    "until": ("2026-01-12T00:00:00Z", "The last instant, exclusive."),
    "at": ("2026-01-05T07:00:00Z", "An instant."),
    "limit": (50, "The most entries to return."),
}


DryRun = Annotated[bool, query("Change nothing; answer with what would change.")]
RaiseEvents = Annotated[
    bool,
    query(
        "Record events of users who are new, newly activated or seen more"
        " recently. Without it, nobody is mailed because users were imported."
    ),
]


def apply_or_foresee(
    context: Context, model: SmallAppModel, terms: ApplyTerms, *, dry_run: bool
) -> Applied | AppDifference:
    """Apply *model* as ``apply_small_app`` does; with *dry_run* nothing is changed."""
    if dry_run:
        return foresee_apply(context.services.engine, model, terms)
    return context.change(apply_small_app, model, terms)
