"""The record of changes: who changed what, listed and exported."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response, StreamingResponse

from api.answers import ROOT, ListJson, answer_list
from api.guarding import ApiRoute
from api.parameters import OnlyApp, Within, query
from models.json_form import write_json
from overview.changes import ChangeFilter, RecordedChange, export_changes, fetch_changes
from serving.context import Admin
from serving.cursors import Paged
from serving.guarding import heavy

router = APIRouter(prefix=f"{ROOT}/changes", tags=["changes"], route_class=ApiRoute)

#: Lines that are sent at a time.
_LINES = 200


def _read_filter(
    app: OnlyApp,
    period: Within,
    *,
    kind: Annotated[str | None, query("Of what: action, app, user, key, ...")] = None,
    subject: Annotated[str | None, query("Uid or id of the thing.")] = None,
    by: Annotated[str | None, query("Who did it.")] = None,
) -> ChangeFilter:
    return ChangeFilter(app, kind, subject, by, period.since, period.until)


_Filter = Annotated[ChangeFilter, Depends(_read_filter)]


@router.get("", response_model=ListJson[RecordedChange])
def list_changes(context: Admin, page: Paged, wanted: _Filter) -> Response:
    """List who changed what, the latest first."""
    return answer_list(context, context.fetch(fetch_changes, wanted, page))


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A `RecordedChange` on each line, the first change first.",
            "content": {"application/jsonl": {"schema": {"type": "string"}}},
        }
    },
)
@heavy
def export(context: Admin, wanted: _Filter) -> Response:
    """Export changes as JSON lines, each with the hash of the one before it."""
    changes = export_changes(context.services.engine, wanted)
    return StreamingResponse(
        _write_lines(changes),
        media_type="application/jsonl",
        headers={"Content-Disposition": 'attachment; filename="changes.jsonl"'},
    )


def _write_lines(changes: Iterator[RecordedChange]) -> Iterator[str]:
    """Write *changes* a few at a time: each piece is worked on in another thread."""
    while lines := [f"{write_json(each)}\n" for each in islice(changes, _LINES)]:
        yield "".join(lines)
