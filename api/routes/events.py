"""Events of users: send them, and see what they led to."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID, uuid4

from fastapi import APIRouter, Depends
from pydantic import Field
from starlette.responses import Response

from actions.receive_events import (
    ReceivedEvents,
    ReplayedEvent,
    receive_events,
    replay_event,
)
from api.answers import ROOT, ListJson, answer_begun, answer_list
from api.guarding import ApiRoute
from api.parameters import OnlyApp, Within, query
from models.door.documents import LARGEST_BULK
from models.door.sent_events import BATCH, MOST_EVENTS, ONE, read_sent_events
from models.event import CloudEventModel, ReplayModel, UserEventModel
from overview.events import EventFilter, ListedEvent, fetch_event_part
from serving.context import Operator, Viewer
from serving.cursors import Paged
from serving.guarding import Body

router = APIRouter(prefix=ROOT, tags=["events"], route_class=ApiRoute)

#: Of one small app.
_EVENTS = "/apps/{app}/events"

_PLAIN = {"event": "instance.user.last_seen", "user": "ada", "key": "visit-17"}
_CLOUD = {
    "specversion": "1.0",
    "id": "A234-1234-1234",
    "source": "https://shop.example.com/users",
    "type": "instance.user.last_seen",
    "subject": "ada",
}


_Listed = Field(max_length=MOST_EVENTS)
_Sent = (
    UserEventModel
    | CloudEventModel
    | Annotated[list[UserEventModel], _Listed]
    | Annotated[list[CloudEventModel], _Listed]
)


@router.post(_EVENTS, status_code=202, response_model=ReceivedEvents)
@Body(
    _Sent,
    examples={"plain": _PLAIN, "several": [_PLAIN, {**_PLAIN, "key": "visit-18"}]},
    largest=LARGEST_BULK,
    # The others carry the data of a CloudEvent whose attributes are in the headers.
    types=("application/json", ONE, BATCH, "application/octet-stream"),
    required=False,
    others={
        ONE: {"one event": _CLOUD},
        BATCH: {"a batch": [_CLOUD, {**_CLOUD, "id": "A234-1234-1235"}]},
        # Of any form; its attributes are headers.
        "application/octet-stream": {},
    },
)
def send_events(context: Operator, app: str) -> Response:
    """
    Record what happened to users: one event or many, all of them or none.

    Takes CloudEvents 1.0 (structured as `application/cloudevents+json`, a batch as
    `application/cloudevents-batch+json`, or binary, with `ce-` headers), and our own
    form as `application/json`. *type* is the name of the event, *subject* the user;
    `source` and `id` make it the same event when it is sent again, which changes
    nothing and is answered alike.
    """
    sent = read_sent_events(context.request.headers, context.body)
    received = context.write_again(
        partial(receive_events, app=app, sent=sent.events, is_list=sent.is_list)
    )
    return answer_begun(received)


def _select(
    period: Within,
    name: Annotated[str | None, query("Such as `app.invoice_sent`.")] = None,
    user: Annotated[str | None, query("Id of the user.")] = None,
) -> EventFilter:
    return EventFilter(name, user, period.since, period.until)


@router.get("/events", response_model=ListJson[ListedEvent])
def list_events(
    context: Viewer,
    page: Paged,
    app: OnlyApp,
    wanted: Annotated[EventFilter, Depends(_select)],
) -> Response:
    """
    List the events of all small apps, or of one, the latest recorded first.

    A period is that in which they were recorded. Each has the first actions that wait
    for it, and what it made of them.
    """
    return answer_list(context, context.fetch(fetch_event_part, app, wanted, page))


@router.post(
    f"{_EVENTS}/{{event_id}}/replay", status_code=202, response_model=ReplayedEvent
)
@Body(ReplayModel, examples={"once": {"key": "after-the-fix"}}, required=False)
def replay(context: Operator, app: str, event_id: UUID) -> Response:
    """
    Record that what the event says happened again, now: a new event with its own id.

    It leads to runs of its own; those of the first event stay what they are. Only the
    app's own events (`app.…`) can be replayed: the others say when something happened
    to the user, and are refused with 409.
    """
    asked = context.read(ReplayModel, "replay")
    key = asked.key or context.repeatable or str(uuid4())
    replayed = context.change(replay_event, app, event_id, key=key)
    return answer_begun(replayed)
