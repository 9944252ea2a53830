"""The page that tells the keys; the script opens it in place."""

from __future__ import annotations

from starlette.responses import Response

from serving.context import Viewer
from web.guarding import make_router
from web.rendering import SECTIONS, render

router = make_router()

_KEYS = (
    *((each.keys, f"go to {each.name}") for each in SECTIONS),
    ("/", "search"),
    ("j", "next row"),
    ("k", "row before"),
    ("x", "choose the row"),
    ("Enter", "open what has the focus"),
    ("r", "run, or retry"),
    ("p", "pause, or resume"),
    ("e", "edit"),
    ("Esc", "leave a field, or close a question"),
    ("?", "these keys"),
)


@router.get("/keys")
def show_keys(context: Viewer) -> Response:
    """Tell what keys do; each of them is also a link or a button."""
    return render(context, "keys_help/keys.html", {"KEYS": _KEYS})
