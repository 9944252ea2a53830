"""
What was just done, told once on the next page.

It travels in a cookie, since the page that did it only leads to the next one.
"""

from __future__ import annotations

import base64
import binascii
import json
from dataclasses import asdict, dataclass

from fastapi import Request
from starlette.responses import RedirectResponse, Response

from web.forms import is_own_path

_COOKIE = "minutehand-told"

_LONGEST = 2000


@dataclass(frozen=True, slots=True)
class Told:
    """
    What was done.

    Args:
        text: A sentence.
        undo: Path of ours to which a form is sent that undoes it. Empty: nothing does.
    """

    text: str
    undo: str = ""


def go_to(path: str, text: str = "", *, undo: str = "") -> Response:
    """
    Lead to a page of ours after something was done there or elsewhere.

    Args:
        path: With its query.
        text: What was done, a sentence; the page shows it once.
        undo: Path of ours to which a form is sent that undoes it.
    """
    response = RedirectResponse(path, status_code=303)
    if text:
        told = json.dumps(asdict(Told(text[: _LONGEST // 4], undo)))
        value = base64.urlsafe_b64encode(told.encode()).decode()
        response.set_cookie(_COOKIE, value, max_age=60, httponly=True, samesite="lax")
    return response


def take_told(request: Request) -> Told | None:
    """Return what was done before this page. None: nothing."""
    value = request.cookies.get(_COOKIE, "")[:_LONGEST]
    if not value:
        return None
    try:
        found = json.loads(base64.urlsafe_b64decode(value))
        told = Told(str(found["text"]), str(found["undo"]))
    except (ValueError, TypeError, KeyError, binascii.Error, RecursionError):
        return None
    return told if is_own_path(told.undo) else Told(told.text)


def forget_told(response: Response) -> None:
    """Let the page after this one not tell it again."""
    response.delete_cookie(_COOKIE, httponly=True, samesite="lax")
