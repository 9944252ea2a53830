"""What others have changed of an action while somebody wrote at it."""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa

from actions.read_actions import RevisionNote
from actions.read_revisions import compare_revisions, fetch_revision_part
from models.door.differences import ValueDifference
from models.errors import NotFoundError
from models.paging import Page
from models.revision import OF_DOCUMENT
from overview.actions.shown import fetch_shown_action
from web.editor.document_text import write_text
from web.editor.draft import Draft

#: Revisions that are looked at for those that changed the document.
_LOOKED_AT = 50


@dataclass(frozen=True, slots=True)
class Meanwhile:
    """
    What others have changed of an action.

    Args:
        revision: Of the document that there is now.
        notes: Who changed the document, newest first.
        differences: Between what was read and what there is now. None: what was read is
            not kept any more.
        text: What there is now.
    """

    revision: int
    notes: tuple[RevisionNote, ...]
    differences: tuple[ValueDifference, ...] | None
    text: str


def fetch_meanwhile(
    connection: sa.Connection, draft: Draft, app: str | None
) -> Meanwhile:
    """
    Return what was changed since the author of *draft* has read the action.

    Args:
        draft: Of a stored action.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There is no such action.
    """
    uid, read = draft.uid or "", draft.revision or 0
    now = fetch_shown_action(connection, uid, app=app, count=0)
    part = fetch_revision_part(connection, uid, Page(_LOOKED_AT), app=app)
    notes = [
        each
        for each in part.entries
        if each.revision > read and each.change in OF_DOCUMENT
    ]
    differences = None
    try:
        found = compare_revisions(connection, uid, read, now.document_revision, app=app)
        differences = found.differences
    except NotFoundError:
        pass  # it was pruned, or the page had a revision that never was
    text = write_text(now.written)
    return Meanwhile(now.document_revision, tuple(notes), differences, text)
