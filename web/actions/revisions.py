"""The revisions of an action: who changed what, how two differ, and back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from starlette.responses import Response

from actions.posting.edit import roll_back
from actions.posting.post import SeenAction
from actions.read_actions import (
    ComparedRevisions,
    RevisionNote,
    compare_revisions,
    fetch_revision_part,
    fetch_shown_revision,
)
from models.errors import NotFoundError
from models.fields.zone import load_zone
from models.paging import Page, Part
from models.revision import OF_DOCUMENT, ActionState
from models.role import Role
from overview.actions import ShownAction, fetch_shown_action
from serving.context import Context, Editor, Viewer
from web.editor.draft import Draft, Judged, judge, write_text
from web.forms import LARGEST_REVISION, Form, go_to, read_revision
from web.guarding import make_router
from web.query import Unread, read_part
from web.questions import after_question
from web.rendering import render

router = make_router()

#: Revisions on one page.
_SHOWN = 50


@dataclass(frozen=True, slots=True)
class _Compared:
    """Two revisions, and how they differ; a text of each."""

    comparison: ComparedRevisions
    old_text: str
    new_text: str


@router.get("/actions/{uid}/revisions")
def show_revisions(context: Viewer, uid: str) -> Response:
    """Show the revisions, and how the two that were chosen differ."""
    action = _read_action(context, uid)
    query = context.request.query_params
    before = read_revision(query.get("before"))
    page = Page(_SHOWN, None if before is None else (before,))

    def read(connection: sa.Connection) -> Part[RevisionNote]:
        return fetch_revision_part(connection, uid, page, app=context.app)

    old, new = read_revision(query.get("old")), read_revision(query.get("new"))
    compared: _Compared | Unread | None = None
    missing = ""
    if old is not None:
        try:
            compared = read_part(context, _compare, context, uid, old, new)
        except NotFoundError as error:
            missing = str(error)
    values: dict[str, Any] = {
        "action": action,
        "compared": compared,
        "is_later": before is not None,
        "is_editor": context.caller.role >= Role.EDITOR,
        "is_deleted": action.state is ActionState.DELETED,
        "missing": missing,
        "new": new,
        "OF_DOCUMENT": OF_DOCUMENT,
        "old": old,
        "part": read_part(context, read),
    }
    return render(context, "actions/revisions.html", values)


def _ask(context: Context, uid: str, revision: int) -> tuple[str, dict[str, Any]]:
    """Show what restoring a revision would change."""
    action = _read_action(context, uid)
    if action.state is ActionState.DELETED:
        raise NotFoundError(f"there is no scheduled action {uid!r}")
    current = action.document_revision
    compared = context.fetch(_compare, context, uid, current, _check_number(revision))
    draft = Draft(compared.new_text, action.app, uid, current)
    zone = load_zone(context.services.timezone)
    judged = judge(context, draft, viewer_zone=zone)
    if isinstance(judged, Unread):
        judged = Judged()
    return "actions/restore.html", {
        "action": action,
        "compared": compared,
        "found": judged.found,
        "grave": judged.grave,
        "revision": revision,
    }


@after_question(router, "/actions/{uid}/revisions/{revision}/restore", _ask)
def restore(context: Editor, form: Form, uid: str, revision: int) -> Response:
    """Give the action the document of an earlier revision."""
    outcome = context.change(
        roll_back,
        SeenAction(uid, context.app, read_revision(form.get("current")) or 0),
        _check_number(revision),
        terms=context.sign(form.get("note") or None),
    )
    told = (
        f"{outcome.name!r} has the document of revision {revision} again, as"
        f" revision {outcome.revision}."
    )
    return go_to(f"/actions/{uid}", told)


def _compare(
    connection: sa.Connection, context: Context, uid: str, old: int, new: int | None
) -> _Compared:
    found = compare_revisions(connection, uid, old, new, app=context.app)
    before, after = (
        fetch_shown_revision(connection, uid, number, app=context.app).document
        for number in (found.old, found.new)
    )
    return _Compared(found, write_text(before), write_text(after))


def _read_action(context: Context, uid: str) -> ShownAction:
    return context.fetch(fetch_shown_action, uid, app=context.app, count=0)


def _check_number(revision: int) -> int:
    """
    Return the number of a revision.

    Raises:
        NotFoundError: It is none that a database could have.
    """
    if not 1 <= revision <= LARGEST_REVISION:
        raise NotFoundError(f"there is no revision {revision}")
    return revision
