"""When a stored action runs next, in three zones, and what clock changes do to it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa

from actions.lookup import get_action
from actions.previews.preview import Preview, make_preview
from actions.read_actions import get_action_state
from actions.read_rules import find_problem
from models.database.engine import read_clock
from models.errors import InvalidDocumentError, Problem
from models.fields.instants import format_instant
from models.revision import ActionState
from models.when import TimingModel
from overview.recipients import read_stored


def preview_stored(
    connection: sa.Connection, uid: str, *, count: int, viewer_zone: ZoneInfo
) -> Preview:
    """
    Return the next occurrences of a stored action, as the tick will find them.

    None before it takes effect, while it is paused, or if it does not run at all; the
    notes say so.

    Args:
        uid: Of an action, deleted or not.
        count: The most occurrences.
        viewer_zone: In which times are shown to the caller, beside that of the rule.

    Raises:
        NotFoundError: There has never been such an action.
        InvalidDocumentError: Its document or its rule can no longer be read.
    """
    row = get_action(connection, uid)
    action = read_stored(uid, row.document).model_copy(update={"uid": uid})
    problem = find_problem(row)
    if problem is not None:
        hint = "Mend the document; the action runs again from then on."
        raise InvalidDocumentError((Problem("/when", problem, hint),))
    timing = None
    if row.timing is not None:
        timing = TimingModel.model_validate_json(row.timing)
    start, note = _find_start(row, read_clock(connection))
    shown = make_preview(
        action,
        timing,
        start=max(start or row.effective_from, row.effective_from),
        # Of one that does not run, one is looked for, so that it is not told that its
        # rule is never due.
        count=1 if start is None else count,
        viewer_zone=viewer_zone,
    )
    return replace(
        shown,
        occurrences=() if start is None else shown.occurrences,
        notes=shown.notes if note is None else (note, *shown.notes),
    )


def _find_start(row: sa.Row[Any], now: datetime) -> tuple[datetime | None, str | None]:
    """Return from when on the action runs, and why not now; None: it does not run."""
    following = now + timedelta.resolution
    match get_action_state(row):
        case ActionState.DELETED:
            return None, f"Deleted at {format_instant(row.deleted_at)}."
        case ActionState.QUARANTINED:
            return None, f"In quarantine: {row.quarantine_reason}."
        case ActionState.PAUSED if row.paused_until is None:
            return None, "Paused until somebody resumes it."
        case ActionState.PAUSED:
            until = max(following, row.paused_until)
            return until, f"Paused until {format_instant(row.paused_until)}."
        case ActionState.INACTIVE:
            return None, None  # make_preview says so
        case ActionState.ACTIVE:
            return following, None
