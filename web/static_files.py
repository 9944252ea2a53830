"""The style sheet, the script and the sign of the pages, each with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

_FOLDER = Path(__file__).parent / "static"

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """
    A file that browsers keep.

    Args:
        address: With the digest of its content, so that another content has another.
    """

    address: str
    content: bytes
    media_type: str


def _read(path: Path) -> StaticFile:
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()[:16]
    return StaticFile(f"/static/{path.name}?v={digest}", content, _TYPES[path.suffix])


#: By name.
STATIC: Mapping[str, StaticFile] = {
    path.name: _read(path)
    for path in sorted(_FOLDER.iterdir())
    if path.suffix in _TYPES
}


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
