"""The routes of the API in a list, for people. Answers without a key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from markupsafe import Markup
from starlette.responses import HTMLResponse, Response

router = APIRouter(include_in_schema=False)

#: The page has nothing to load, to run or to send.
_POLICY = (
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_PAGE = Markup(
    '<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
    "<h1>{title}</h1><p>{description}</p><p>Parameters, bodies, answers and examples:"
    ' <a href="/openapi.json">openapi.json</a>, which tools for OpenAPI 3.1 show.</p>'
    "<dl>{routes}</dl></html>"
)
_ROUTE = Markup("<dt><code>{method} {path}</code></dt><dd>{summary} ({role})</dd>")


@router.get("/docs")
def read_reference(request: Request) -> Response:
    """Return a page that names all routes, and who may ask them what."""
    document = request.app.openapi()
    routes = [
        _ROUTE.format(
            method=method.upper(),
            path=path,
            summary=route["summary"],
            role=route.get("x-role", "no key"),
        )
        for path, item in document["paths"].items()
        for method, route in item.items()
    ]
    info = document["info"]
    page = _PAGE.format(
        title=f"{info['title']} HTTP API",
        description=info["description"],
        routes=Markup().join(routes),
    )
    return HTMLResponse(page, headers={"Content-Security-Policy": _POLICY})
