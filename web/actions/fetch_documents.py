"""The documents of many scheduled actions: what posts them again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from actions.list_actions import select_part
from actions.lookup import fetch_app
from actions.read_actions import is_one_of
from models.database.tables import scheduled_actions
from models.paging import Page, Part
from models.requests.actions import ActionFilterModel

_kept = scheduled_actions.c


@dataclass(frozen=True, slots=True)
class ActionDocument:
    """A scheduled action as it was posted."""

    uid: str
    app: str
    document: Mapping[str, Any]


def fetch_document_part(
    connection: sa.Connection, wanted: ActionFilterModel, page: Page
) -> Part[ActionDocument]:
    """
    Return a part of the documents of scheduled actions, by small app and name.

    Args:
        page: Which part; as for ``select_part``.

    Raises:
        NotFoundError: No such small app.
    """
    if wanted.app is not None:
        fetch_app(connection, wanted.app)
    part = select_part(connection, wanted, page)
    uids = [row.uid for row in part.entries]
    query = sa.select(_kept.uid, _kept.document).where(is_one_of(connection, uids))
    rows = connection.execute(query)
    documents: dict[str, Mapping[str, Any]] = {row.uid: row.document for row in rows}
    return Part(
        [
            ActionDocument(row.uid, row.app, documents[row.uid])
            for row in part.entries
            if row.uid in documents
        ],
        part.following,
    )
