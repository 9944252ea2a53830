"""
The marks that prevent a mail from being sent twice, one row for each recipient.

``sending`` is committed before a mail leaves, ``sent`` afterwards. If a later attempt
finds ``sending``, a worker died between the two. Nobody knows whether the mail left, so
its mark becomes ``uncertain``, and it is never sent again by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert

from models.database.engine import db_now, writing
from models.database.tables import deliveries
from operations.claiming.claim import guard
from operations.claiming.claimed import Claim
from operations.ports import DeliveryState


@dataclass(frozen=True, slots=True)
class DeliveryMarks:
    """The marks of one step of one operation, under its claim; see ports.Deliveries."""

    engine: sa.Engine
    claim: Claim
    step: str

    def start(self, recipient_id: str) -> DeliveryState:
        """Commit ``sending``, and return what was found: NEW, SENT or UNCERTAIN."""
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            found = connection.execute(
                sa.select(deliveries.c.state).where(*self._is(recipient_id))
            ).scalar_one_or_none()
            if found == DeliveryState.SENT:
                return DeliveryState.SENT
            if found in {DeliveryState.SENDING, DeliveryState.UNCERTAIN}:
                self._mark(connection, recipient_id, DeliveryState.UNCERTAIN)
                return DeliveryState.UNCERTAIN
            self._mark(connection, recipient_id, DeliveryState.SENDING)
            return DeliveryState.NEW

    def sent(self, recipient_id: str) -> None:
        """Mark that the mail server accepted the mail."""
        self._settle(recipient_id, DeliveryState.SENT)

    def failed(self, recipient_id: str, error: str) -> None:
        """Mark that the mail certainly did not leave; a retry may send it."""
        self._settle(recipient_id, DeliveryState.FAILED, error)

    def uncertain(self, recipient_id: str, error: str) -> None:
        """Mark that the mail may or may not have left; it is never sent again."""
        self._settle(recipient_id, DeliveryState.UNCERTAIN, error)

    def _settle(
        self, recipient_id: str, state: DeliveryState, error: str | None = None
    ) -> None:
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            self._mark(connection, recipient_id, state, error)

    def _mark(
        self,
        connection: sa.Connection,
        recipient_id: str,
        state: DeliveryState,
        error: str | None = None,
    ) -> None:
        values = {"state": state, "error": error, "updated_at": db_now()}
        connection.execute(
            insert(deliveries)
            .values(
                operation_id=self.claim.operation_id,
                step=self.step,
                recipient=recipient_id,
                **values,
            )
            .on_conflict_do_update(
                index_elements=["operation_id", "step", "recipient"], set_=values
            )
        )

    def _is(self, recipient_id: str) -> tuple[sa.ColumnElement[bool], ...]:
        return (
            deliveries.c.operation_id == self.claim.operation_id,
            deliveries.c.step == self.step,
            deliveries.c.recipient == recipient_id,
        )
