"""What became of a scheduled action: its revisions, its occurrences, and why."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from starlette.responses import Response
from typing_extensions import TypedDict

from actions.explaining.occurrence_list import (
    ShownOccurrence,
    fetch_occurrence_part,
)
from actions.explaining.why import WhyAnswer
from actions.read_actions import RevisionNote
from actions.read_revisions import (
    ShownRevision,
    fetch_revision_part,
    fetch_shown_revision,
)
from api.answers import ROOT, ListJson, answer, answer_list
from api.guarding import ApiRoute
from models.errors import RuleError
from models.fields.field_types import Instant
from overview.why.instant import explain_asked
from serving.context import Viewer
from serving.cursors import Paged
from serving.parameters import refuse_parameter

router = APIRouter(
    prefix=f"{ROOT}/actions/{{uid}}", tags=["actions"], route_class=ApiRoute
)


_LARGEST = 2**31 - 1
_Revision = Annotated[int, Path(ge=1, le=_LARGEST)]


class AnswerListJson(TypedDict):
    """One answer for each operation of that minute, else exactly one."""

    items: list[WhyAnswer]


@router.get("/revisions", response_model=ListJson[RevisionNote])
def list_revisions(context: Viewer, uid: str, page: Paged) -> Response:
    """List the revisions of an action, newest first: what was changed, and by whom."""
    with context.reading() as connection:
        part = fetch_revision_part(connection, uid, page, app=context.app)
    return answer_list(context, part)


@router.get("/revisions/{revision}", response_model=ShownRevision)
def read_revision_document(context: Viewer, uid: str, revision: _Revision) -> Response:
    """Return one revision of an action with the document that it had then."""
    with context.reading() as connection:
        shown = fetch_shown_revision(connection, uid, revision, app=context.app)
    return answer(shown)


@router.get("/occurrences", response_model=ListJson[ShownOccurrence])
def list_occurrences(
    context: Viewer,
    uid: str,
    page: Paged,
    since: Annotated[
        Instant | None,
        Query(alias="from", description="Inclusive. Left out: seven days ago."),
    ] = None,
    until: Annotated[
        Instant | None, Query(description="Exclusive. Left out: in seven days.")
    ] = None,
) -> Response:
    """
    List the occurrences of an action, past and planned, each with its decision.

    Of an event-driven action: those that were decided, and those to which the events so
    far will lead. At most 400 days.
    """
    with context.reading() as connection:
        part = fetch_occurrence_part(
            connection, uid, page, since=since, until=until, app=context.app
        )
    return answer_list(context, part)


@router.get("/why", response_model=AnswerListJson)
def explain(
    context: Viewer,
    uid: str,
    at: Annotated[
        str | None,
        Query(
            max_length=60,
            description="The minute that is asked about, by the clock of the rule"
            " unless it has an offset; also now, -1h, 07:00 or yesterday 07:00.",
            examples=["2026-11-23T06:00:00Z"],
        ),
    ] = None,
) -> Response:
    """
    Say why an action ran in a minute, or did not: past or future.

    Without a minute, of the last run and the next.
    """
    with context.reading() as connection:
        try:
            answers = explain_asked(connection, uid, at, app=context.app)
        except RuleError as error:
            raise refuse_parameter("at", error) from None
    return answer({"items": answers})
