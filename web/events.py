"""Events: what happened to users, and what actions made of it."""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote
from uuid import UUID, uuid4

from starlette.responses import Response

from actions.receive_events import find_refusal, receive_events, replay_event
from models.event import EventName, ReplayModel, UserEventModel
from overview.events import EventFilter, fetch_detailed_event, fetch_event_part
from serving.context import Context, Operator, Viewer
from web.forms import Form, go_to
from web.guarding import make_router
from web.query import Query, Unread, read_part
from web.questions import after_question
from web.rendering import find_address, render

router = make_router()


@router.get("/events")
def show_events(context: Viewer) -> Response:
    """List events, the latest recorded first, with what the first actions made."""
    query = Query(context)
    app = context.narrow(query.text("app"))
    since, until = query.day("day")
    wanted = EventFilter(query.text("name"), query.text("user"), since, until)
    page = query.page()
    part = read_part(context, fetch_event_part, app, wanted, page)
    values = {
        "app": app,
        "wanted": wanted,
        **query.show(part),
        "address": find_address(context.request),
    }
    return render(context, "events/events.html", values)


def _ask(context: Context, form: Form) -> tuple[str, dict[str, Any]]:
    """Ask which event is to be sent."""
    if not form.has("event"):
        app = context.narrow(form.get("app") or None)
        # Sent twice by an impatient hand, it is one event all the same.
        form = Form((("app", app or ""), ("key", f"page-{uuid4()}")))
    return "events/send.html", {"form": form, "names": [*EventName, "app."]}


@after_question(router, "/events/send", _ask)
def send(context: Operator, form: Form) -> Response:
    """Record an event."""
    app = form.get("app") or context.app or ""
    context.narrow(app)
    asked = form.read(UserEventModel, "event")
    received = context.write_again(
        partial(receive_events, app=app, sent=[asked], is_list=False)
    )
    (sent,) = received.events
    told = {
        "recorded": "The event is recorded.",
        "known": "This event was recorded before; nothing was done twice.",
        "outdated": "The user was seen later than that; nothing was recorded.",
    }[sent.outcome]
    if sent.outcome == "outdated":
        return go_to(f"/events?app={quote(app, safe='')}", told)
    return go_to(f"/events/{quote(app, safe='')}/{sent.id}", told)


@router.get("/events/{app}/{event_id}")
def show_event(context: Viewer, app: str, event_id: UUID) -> Response:
    """Show an event, the actions that wait for it, and what each made of it."""
    found = read_part(context, fetch_detailed_event, app, event_id)
    values = {
        "app": app,
        "event_id": event_id,
        "found": found,
        "refusal": None if isinstance(found, Unread) else find_refusal(found.name),
    }
    return render(context, "events/event.html", values)


def _ask_replay(
    context: Context, form: Form, app: str, event_id: UUID
) -> tuple[str, dict[str, Any]]:
    """Ask before an event is replayed, and name the actions that wait for it."""
    found = context.fetch(fetch_detailed_event, app, event_id)
    return "events/replay.html", {
        "app": app,
        "found": found,
        "key": form.get("key") or f"page-{uuid4()}",
        "refusal": find_refusal(found.name),
    }


@after_question(router, "/events/{app}/{event_id}/replay", _ask_replay)
def replay(context: Operator, form: Form, app: str, event_id: UUID) -> Response:
    """Record that what an event says happened again, now."""
    key = form.get("key") or str(uuid4())
    asked = form.read(ReplayModel, "replay", {"key": key})
    replayed = context.change(replay_event, app, event_id, key=asked.key or key)
    return go_to(
        f"/events/{quote(app, safe='')}/{replayed.id}", "The event is recorded again."
    )
