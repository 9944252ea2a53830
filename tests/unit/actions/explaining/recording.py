"""What is recorded about an action, as far as a test does not say otherwise."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from actions.explaining.recorded import RecordedOperation, Revision
from actions.explaining.why import History
from tests.scheduling import MINUTE, TASK

NOW = datetime(2026, 11, 18, 12, tzinfo=UTC)


def make_operation(at: datetime, number: int = 1, **changes: Any) -> RecordedOperation:
    """Return the operation of *at*, which succeeded in a minute, with *changes*."""
    ran = RecordedOperation(
        id=UUID(int=number),
        action_uid="action",
        trigger="schedule",
        occurrence=at,
        user_id=None,
        state="succeeded",
        reason=None,
        queue="quick",
        recorded_at=at,
        send_at=at,
        sent_at=at,
        started_at=at,
        finished_at=at + MINUTE,
        details=None,
    )
    return replace(ran, **changes)


def make_range(first: datetime, last: datetime, **changes: Any) -> RecordedOperation:
    """Return the row of what was missed from *first* to *last*, with *changes*."""
    details = {"first": first.isoformat(), "last": last.isoformat(), "count": 3}
    known = {"state": "missed", "details": details, **changes}
    return make_operation(first, **known)


def make_revision(begin: datetime, timing: str | None, **changes: Any) -> Revision:
    """Return the first revision of an action, posted at *begin*, with *changes*."""
    first = Revision(1, "posted", begin, timing, active=True, effective_from=begin)
    return replace(first, **changes)


def edit(
    first: Revision, at: datetime, change: str = "replaced", **changes: Any
) -> Revision:
    """Return the second revision, which was made *at* an instant, with *changes*."""
    known = {"number": 2, "change": change, "recorded_at": at, **changes}
    return replace(first, **known)


#: Of an action that waits for a day after a user was seen.
REMINDER: dict[str, Any] = {
    "name": "reminder",
    "operations": TASK,
    "when": {"after": "app.seen", "delay": "P1D"},
}


def make_reminder(begin: datetime, number: int = 1, **changes: Any) -> Revision:
    """Return a revision of such an action; *changes* may be of its document, too."""
    names = {"when", "starts_at", "ends_at", "recipients"} & changes.keys()
    document = REMINDER | {name: changes.pop(name) for name in names}
    return make_revision(
        begin, None, **{"number": number, "document": document, **changes}
    )


def make_history(
    *operations: RecordedOperation, revisions: tuple[Revision, ...], **changes: Any
) -> History:
    """Return what is known of an action, now being NOW, with *changes*."""
    known = History(
        uid="action",
        name="action",
        quarantine_reason="RuleError: no such zone",
        revisions=revisions,
        operations=operations,
        last_tick_at=NOW,
        now=NOW,
    )
    return replace(known, **changes)
