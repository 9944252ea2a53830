"""
Changes from a page: somebody is asked first, and then it is done.

What is refused is asked about again, with what was typed and what is wrong with it.
What is not there any more, cannot be reached or is not allowed is told on a page of its
own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import Response

from models.errors import ForbiddenError, MinutehandError, UnreachableError
from serving.context import Context
from serving.refusals import find_status
from web.forms import Form, make_refused, read_form
from web.guarding import takes_form
from web.rendering import render

#: What a question shows: its template, and the values beside the form. It takes the
#: context, the parameters of the path, and what was typed, as ``form`` if it likes.
Ask = Callable[..., tuple[str, Mapping[str, Any]]]

#: What is done then, of the same; returns where to go. None: it is asked about again.
Do = Callable[..., Response | None]


def after_question(router: APIRouter, path: str, ask: Ask) -> Callable[[Do], Do]:
    """
    Serve a change at *path*: GET asks about it, POST does it.

    The role of whoever is asked is that of the decorated function's context.

    Args:
        router: Of the page.
        path: Its parameters are those of *ask* and of what is decorated.
        ask: Gets what the link says at first, and what was typed if that is refused.
            What it finds wrong itself is told if nothing else is: ``refused``.
    """

    def register(do: Do) -> Do:
        def show(context: Context, **named: Any) -> Response:
            link = Form(tuple(context.request.query_params.multi_items()))
            return _show(ask, context, link, named)

        def change(context: Context, **named: Any) -> Response:
            form = read_form(context.body)
            try:
                done = _call(do, context, form, named)
            except (ForbiddenError, UnreachableError):
                raise  # nothing that is typed would help
            except MinutehandError as error:
                return _show(ask, context, form, named, error)
            return _show(ask, context, form, named) if done is None else done

        change.is_heavy = getattr(do, "is_heavy", False)  # type: ignore[attr-defined]
        for method, route in (("GET", show), ("POST", takes_form(change))):
            route.__signature__ = _find_signature(do)  # type: ignore[attr-defined]
            router.add_api_route(path, route, methods=[method], response_model=None)
        return do

    return register


def _find_signature(do: Do) -> inspect.Signature:
    """Return what FastAPI reads of a request, which knows no form of ours."""
    signature = inspect.signature(do, eval_str=True)
    named = signature.parameters.items()
    return signature.replace(parameters=[each for n, each in named if n != "form"])


def _call(
    function: Callable[..., Any], context: Context, form: Form, named: Mapping[str, Any]
) -> Any:
    if "form" in inspect.signature(function).parameters:
        named = {**named, "form": form}
    return function(context, **named)


def _show(
    ask: Ask,
    context: Context,
    form: Form,
    named: Mapping[str, Any],
    error: MinutehandError | None = None,
) -> Response:
    template, asked = _call(ask, context, form, named)
    values = {"form": form, "refused": None, **asked}
    if error is None:
        return render(context, template, values, refused=values["refused"])
    values["refused"] = make_refused(error)
    return render(context, template, values, status=find_status(error))
