"""The search: an action, an operation or a small app by a few letters or digits."""

from __future__ import annotations

from urllib.parse import quote

from starlette.responses import RedirectResponse, Response

from serving.context import Viewer
from web.guarding import make_router
from web.query import Unread, read_part
from web.rendering import render
from web.search.fetch_search import Hit, search

router = make_router()


@router.get("/search")
def show_hits(context: Viewer) -> Response:
    """List what fits, or go straight to the only hit."""
    query = context.request.query_params.get("q", "")
    found = read_part(context, search, text=query, app=context.app)
    if not isinstance(found, Unread) and found.only is not None:
        return RedirectResponse(find_address(found.only), status_code=303)
    values = {"query": query[:200], "found": found, "find_address": find_address}
    return render(context, "search/search.html", values)


def find_address(hit: Hit) -> str:
    """Return the path of the page of what was found."""
    return f"/{hit.kind}s/{quote(hit.id, safe='')}"
