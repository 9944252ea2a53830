"""The revisions of an action: what was changed, by whom, and how two of them differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from pydantic import JsonValue
from typing_extensions import TypedDict

from actions.lookup import get_action
from actions.posting.edit import fetch_document
from actions.read_actions import RevisionJson, RevisionNote, fetch_revisions
from models.door.differences import DifferenceJson, ValueDifference, find_differences
from models.paging import Page, Part


class DocumentJson(RevisionJson):
    """A revision with its document."""

    document: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ShownRevision:
    """One revision of an action, with the document that it had then."""

    note: RevisionNote
    document: Mapping[str, Any]

    def as_json(self) -> DocumentJson:
        """Return the documented object; keys are only added."""
        return {**self.note.as_json(), "document": self.document}


class ComparisonJson(TypedDict):
    """How the documents of two revisions of an action differ."""

    uid: str
    old: int
    new: int
    differences: list[DifferenceJson]


@dataclass(frozen=True, slots=True)
class Comparison:
    """
    How the documents of two revisions of an action differ.

    Args:
        differences: None if they are equal, such as before and after a pause.
    """

    uid: str
    old: int
    new: int
    differences: tuple[ValueDifference, ...]

    def as_json(self) -> ComparisonJson:
        """Return the documented object; keys are only added."""
        return {
            "uid": self.uid,
            "old": self.old,
            "new": self.new,
            "differences": [each.as_json() for each in self.differences],
        }


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
    return ShownRevision(notes[0], document)


def compare_revisions(
    connection: sa.Connection,
    uid: str,
    old: int,
    new: int | None = None,
    *,
    app: str | None = None,
) -> Comparison:
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
    return Comparison(uid, old, new, differences)
