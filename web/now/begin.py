"""The first minute: how an empty installation gets its first scheduled action."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from starlette.responses import Response

from actions.posting.edit import PostedAction, Terms, post_text
from actions.small_apps.apply import ApplyTerms, apply_small_app
from models.database.engine import read_clock
from models.door.app_documents import read_small_app
from models.errors import InvalidDocumentError, Problem, StaleError
from models.role import Role
from serving.context import Context, Editor, Viewer
from web.forms import Form, Refused, go_to, make_refused, read_form
from web.guarding import make_router, takes_form
from web.rendering import find_own_zone, render

router = make_router()


@router.get("/begin")
def show_beginning(context: Viewer) -> Response:
    """Show the ways to begin, whatever there is already."""
    return _render(context)


@router.post("/begin")
@takes_form
def begin(context: Editor) -> Response:
    """Post a first action in a small app made for it, and lead to it."""
    form = read_form(context.body)
    try:
        if context.app is not None:
            _refuse_app(context.app)
        zone, terms = find_own_zone(context).key, context.sign("the first action")
        posted = context.change(
            post_first_action, form.get("email"), zone=zone, terms=terms
        )
    except StaleError:
        told = (
            f"The small app {APP!r} is there already. Its action is in the list, or"
            " post one of your own."
        )
        return _render(context, form, Refused(told, others=(told,)))
    except InvalidDocumentError as error:
        return _render(context, form, make_refused(place_problems(error)))
    told = "Posted, and scheduled. It waits for its time; run it now to see its mail."
    return go_to(f"/actions/{quote(str(posted.uid), safe='')}", told)


def _refuse_app(app: str) -> None:
    message = (
        f"Your key is one of the small app {app!r}, and a first action has an app of"
        " its own."
    )
    hint = "Post an action in your app."
    raise InvalidDocumentError((Problem("", message, hint),))


def place_problems(error: InvalidDocumentError) -> InvalidDocumentError:
    """
    Return *error* with what is about the address of the user at the field of the form.

    What somebody typed is in two places of two documents.
    """
    placed: dict[str, Problem] = {}
    for each in error.problems:
        is_address = "users" in each.pointer or each.pointer == ""
        pointer = "/email" if is_address else each.pointer
        placed.setdefault(pointer, Problem(pointer, each.message, each.hint))
    return InvalidDocumentError(tuple(placed.values()))


def make_begin_values(
    context: Context, form: Form | None = None, refused: Refused | None = None
) -> Mapping[str, Any]:
    """Return what the cards show."""
    settings = context.services.settings
    return {
        "form": form,
        "refused": refused,
        "may_begin": context.app is None and context.caller.role >= Role.EDITOR,
        "first_zone": find_own_zone(context).key,
        "mails_to": None if "://" in settings.smtp_url else settings.smtp_url,
    }


def _render(
    context: Context, form: Form | None = None, refused: Refused | None = None
) -> Response:
    values = make_begin_values(context, form, refused)
    return render(context, "now/begin.html", values, refused=refused)


@router.get("/guide")
def show_guide(context: Viewer) -> Response:
    """Show the five-minute guide."""
    return render(context, "now/guide.html")


#: Uid of the small app that is made.
APP = "hello"

#: The documents of the small app, of one user and one template, and of its action.
_DOCUMENTS = Path(__file__).with_name("first_action.json")


def post_first_action(
    connection: sa.Connection, email: str, *, zone: str, terms: Terms
) -> PostedAction:
    """
    Make the small app APP and post an action in it that mails *email*.

    Args:
        email: Of whoever is to be mailed.
        zone: IANA name, in which the rule is read.
        terms: Say who asks for it, too.

    Raises:
        InvalidDocumentError: *email* is no address, or *zone* no zone.
        StaleError: There is such an app already.
    """
    # Made a moment ago: a user is told apart from one who never came by an instant.
    at = read_clock(connection) - timedelta(seconds=1)
    since = at.isoformat(timespec="seconds")
    user = {"id": email, "email": email, "created_at": since, "activated_at": since}
    documents = json.loads(_DOCUMENTS.read_text(encoding="utf-8"))
    document = {**documents["app"], "timezone": zone, "users": [user]}
    app = read_small_app(json.dumps(document).encode(), uid=APP)
    apply_small_app(connection, app, ApplyTerms(by=terms.by, expected_revision=0))
    action = {**documents["action"], "recipients": {"users": [email]}}
    return post_text(connection, APP, json.dumps(action), terms=terms)
