"""The style sheet, the script and the sign of the pages, each with its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

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
