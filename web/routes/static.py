"""The style sheet, the script and the sign of the pages. Answer without a key."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from web.static_files import STATIC

router = APIRouter(include_in_schema=False)


@router.get("/static/{name}")
async def read_static(request: Request, name: str) -> Response:
    """Return a file; its address has its digest, so it may be kept for good."""
    found = STATIC.get(name)
    if found is None:
        raise HTTPException(404)
    is_exact = found.address.endswith(f"?{request.url.query}")
    kept = "public, max-age=31536000, immutable" if is_exact else "no-cache"
    return Response(
        found.content, media_type=found.media_type, headers={"Cache-Control": kept}
    )
