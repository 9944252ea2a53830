"""What routes of scheduled actions take from the request and the installation."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from actions.posting.edit import Signature
from models.errors import UsageError
from models.requests.actions import Note
from serving.context import Context

#: Why something is changed, beside a body that is a document.
NoteQuery = Annotated[
    Note | None,
    Query(description="Why; kept with the revision, and in the record of changes."),
]


def make_signature(context: Context, note: str | None) -> Signature:
    """Return who edits, and why."""
    return Signature(context.caller.name, note)


def need_app(context: Context, app: str | None) -> str:
    """
    Return the small app that something is posted to.

    Raises:
        UsageError: None is named, and the caller has no only one.
        NotFoundError: It is none of the caller's.
    """
    found = context.narrow(app)
    if found is None:
        msg = "a key of the installation must name the small app: ?app=UID"
        raise UsageError(msg)
    return found
