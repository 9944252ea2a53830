"""Scheduled actions: create, read, change them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from actions.lookup import fetch_app
from actions.posting.foretell import post_with_outcome
from api.answers import ROOT, answer
from api.context import Editor
from api.guarding import GuardedRoute, takes
from models.door.documents import read_action
from models.scheduled_action import ScheduledActionModel

router = APIRouter(prefix=f"{ROOT}/actions", tags=["actions"], route_class=GuardedRoute)

_EXAMPLE = {
    "name": "weekly report",
    "operations": {"send_email": {"template": "report"}},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    "recipients": {"groups": ["all"]},
}


@router.post("", status_code=201, response_model=dict[str, Any])
@takes(ScheduledActionModel, examples={"weekly report": _EXAMPLE})
def create_action(
    context: Editor,
    app: Annotated[str | None, Query(description="Uid of its small app.")] = None,
) -> Response:
    """
    Post a scheduled action; it takes effect now.

    The body is the document, verbatim. *app* may be left out by a key of one app.
    """
    services = context.services
    app = context.narrow(app)
    with context.writing() as connection:
        zone = fetch_app(connection, app or "").timezone or services.timezone
        action = read_action(
            context.body, default_timezone=zone, task_rules=services.task_rules
        )
        outcome = post_with_outcome(
            connection,
            app or "",
            action,
            replace=False,
            lookback=services.lookback,
            by=context.caller.name,
        )
    return answer(
        outcome.as_json(count=5),
        status=HTTPStatus.CREATED,
        etag=outcome.posted.revision,
        location=f"/actions/{outcome.posted.uid}",
    )
