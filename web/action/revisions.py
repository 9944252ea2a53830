"""The revisions of an action: who changed what, how two differ, and back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from fastapi import APIRouter
from starlette.responses import Response

from actions.posting.edit import roll_back
from actions.posting.post import SeenAction
from actions.read_actions import RevisionNote
from actions.read_revisions import (
    ComparedRevisions,
    compare_revisions,
    fetch_revision_part,
    fetch_shown_revision,
)
from models.errors import MinutehandError, NotFoundError
from models.paging import Page, Part
from models.revision import OF_DOCUMENT, ActionState
from overview.actions.shown import ShownAction, fetch_shown_action
from overview.previews.new import FullPreview
from serving.access.roles import Role
from serving.context import Context, Editor, Viewer
from serving.refusals import find_status
from web.clocks import find_zone
from web.editor.document_text import write_text
from web.editor.draft import Draft, Judged, judge
from web.forms import LARGEST_REVISION, make_refused, read_form, read_revision
from web.guarding import PageRoute, takes_form
from web.messages import go_to
from web.reading import Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

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
            compared = read_part(context, lambda c: _compare(c, context, uid, old, new))
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
    return render(context, "action/revisions.html", values)


@router.get("/actions/{uid}/revisions/{revision}/restore")
def ask_restore(context: Editor, uid: str, revision: int) -> Response:
    """Show what restoring a revision would change."""
    return _ask(context, uid, revision)


@router.post("/actions/{uid}/revisions/{revision}/restore")
@takes_form
def restore(context: Editor, uid: str, revision: int) -> Response:
    """Give the action the document of an earlier revision."""
    form = read_form(context.body)
    try:
        with context.writing() as connection:
            outcome = roll_back(
                connection,
                SeenAction(uid, context.app, read_revision(form.get("current")) or 0),
                _check_number(revision),
                terms=context.sign(form.get("note") or None),
            )
    except NotFoundError:
        raise
    except MinutehandError as error:
        return _ask(context, uid, revision, error)
    told = (
        f"{outcome.name!r} has the document of revision {revision} again, as"
        f" revision {outcome.revision}."
    )
    return go_to(f"/actions/{uid}", told)


def _ask(
    context: Context, uid: str, revision: int, error: MinutehandError | None = None
) -> Response:
    action = _read_action(context, uid)
    if action.state is ActionState.DELETED:
        msg = f"there is no scheduled action {uid!r}"
        raise NotFoundError(msg)
    current = action.document_revision
    with context.reading() as connection:
        compared = _compare(connection, context, uid, current, _check_number(revision))
    zone = find_zone(context.services.timezone)
    assert zone is not None  # the settings were checked at the start
    draft = Draft(compared.new_text, action.app, uid, current)
    judged = judge(context, draft, viewer_zone=zone)
    found: FullPreview | None = judged.found if isinstance(judged, Judged) else None
    values = {
        "action": action,
        "compared": compared,
        "found": found,
        "grave": judged.grave if isinstance(judged, Judged) else [],
        "refused": None if error is None else make_refused(error),
        "revision": revision,
    }
    status = {} if error is None else {"status": find_status(error)}
    return render(context, "action/restore.html", values, **status)


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
    with context.reading() as connection:
        return fetch_shown_action(connection, uid, app=context.app, count=0)


def _check_number(revision: int) -> int:
    """
    Return the number of a revision.

    Raises:
        NotFoundError: It is none that a database could have.
    """
    if not 1 <= revision <= LARGEST_REVISION:
        msg = f"there is no revision {revision}"
        raise NotFoundError(msg)
    return revision
