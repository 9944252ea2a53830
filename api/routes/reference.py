"""The reference of the API, as a page. Answers without a key."""

from __future__ import annotations

from functools import cache

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, Response

from api.reference import read_style, render_reference

router = APIRouter(include_in_schema=False)

#: Nothing but our own style sheet; no script, no form, no frame.
_POLICY = (
    "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)


@router.get("/docs")
def read_reference(request: Request) -> Response:
    """Return a page that shows all routes."""
    app = request.app
    page: str | None = getattr(app.state, "reference", None)
    if page is None:
        page = app.state.reference = render_reference(app.openapi())
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})


@router.get("/docs/reference.css")
def read_reference_style() -> Response:
    """Return the style sheet of that page."""
    return Response(_read_style(), media_type="text/css")


_read_style = cache(read_style)
