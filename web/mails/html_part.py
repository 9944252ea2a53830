"""
The HTML of a mail, alone: for a frame of the page that shows the mail.

An admin of a small app wrote it, and data of that app are in it; who looks at it may
be the operator of all. So it gets a policy of its own: it is sandboxed, whether or not
the frame says so, and so has no origin, runs nothing, sends no form and moves no page.
It loads nothing either: an address in it would tell who looked, and when.
"""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import HTMLResponse, RedirectResponse, Response

from models.errors import NotFoundError
from operations.mail.list_mails import fetch_mail
from serving.context import Viewer
from web.guarding import PageRoute

router = APIRouter(include_in_schema=False, route_class=PageRoute)

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
