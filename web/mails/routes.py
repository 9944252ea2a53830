"""Mails: to whom, what became of each, what it said; what is sent again or tried."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode
from uuid import UUID

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, RedirectResponse, Response

from actions.lookup import fetch_app
from actions.small_apps.export import fetch_names
from models.errors import MinutehandError, NotFoundError, UsageError
from models.operation_state import MailState
from models.paging import Page
from models.units import format_count
from operations.mail.list_mails import (
    ListedMail,
    MailFilter,
    count_lately,
    count_mails,
    count_operations,
    fetch_mail,
    fetch_mails,
)
from operations.mail.resolve_mails import resolve_asked
from overview.mail_preview import TestedMail, TestMailModel
from overview.operations import fetch_shown_operation, fetch_zones_of
from serving.context import Context, Operator, Viewer
from serving.guarding import heavy
from web.forms import Form, go_to, make_refused, read_form, read_number
from web.guarding import make_router, takes_form
from web.mails.fetch_mailed import fetch_mailed_part
from web.query import Query, Unread, read_part
from web.questions import after_question
from web.rendering import render

router = make_router()

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


# Before the pages of one operation, whose paths are alike.
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
    states = {MailState.FAILED, MailState.UNCERTAIN}
    if act == "confirm" or wanted.state not in states:
        wanted = replace(wanted, state=MailState.UNCERTAIN)
    return wanted


def _resolve(context: Context, form: Form, act: str) -> Response:
    """Do what was asked for the mails of the query, if they are as many as was told."""
    query = Query(context)
    wanted = _select(context, act, query)
    number = read_number(form.get("expected_count"))
    count = number if isinstance(number, int) else None
    if query.problems:
        raise UsageError(query.problems[0])  # without it, more would be meant
    engine, by, is_resent = context.services.engine, context.author, act == "resend"
    resolved = resolve_asked(engine, wanted, count, resend=is_resent, by=by)
    done = "will be sent again" if is_resent else "counted as sent"
    told = f"{format_count(resolved.changed, 'mail', 'mails')} {done}."
    for refusal in list(resolved.refused.values())[:1]:
        left = format_count(len(resolved.refused), "run stays", "runs stay")
        told += f" {left} as before: {refusal}."
    pairs = context.request.query_params.multi_items()
    rest = [pair for pair in pairs if pair[0] not in {"state", "cursor"}]
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
        await run_in_threadpool(context.fetch, fetch_app, app or "")
        author = context.author
        send = partial(context.services.trials.send, app or "", asked, by=author)
        told = await context.services.trying.run(context.tenant, send)
    except MinutehandError as error:
        app = context.app or form.get("app") or None
        return await run_in_threadpool(_show_test, context, app, form, error=error)
    return await run_in_threadpool(_show_test, context, app, form, told=told)


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


#: Those that wait for a decision first.
_STATES = (MailState.FAILED, MailState.UNCERTAIN, MailState.SENDING, MailState.SENT)


def select_mails(context: Context, query: Query) -> MailFilter:
    """
    Return the mails that a query means.

    Raises:
        NotFoundError: Its small app is none of the caller's.
    """
    state = query.choice("state", MailState)
    recipient = query.text("recipient")
    since, until = query.day("day")
    return MailFilter(
        app=context.narrow(query.text("app")),
        action_uid=query.text("action"),
        operation_id=query.id("operation"),
        recipients=frozenset(() if recipient is None else {recipient}),
        state=state,
        since=since,
        until=until,
    )


@router.get("/mails")
def show_mails(context: Viewer) -> Response:
    """List mails, the latest change first."""
    query = Query(context)
    wanted = select_mails(context, query)
    of_any = replace(wanted, state=None)
    page = query.page()
    part = read_part(context, fetch_mails, wanted, page)
    values = {
        "wanted": wanted,
        "states": _STATES,
        "counts": read_part(context, count_lately, of_any),
        "zones": _read_zones(context, () if isinstance(part, Unread) else part.entries),
        **query.show(part),
    }
    return render(context, "mails/mails.html", values)


def _read_zones(context: Context, mails: Collection[ListedMail]) -> Mapping[UUID, str]:
    """Return the zones of the runs of *mails*, by the id of the operation."""
    if not mails:
        return {}
    ids = {each.operation_id for each in mails}
    zones = read_part(context, fetch_zones_of, ids)
    return {} if isinstance(zones, Unread) else {i: z.key for i, z in zones.items()}


@router.get("/mails/{operation_id}")
def show_mailing(context: Viewer, operation_id: UUID) -> Response:
    """Show who the mails of an operation were for, and who was left out."""
    query = Query(context)
    inside = {"in": True, "out": False}.get(query.text("who") or "")
    page = query.page()
    app = context.app
    operation = read_part(context, fetch_shown_operation, operation_id, app=app)
    of_it = MailFilter(app=app, operation_id=operation_id, state=None)
    step = query.text("step")
    read = partial(fetch_mailed_part, inside=inside, step=step, app=app)
    mailed = read_part(context, read, operation_id, page)
    values = {
        "operation_id": operation_id,
        "operation": operation,
        "mails": read_part(context, fetch_mails, of_it, Page(1)),
        "mailed": mailed,
        "inside": inside,
        "query": query,
        "cursor": None if isinstance(mailed, Unread) else query.find_next(mailed.part),
    }
    return render(context, "mails/mailing.html", values)


#: Styles in the mail itself and pictures that are part of it; nothing else.
HEADERS = {
    "Cache-Control": "private, no-store",
    "Content-Security-Policy": "sandbox; default-src 'none'; style-src 'unsafe-inline';"
    " img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
}

#: What makes a browser look up names, open connections or go elsewhere, which no policy
#: forbids. Nothing else than these letters begins such an element, however the rest of
#: the mail is put together.
_REACHING_OUT = re.compile(
    r"<(?=link|meta|base|iframe|object|embed|portal)", re.IGNORECASE
)


def make_harmless(html: str) -> str:
    """
    Return *html* without elements that reach out; the policy sees to all the rest.

    >>> make_harmless('<p>Hi</p><LINK rel="preconnect" href="//a.example">')
    '<p>Hi</p><x-LINK rel="preconnect" href="//a.example">'
    """
    return _REACHING_OUT.sub("<x-", html)


@router.get("/mails/html/{operation_id}/{step}/{recipient:path}")
def show_html(
    context: Viewer, operation_id: UUID, step: str, recipient: str
) -> Response:
    """Return the HTML of a mail, to the frame of its page alone."""
    headers = context.request.headers
    if headers.get("sec-fetch-dest", "iframe") != "iframe":
        # Whoever sends somebody a link to it would show them a page of their own.
        page = f"/mails/{operation_id}/{quote(step)}/{quote(recipient)}"
        return RedirectResponse(page, HTTPStatus.SEE_OTHER.value)
    found = context.fetch(fetch_mail, operation_id, step, recipient, app=context.app)
    if found.html is None:
        raise NotFoundError("the mail has no HTML part, or what it said is not kept")
    return HTMLResponse(make_harmless(found.html), headers=HEADERS)


@router.get("/mails/{operation_id}/{step}/{recipient:path}")
def show_mail(
    context: Viewer, operation_id: UUID, step: str, recipient: str
) -> Response:
    """Show a mail: what it said, as it was handed over, and what became of it."""
    read = partial(fetch_mail, app=context.app, senders=context.services.senders)
    found = read_part(context, read, operation_id, step, recipient)
    values = {
        "operation_id": operation_id,
        "step": step,
        "recipient": recipient,
        "found": found,
        "zones": _read_zones(context, () if isinstance(found, Unread) else (found,)),
    }
    return render(context, "mails/mail.html", values)
