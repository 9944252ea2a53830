"""API keys: make, list, rotate and revoke them."""

from __future__ import annotations

from http import HTTPStatus

from fastapi import APIRouter
from starlette.responses import Response

from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute, secret
from api.parameters import OnlyApp
from models.fields.duration import Duration
from serving.access.key_documents import NewKey, NewKeyModel, RotationModel, ShownKey
from serving.access.manage_keys import create_key, fetch_keys, revoke_key, rotate_key
from serving.context import Admin
from serving.cursors import Paged
from serving.guarding import Body

router = APIRouter(prefix=f"{ROOT}/keys", tags=["keys"], route_class=ApiRoute)


@router.get("", response_model=ListJson[ShownKey])
def list_keys(context: Admin, page: Paged, app: OnlyApp) -> Response:
    """
    List keys, also those that have ended, the latest first.

    The last use is known to the minute.
    """
    return answer_list(context, context.fetch(fetch_keys, app=app, page=page))


@router.post("", status_code=201, response_model=NewKey)
@Body(
    NewKeyModel,
    examples={
        "a program that reads": {
            "role": "viewer",
            "app": "shop",
            "name": "wall of the office",
        },
        "for a month": {
            "role": "operator",
            "app": "shop",
            "name": "Ada",
            "expires": "P30D",
        },
    },
)
@secret
def make_key(context: Admin) -> Response:
    """
    Make a key: its text is in this answer, and never shown again.

    With a key of one small app, the new one is of that app, also if app is null.
    """
    wanted = context.read(NewKeyModel, "key")
    if context.app is None:
        wanted.demand_app()
    new = context.change(
        create_key,
        app=context.narrow(wanted.app),
        role=wanted.role,
        name=wanted.name,
        lifetime=wanted.lifetime,
        maker=context.caller,
    )
    return answer(new, status=HTTPStatus.CREATED)


@router.post("/{key_id}/revoke", response_model=ShownKey)
def end_key(context: Admin, key_id: str) -> Response:
    """
    Revoke a key: it is refused from now on.

    Whoever signed in at the pages with it is signed out. A key that was revoked before
    stays as it is.
    """
    return answer(context.change(revoke_key, key_id, maker=context.caller))


@router.post("/{key_id}/rotate", status_code=201, response_model=NewKey)
@Body(
    RotationModel,
    examples={"within a week": {}, "it was seen by others": {"overlap": "PT0S"}},
    required=False,
)
@secret
def replace_key(context: Admin, key_id: str) -> Response:
    """
    Make a key's successor, with the same small app, role, name and length of life.

    The old one is taken for as long as `overlap` says, but not longer than it was to
    live anyway. The text of the new one is in this answer, and never shown again.
    """
    wanted = context.read(RotationModel, "rotation")
    new = context.change(
        rotate_key, key_id, overlap=Duration.parse(wanted.overlap), maker=context.caller
    )
    return answer(new, status=HTTPStatus.CREATED)
