"""To make, rotate and revoke keys; the text of a new one is shown once."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from models.errors import (
    ConflictError,
    InvalidDocumentError,
    NotFoundError,
    Problem,
)
from models.fields.duration import Duration
from serving.access.key_documents import (
    DEFAULT_LIFETIME,
    DEFAULT_OVERLAP,
    ENDLESS,
    NewKey,
    NewKeyModel,
    RotationModel,
)
from serving.access.manage_keys import create_key, fetch_key, revoke_key, rotate_key
from serving.context import Admin, Context
from web.app_choice import list_apps
from web.forms import Form, Refused, go_to, make_refused, read_form
from web.guarding import PageRoute, takes_form
from web.rendering import render

router = APIRouter(
    prefix="/settings/keys", include_in_schema=False, route_class=PageRoute
)

#: Chooses all small apps; no uid begins so.
_ALL_APPS = "*"

_WRONG = (InvalidDocumentError, ConflictError, NotFoundError)


@router.get("/new")
def ask_new(context: Admin) -> Response:
    """Ask what the new key is for."""
    return _ask(context, "settings/key_new.html")


@router.post("/new")
@takes_form
def make(context: Admin) -> Response:
    """Make a key, and show its text this once."""
    form = read_form(context.body)
    try:
        wanted = _read_new(context, form)
        with context.writing() as connection:
            new = create_key(
                connection,
                app=context.narrow(wanted.app),
                role=wanted.role,
                name=wanted.name,
                lifetime=wanted.lifetime,
                maker=context.caller,
            )
    except _WRONG as error:
        return _ask(context, "settings/key_new.html", form, make_refused(error))
    return _show_once(context, new)


def _read_new(context: Context, form: Form) -> NewKeyModel:
    """
    Return what the new key is for; nobody gets one of all small apps by saying nothing.

    Raises:
        InvalidDocumentError: Something is wrong with it.
    """
    names = (name for name in NewKeyModel.model_fields if form.get(name))
    values: dict[str, str | None] = {name: form.get(name) for name in names}
    if context.app is None:
        if "app" not in values:
            hint = "Choose one, or all of them."
            raise InvalidDocumentError((Problem("/app", "No app is chosen.", hint),))
        if values["app"] == _ALL_APPS:
            values["app"] = None
    return form.read(NewKeyModel, "key", values)


@router.get("/{key_id}/rotate")
def ask_rotate(context: Admin, key_id: str) -> Response:
    """Ask how long a key goes on beside its successor."""
    return _ask(context, "settings/key_rotate.html", key_id=key_id)


@router.post("/{key_id}/rotate")
@takes_form
def rotate(context: Admin, key_id: str) -> Response:
    """Make a key's successor, and show its text this once."""
    form = read_form(context.body)
    try:
        wanted = form.read(RotationModel, "rotation")
        with context.writing() as connection:
            new = rotate_key(
                connection,
                key_id,
                overlap=Duration.parse(wanted.overlap),
                maker=context.caller,
            )
    except (InvalidDocumentError, ConflictError) as error:
        refused = make_refused(error)
        return _ask(context, "settings/key_rotate.html", form, refused, key_id)
    return _show_once(context, new)


@router.get("/{key_id}/revoke")
def ask_revoke(context: Admin, key_id: str) -> Response:
    """Ask whether a key is to be refused from now on."""
    return _ask(context, "settings/key_revoke.html", key_id=key_id)


@router.post("/{key_id}/revoke")
@takes_form
def revoke(context: Admin, key_id: str) -> Response:
    """Revoke a key."""
    with context.writing() as connection:
        shown = revoke_key(connection, key_id, maker=context.caller)
    name = f" ({shown.name})" if shown.name else ""
    return go_to("/settings", f"Revoked {shown.prefix}…{name}.")


def _ask(
    context: Context,
    template: str,
    form: Form | None = None,
    refused: Refused | None = None,
    key_id: str | None = None,
) -> Response:
    shown = None
    if key_id is not None:
        with context.reading() as connection:
            shown = fetch_key(connection, key_id, app=context.app)
    return render(
        context,
        template,
        {
            "key": shown,
            "form": form,
            "refused": refused,
            "overlap": str(DEFAULT_OVERLAP),
            "lifetime": str(DEFAULT_LIFETIME),
            "endless": ENDLESS,
            "all_apps": _ALL_APPS,
            "apps": list_apps(context) if key_id is None else None,
        },
        refused=refused,
    )


def _show_once(context: Context, new: NewKey) -> Response:
    response = render(context, "settings/key_made.html", {"new": new})
    # Going back must not show it again.
    response.headers["Cache-Control"] = "no-store"
    return response
