"""The revisions of an action: what was changed, by whom, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import sqlalchemy as sa
from pydantic import JsonValue

from actions.lookup import get_action
from actions.posting.edit import fetch_document
from actions.read_actions import RevisionNote, fetch_revisions
from models.door.differences import ValueDifference, find_differences
from models.paging import Page, Part


@dataclass(frozen=True, slots=True)
class ShownRevision(RevisionNote):
    """A revision with the document that it had; the action is in effect with it."""

    document: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ComparedRevisions:
    """How the document differs between two revisions; not at all before a pause."""

    uid: str
    old: int
    new: int
    differences: tuple[ValueDifference, ...]


def fetch_revision_part(
    connection: sa.Connection, uid: str, page: Page, *, app: str | None = None
) -> Part[RevisionNote]:
    """
    Return a part of the revisions of an action, newest first, without documents.

    Args:
        uid: Of an action, deleted or not.
        page: Its position is the number of the last revision that was shown.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There has never been such an action.
    """
    get_action(connection, uid, app=app)
    after = page.read_after(int)
    before = None if after is None else after[0]
    found = fetch_revisions(connection, uid, limit=page.limit + 1, before=before)
    shown = found[: page.limit]
    if len(shown) == len(found):
        return Part(shown, None)
    return Part(shown, (shown[-1].revision,))


def fetch_shown_revision(
    connection: sa.Connection, uid: str, revision: int, *, app: str | None = None
) -> ShownRevision:
    """
    Return one revision of an action with its document.

    Raises:
        NotFoundError: There is no such action or revision, or it was pruned.
    """
    get_action(connection, uid, app=app)
    document = fetch_document(connection, uid, revision)
    notes = fetch_revisions(connection, uid, limit=1, before=revision + 1)
    return ShownRevision(**asdict(notes[0]), document=document)


def compare_revisions(
    connection: sa.Connection,
    uid: str,
    old: int,
    new: int | None = None,
    *,
    app: str | None = None,
) -> ComparedRevisions:
    """
    Return how the document of revision *new* differs from that of *old*.

    Args:
        uid: Of an action, deleted or not.
        old: A revision.
        new: Another one, later or earlier. None: the latest.
        app: Uid of a small app; other apps' actions are unknown. None: of any app.

    Raises:
        NotFoundError: There is no such action, or one of the revisions is not there.
    """
    row = get_action(connection, uid, app=app)
    new = row.revision if new is None else new
    differences = find_differences(
        fetch_document(connection, uid, old), fetch_document(connection, uid, new)
    )
    return ComparedRevisions(uid, old, new, differences)
