"""
A first scheduled action for a new installation: one mail, to whoever asks for it.

It is posted as any other, in a small app made for it. It needs neither data nor a
server but that of mails, so that it works wherever Minutehand does.
"""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from actions.posting.edit import Signature, Terms, post_text
from actions.posting.foretell import Outcome
from actions.small_apps.apply import apply_small_app
from models.database.engine import read_clock
from models.door.app_documents import read_small_app

#: Uid of the small app that is made.
APP = "hello"

#: The name of its template, and of the step's argument.
_TEMPLATE = "hello"

#: The document of the action, but for its recipient.
ACTION: dict[str, Any] = {
    "name": "say hello",
    "operations": {"send_email": {"template": _TEMPLATE}},
    "when": {"cron_rule": "0 9 * * Mon-Fri"},
}


def make_app_document(
    email: str, zone: str, *, since: str | None = None
) -> dict[str, Any]:
    """
    Return the document of the small app: one user, one template.

    Args:
        email: Of the user; also their id.
        zone: IANA name, in which the rule is read.
        since: Since when the user has an account, RFC 3339. None: it is not said.
    """
    return {
        "name": "Hello",
        "timezone": zone,
        "users": [
            {"id": email, "email": email, "created_at": since, "activated_at": since}
        ],
        "templates": {
            _TEMPLATE: {
                "subject": "Hello from Minutehand",
                "text": (
                    "Hello,\n\nthis is your first scheduled action. It runs Monday to"
                    " Friday at 09:00, once, also on the days when the clocks"
                    " change.\n"
                ),
            }
        },
    }


def post_first_action(
    connection: sa.Connection, email: str, *, zone: str, terms: Terms, signed: Signature
) -> Outcome:
    """
    Make the small app APP and post an action in it that mails *email*.

    Args:
        email: Of whoever is to be mailed.
        zone: IANA name, in which the rule is read.
        signed: Who asks for it.

    Raises:
        InvalidDocumentError: *email* is no address, or *zone* no zone.
        StaleError: There is such an app already.
    """
    # Made a moment ago: a user is told apart from one who never came by an instant.
    since = read_clock(connection) - timedelta(seconds=1)
    document = make_app_document(email, zone, since=since.isoformat(timespec="seconds"))
    app = read_small_app(json.dumps(document).encode(), uid=APP)
    apply_small_app(connection, app, by=signed.by, expected_revision=0)
    action = {**ACTION, "recipients": {"users": [email]}}
    return post_text(connection, APP, json.dumps(action), terms=terms, signed=signed)
