"""Users and groups of a small app."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

from fastapi import APIRouter, Depends
from starlette.responses import Response

from actions.small_apps.apply import Applied, ApplyTerms
from actions.small_apps.change_users import delete_user, patch_user, replace_user
from actions.small_apps.differences import AppDifference
from actions.small_apps.export import (
    KnownGroup,
    KnownUser,
    UserFilter,
    fetch_group_part,
    fetch_known_user,
    fetch_user_part,
)
from api.answers import ROOT, ListJson, answer, answer_list, answer_nothing
from api.guarding import ApiRoute
from api.parameters import (
    PATCH_TYPES,
    DryRun,
    MergePatchModel,
    RaiseEvents,
    apply_or_foresee,
    query,
)
from models.door.app_documents import read_directory, read_patch, read_user
from models.door.documents import LARGEST_BULK
from models.requests.apps import UserBodyModel
from models.small_app import DirectoryModel
from serving.context import Editor, Viewer
from serving.cursors import Paged
from serving.guarding import Body, heavy
from serving.refusals import read_revision

router = APIRouter(prefix=f"{ROOT}/apps/{{app}}", tags=["users"], route_class=ApiRoute)

_ADA = {"email": "ada@example.com", "name": "Ada", "groups": ["manager"]}


def _select(
    *,
    group: Annotated[str | None, query("Only its members.")] = None,
    text: Annotated[
        str | None,
        query("Part of the id, the mail address or the name.", max_length=200),
    ] = None,
    inactive: Annotated[
        bool | None, query("Whether the account is disabled or expired.")
    ] = None,
    inactivated: Annotated[
        bool | None, query("Whether the user never activated the account.")
    ] = None,
) -> UserFilter:
    return UserFilter(group, text, inactive, inactivated)


@router.get("/users", response_model=ListJson[KnownUser])
def list_users(
    context: Viewer,
    app: str,
    page: Paged,
    wanted: Annotated[UserFilter, Depends(_select)],
) -> Response:
    """List the users of a small app, by id."""
    return answer_list(context, context.fetch(fetch_user_part, app, wanted, page))


@router.put("/users", response_model=Applied | AppDifference)
@Body(
    DirectoryModel,
    examples={"one user": {"users": [{"id": "ada", **_ADA}]}},
    largest=LARGEST_BULK,
)
@heavy
def put_directory(
    context: Editor, app: str, *, dry_run: DryRun = False, events: RaiseEvents = False
) -> Response:
    """
    Make the users of a small app those of a directory; the others are removed.

    Fields that the directory leaves out stay as they are. The ETag is that of the app.
    """
    expected = read_revision(context.expected)
    model = read_directory(context.body, app=app)
    terms = ApplyTerms(None, events, context.caller.name, expected, may_create=False)
    found = apply_or_foresee(context, model, terms, dry_run=dry_run)
    return answer(found, etag=found.revision)


@router.get("/users/{user:path}", response_model=KnownUser)
def read_one_user(context: Viewer, app: str, user: str) -> Response:
    """Return a user with their groups."""
    found = context.fetch(fetch_known_user, app, user)
    return answer(found, etag=found.tag)


@router.put(
    "/users/{user:path}",
    response_model=KnownUser,
    responses={201: {"description": "They are new.", "model": KnownUser}},
)
@Body(UserBodyModel, examples={"ada": _ADA})
def put_user(
    context: Editor, app: str, user: str, *, events: RaiseEvents = False
) -> Response:
    """
    Make a user what the body says, or create them.

    Fields that it leaves out are cleared, but for `created_at`, `activated_at` and
    `last_seen_at`, which events write. `If-Match: ""` means that there is none yet.
    """
    model = read_user(context.body, user_id=user)
    stored = context.change(
        replace_user, app, model, expected_tag=context.expected, raise_events=events
    )
    return answer(
        stored.user,
        status=HTTPStatus.CREATED if stored.created else HTTPStatus.OK,
        etag=stored.user.tag,
        location=f"/apps/{app}/users/{quote(user)}" if stored.created else None,
    )


@router.patch("/users/{user:path}", response_model=KnownUser)
@Body(MergePatchModel, examples={"disable": {"disabled": True}}, types=PATCH_TYPES)
def patch_one_user(
    context: Editor, app: str, user: str, *, events: RaiseEvents = False
) -> Response:
    """Change what the patch has; null clears a field, a list replaces a list."""
    patch = read_patch(context.body)
    stored = context.change(
        patch_user, app, user, patch, expected_tag=context.expected, raise_events=events
    )
    return answer(stored.user, etag=stored.user.tag)


@router.delete("/users/{user:path}", status_code=204)
def delete_one_user(context: Editor, app: str, user: str) -> Response:
    """Remove a user, and their memberships; what happened stays known."""
    context.change(delete_user, app, user, expected_tag=context.expected)
    return answer_nothing()


@router.get("/groups", response_model=ListJson[KnownGroup])
def list_groups(context: Viewer, app: str, page: Paged) -> Response:
    """List the groups of a small app with the number of their members, by name."""
    return answer_list(context, context.fetch(fetch_group_part, app, page))
