"""Notices as operations: those of failures, and a test that tells of nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP, fetch_app
from actions.own_actions import NOTICES_UID, ensure_notices
from models.database.engine import read_clock
from models.decision import NewOperation
from models.errors import ConflictError
from models.operation_state import Overlap, Queue, Trigger
from models.small_app import NoticesModel
from operations.notices.grouping import DETAILS_KEY, Notice, NoticeKind, Scope
from operations.notices.wording import make_headline
from operations.record import record

_LONGEST_TITLE = 120


def send_test_notice(
    connection: sa.Connection, app: str | None, scope: Scope | None = None
) -> UUID:
    """
    Record a notice that tells of nothing, to see whether such a one arrives.

    Args:
        app: Uid of a small app, whose people it is for. None: the operator.
        scope: Who the operator is. None: nobody, or not wanted.

    Returns:
        The id of the operation that sends it.

    Raises:
        NotFoundError: No such small app.
        ConflictError: Nobody hears of failures, or notices are paused.
    """
    if app is not None:
        row = fetch_app(connection, app)
        asked = NoticesModel.model_validate(row.notices or {})
        scope = Scope(app, row.timezone or "UTC", asked.mail, asked.webhook)
    if scope is None or not (scope.mail or scope.webhook):
        where = "MINUTEHAND_NOTICE_MAIL or MINUTEHAND_NOTICE_WEBHOOK"
        if app is not None:
            where = f"the notices of small app {app!r}"
        raise ConflictError(f"nobody hears of failures. Name somebody in {where}.")
    revision = ensure_notices(connection)
    if revision is None:
        msg = (
            f"notices are paused; resume them (minutehand actions resume {NOTICES_UID})"
        )
        raise ConflictError(msg)
    now = read_clock(connection)
    notice = Notice(
        uuid4(),
        scope.app,
        NoticeKind.TEST,
        cause_key="",
        cause="",
        opened_at=now,
        last_at=now,
    )
    facts = notice.tell(scope, NoticeKind.TEST, now=now)
    new = make_notice_operation(notice.id, facts, revision, now)
    record(connection, [new])
    return new.id


def make_notice_operation(
    id_: UUID, facts: dict[str, Any], revision: int, now: datetime
) -> NewOperation:
    """Return the operation that sends *facts*, of a *revision* of its action."""
    return NewOperation(
        id=id_,
        action_uid=NOTICES_UID,
        action_revision=revision,
        app=SYSTEM_APP,
        trigger=Trigger.NOTICE,
        triggered_by=_make_title(facts),
        occurrence=now,
        queue=Queue.DEFAULT,
        overlap=Overlap.ALLOW,
        details={DETAILS_KEY: facts},
    )


def _make_title(facts: dict[str, Any]) -> str:
    """Return the title of a notice in lists of operations."""
    title = f"Notice to {facts['app'] or 'the operator'}: {make_headline(facts)}"
    return title if len(title) <= _LONGEST_TITLE else f"{title[: _LONGEST_TITLE - 1]}…"
