"""Starters: actions to begin with."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path
from starlette.responses import Response
from typing_extensions import TypedDict

from api.answers import ROOT, answer
from api.guarding import ApiRoute
from models.database.engine import read_clock
from overview.starters.starters import StarterJson, get_starter, list_starters
from serving.context import Viewer

router = APIRouter(prefix=f"{ROOT}/starters", tags=["previews"], route_class=ApiRoute)


class StarterListJson(TypedDict):
    """Actions to begin with, the common ones first."""

    items: list[StarterJson]


@router.get("", response_model=StarterListJson)
def read_starters(context: Viewer) -> Response:
    """List actions to begin with: one of each kind, to be changed and posted."""
    with context.reading() as connection:
        today = read_clock(connection).date()
    return answer({"items": [each.as_json() for each in list_starters(today)]})


@router.get("/{kind}", response_model=StarterJson)
def read_starter(
    context: Viewer,
    kind: Annotated[
        str, Path(description="As the list has it.", examples=["weekdays"])
    ],
) -> Response:
    """Return one of them."""
    with context.reading() as connection:
        today = read_clock(connection).date()
    return answer(get_starter(kind, today).as_json())
