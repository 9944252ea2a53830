"""Mails: to whom, what became of each, what it said, and who was left out."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from http import HTTPStatus
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from models.errors import NotFoundError
from models.operation_state import DeliveryState
from models.paging import Page
from operations.mail.list_mails import (
    MailFilter,
    MailState,
    count_lately,
    fetch_mail,
    fetch_mails,
)
from overview.operations import fetch_shown_operation
from serving.context import Context, Viewer
from web.guarding import PageRoute
from web.mails.fetch_mailed import fetch_mailed_part
from web.query import Query, Unread, read_part
from web.rendering import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

#: Those that wait for a decision first.
_STATES = (
    MailState.FAILED,
    MailState.UNCERTAIN,
    MailState.SENDING,
    MailState.SENT,
)


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
        state=None if state is None else DeliveryState(state.value),
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
    read = partial(read_part, context)
    part = read(lambda c: fetch_mails(c, wanted, page))
    values = {
        "wanted": wanted,
        "states": _STATES,
        "query": query,
        "params": context.request.query_params,
        "part": part,
        "counts": read(lambda c: count_lately(c, of_any)),
        "cursor": query.find_next(part),
    }
    return render(context, "mails/mails.html", values)


@router.get("/mails/{operation_id}")
def show_mailing(context: Viewer, operation_id: UUID) -> Response:
    """Show who the mails of an operation were for, and who was left out."""
    query = Query(context)
    inside = {"in": True, "out": False}.get(query.text("who") or "")
    page = query.page()
    read = partial(read_part, context)
    app = context.app
    operation = read(lambda c: fetch_shown_operation(c, operation_id, app=app))
    of_it = MailFilter(app=app, operation_id=operation_id, state=None)
    mailed = read(
        lambda c: fetch_mailed_part(
            c,
            operation_id,
            page,
            inside=inside,
            step=query.text("step"),
            app=app,
        )
    )
    values = {
        "operation_id": operation_id,
        "operation": operation,
        "mails": read(lambda c: fetch_mails(c, of_it, Page(1))),
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
    with context.reading() as connection:
        found = fetch_mail(connection, operation_id, step, recipient, app=context.app)
    if found.html is None:
        msg = "the mail has no HTML part, or what it said is not kept"
        raise NotFoundError(msg)
    return HTMLResponse(make_harmless(found.html), headers=HEADERS)


@router.get("/mails/{operation_id}/{step}/{recipient:path}")
def show_mail(
    context: Viewer, operation_id: UUID, step: str, recipient: str
) -> Response:
    """Show a mail: what it said, as it was handed over, and what became of it."""
    senders = context.services.senders
    found = read_part(
        context,
        lambda c: fetch_mail(
            c, operation_id, step, recipient, app=context.app, senders=senders
        ),
    )
    values = {
        "operation_id": operation_id,
        "step": step,
        "recipient": recipient,
        "found": found,
    }
    return render(context, "mails/mail.html", values)
