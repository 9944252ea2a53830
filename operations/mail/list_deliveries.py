"""The mails of one operation, one for each step and recipient."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from typing_extensions import TypedDict

from models.database.tables import deliveries
from models.operation_state import DeliveryState
from models.paging import Page, Part
from operations.list_operations import require_operation


class DeliveryJson(TypedDict):
    """The mail of a step to one recipient; the documented object."""

    step: str
    recipient: str
    state: DeliveryState
    error: str | None
    updated_at: datetime
    resolved_by: str | None
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    The mail of a step to one recipient; instants are aware UTC.

    Args:
        recipient: Id of a user; for a notice, an address.
        error: The answer of the server, or what is unknown.
        updated_at: When the mark last changed.
        resolved_by: Who decided about the mail when it was uncertain. None: nobody.
    """

    step: str
    recipient: str
    state: DeliveryState
    error: str | None
    updated_at: datetime
    resolved_by: str | None
    resolved_at: datetime | None

    def as_json(self) -> DeliveryJson:
        """Return the documented object; keys are only added."""
        return {
            "step": self.step,
            "recipient": self.recipient,
            "state": self.state,
            "error": self.error,
            "updated_at": self.updated_at,
            "resolved_by": self.resolved_by,
            "resolved_at": self.resolved_at,
        }


def fetch_deliveries(
    connection: sa.Connection, operation_id: UUID, page: Page, *, app: str | None = None
) -> Part[Delivery]:
    """
    Return a part of the mails of an operation, by step and recipient.

    Args:
        page: Its position is (step, recipient).
        app: Uid of the small app that it must belong to. None: any.

    Raises:
        NotFoundError: There is no such operation.
    """
    require_operation(connection, operation_id, app=app)
    marks = deliveries.c
    query = sa.select(deliveries).where(marks.operation_id == operation_id)
    after = page.read_after(str, str)
    if after is not None:
        step, recipient = after
        following = sa.tuple_(sa.literal(step), sa.literal(recipient))
        query = query.where(sa.tuple_(marks.step, marks.recipient) > following)
    query = query.order_by(marks.step, marks.recipient).limit(page.limit + 1)
    found: list[Any] = list(connection.execute(query))
    entries = [
        Delivery(
            step=row.step,
            recipient=row.recipient,
            state=DeliveryState(row.state),
            error=row.error,
            updated_at=row.updated_at,
            resolved_by=row.resolved_by,
            resolved_at=row.resolved_at,
        )
        for row in found[: page.limit]
    ]
    if len(found) <= page.limit:
        return Part(entries, None)
    return Part(entries, (entries[-1].step, entries[-1].recipient))
