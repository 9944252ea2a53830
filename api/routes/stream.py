"""What happens, as it happens: server-sent events."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Header
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from api.answers import ROOT
from api.guarding import ApiRoute
from api.parameters import OnlyApp, query
from serving.context import Viewer
from serving.refusals import HttpError
from serving.stream import Hub, Listener

router = APIRouter(prefix=ROOT, tags=["system"], route_class=ApiRoute)


class EventStream(StreamingResponse):
    """The stream of one listener, who leaves when it ends, however it does."""

    media_type = "text/event-stream"

    def __init__(self, hub: Hub, listener: Listener) -> None:
        """Begin with the status and headers; events follow."""
        # nginx would keep events back until it has some kilobytes of them
        super().__init__(hub.follow(listener), headers={"X-Accel-Buffering": "no"})
        self._hub = hub
        self._listener = listener

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the listener, the server or their time ends."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._hub.leave(self._listener)


#: What those are told who may not listen, and after how many seconds to come back.
_FULL = "as many listen already as this server can tell. Try again in a minute.", "60"
_STOPPING = "the server is stopping. Try again when it is back.", "5"

_EXAMPLE = """\
id: 9f86d081-41
event: operation.state
data: {"id": "0f6d5a3e-7a51-5f0e-9d3a-0c9b7a2f4c11", "app": "shop", "state": "running"}

"""


@router.get(
    "/stream",
    status_code=200,
    response_class=EventStream,
    responses={200: {"content": {"text/event-stream": {"example": _EXAMPLE}}}},
)
async def listen(
    context: Viewer,
    app: OnlyApp,
    last_event_id: Annotated[
        str | None, Header(description="The id of the last event that was received.")
    ] = None,
    begin_after: Annotated[
        str | None,
        query(
            "The same, for clients that cannot set the header at first.",
            alias="last_event_id",
        ),
    ] = None,
) -> Response:
    """
    Tell what happens, as it happens.

    Events are `operation.state`, `operation.progress`, `tick` and `leader`; of more
    operations than anybody could watch, `operations.changed` has the counts of an app.
    A client that comes back with `Last-Event-ID` gets what it missed, or `reset`: then
    it reads again whatever it shows. The stream ends every five minutes; come back.
    """
    hub = context.services.hub
    listener = await hub.join(context.tenant, app, last_event_id or begin_after)
    if listener is None:
        msg, after = _FULL if not hub.is_closed else _STOPPING
        raise HttpError(
            HTTPStatus.SERVICE_UNAVAILABLE, msg, headers={"Retry-After": after}
        )
    return EventStream(hub, listener)
