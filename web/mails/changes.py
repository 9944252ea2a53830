"""Send mails again, say that they arrived, and mail a template to be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from actions.lookup import fetch_app
from actions.small_apps.list_apps import fetch_names
from models.errors import MinutehandError, UsageError
from models.operation_state import DeliveryState
from models.paging import Page
from models.units import format_count
from operations.mail.list_mails import (
    MailFilter,
    count_mails,
    count_operations,
    fetch_mails,
)
from operations.mail.resolve_mails import resolve_asked
from operations.mail.trial import TestedMail, TestMailModel
from serving.context import Context, Operator
from serving.guarding import heavy
from web.forms import Form, go_to, make_refused, read_form, read_number
from web.guarding import PageRoute, takes_form
from web.mails.routes import select_mails
from web.query import Query
from web.questions import after_question
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Recipients that are named before something is done.
_NAMED = 12


def _ask(act: str, context: Context) -> tuple[str, dict[str, Any]]:
    """Ask before mails are sent again, or marked as sent."""
    query = Query(context)
    wanted = _select(context, act, query)
    with context.reading() as connection:
        total = sum(count_mails(connection, wanted).values())
        runs = count_operations(connection, wanted)
        named = fetch_mails(connection, wanted, Page(_NAMED)).entries
    return "mails/change.html", {
        "act": act,
        "wanted": wanted,
        "total": total,
        "runs": runs,
        "named": named,
        "query": query,
        "kept": context.request.query_params.multi_items(),
    }


@after_question(router, "/mails/resend", partial(_ask, "resend"))
def resend(context: Operator, form: Form) -> Response:
    """Send failed or uncertain mails again."""
    return _resolve(context, form, "resend")


@after_question(router, "/mails/confirm", partial(_ask, "confirm"))
def confirm(context: Operator, form: Form) -> Response:
    """Mark uncertain mails as sent."""
    return _resolve(context, form, "confirm")


def _select(context: Context, act: str, query: Query) -> MailFilter:
    """Return the mails that are meant: in a state in which something can be done."""
    wanted = select_mails(context, query)
    states = {DeliveryState.FAILED, DeliveryState.UNCERTAIN}
    if act == "confirm" or wanted.state not in states:
        wanted = replace(wanted, state=DeliveryState.UNCERTAIN)
    return wanted


def _resolve(context: Context, form: Form, act: str) -> Response:
    """Do what was asked for the mails of the query, if they are as many as was told."""
    query = Query(context)
    wanted = _select(context, act, query)
    number = read_number(form.get("expected_count"))
    if query.problems:
        raise UsageError(query.problems[0])  # without it, more would be meant
    resolved = resolve_asked(
        context.services.engine,
        wanted,
        number if isinstance(number, int) else None,
        resend=act == "resend",
        by=context.caller.as_author(context.request_id),
    )
    done = "will be sent again" if act == "resend" else "counted as sent"
    told = f"{format_count(resolved.changed, 'mail', 'mails')} {done}."
    for refusal in list(resolved.refused.values())[:1]:
        left = format_count(len(resolved.refused), "run stays", "runs stay")
        told += f" {left} as before: {refusal}."
    rest = [
        pair
        for pair in context.request.query_params.multi_items()
        if pair[0] not in {"state", "cursor"}
    ]
    return go_to(f"/mails?{urlencode(rest)}" if rest else "/mails", told)


@router.get("/mails/test")
def ask_test(context: Operator) -> Response:
    """Ask to whom a template is to be mailed."""
    app = context.narrow(Query(context).text("app"))
    return _show_test(context, app, Form())


@router.post("/mails/test")
@takes_form
@heavy
async def send_test(context: Operator) -> Response:
    """Mail a template to one person, and show what it said."""
    form = await run_in_threadpool(read_form, context.body)
    try:
        app = context.narrow(form.get("app") or None)
        asked = await run_in_threadpool(form.read, TestMailModel, "the test mail")
        name = await run_in_threadpool(_name_app, context, app or "")
        author = context.caller.as_author(context.request_id)
        send = partial(context.services.trials.send, app or "", name, asked, by=author)
        told = await context.services.trying.run(context.tenant, send)
    except MinutehandError as error:
        app = context.app or form.get("app") or None
        return await run_in_threadpool(_show_test, context, app, form, error=error)
    return await run_in_threadpool(_show_test, context, app, form, told=told)


def _name_app(context: Context, app: str) -> str:
    with context.reading() as connection:
        name: str = fetch_app(connection, app).name
    return name


def _show_test(
    context: Context,
    app: str | None,
    form: Form,
    *,
    told: TestedMail | None = None,
    error: MinutehandError | None = None,
) -> Response:
    templates: list[str] = []
    if app is not None:
        with context.reading() as connection:
            templates = fetch_names(connection, app)["templates"]
    values: Mapping[str, Any] = {
        "app": app,
        "choices": [(each, each) for each in templates],
        "form": form,
        "sent": told,
        "refused": None if error is None else make_refused(error),
    }
    return render(context, "mails/test.html", values, refused=error)
