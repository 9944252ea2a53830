"""
What became of the attempts of an operation that did not succeed.

The steps of an operation know only the last attempt at each. What the attempts before
it did is kept in the details of the operation, written when one fails: that path is
rare, and what succeeds pays nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field, TypeAdapter

from models.database.tables import operations
from models.fields.instants import format_instant
from operations.claiming.claimed import RETURN_KEY, Claim
from operations.operation_log import shorten
from operations.running.pace import ATTEMPTS_KEY

#: The attempts that are kept, the latest: what waits for a full disk has many.
MOST_KEPT = 20

#: Letters of the error of an attempt; the log and the step have more.
_LONGEST_ERROR = 300


class AttemptOutcome(StrEnum):
    """How an attempt ended that did not succeed."""

    FAILED = "failed"
    POSTPONED = "postponed"  # it waits for the platform, and does not count


@dataclass(frozen=True, slots=True)
class PastAttempt:
    """
    An attempt that did not succeed; instants are aware UTC.

    Args:
        number: From 1; an attempt that was postponed has the number of the next.
        step: In which it ended. None: before the first.
        step_began_at: When it began that step. None: it did not.
    """

    number: Annotated[int, Field(validation_alias="attempt")]
    outcome: AttemptOutcome
    step: str | None
    began_at: datetime
    step_began_at: datetime | None
    ended_at: datetime
    error: str

    def as_details(self) -> dict[str, Any]:
        """Return it as the details of an operation hold it."""
        told = {
            name: format_instant(each) if isinstance(each, datetime) else each
            for name, each in asdict(self).items()
        }
        return {"attempt": told.pop("number"), **told}


def note_attempt(connection: sa.Connection, claim: Claim, ended: PastAttempt) -> None:
    """Keep how an attempt ended; call ``guard`` first in the same transaction."""
    if RETURN_KEY in claim.details:
        return  # it only sends mails again, and leaves the operation as it was
    former = claim.details.get(ATTEMPTS_KEY) or []
    entry = ended.as_details() | {"error": shorten(ended.error, _LONGEST_ERROR)}
    kept = [*former, entry][-MOST_KEPT:]
    connection.execute(
        sa.update(operations)
        .where(operations.c.id == claim.operation_id)
        .values(details={**claim.details, ATTEMPTS_KEY: kept})
    )


def read_attempts(details: Mapping[str, Any] | None) -> Sequence[PastAttempt]:
    """Return the attempts that the details of an operation hold, the oldest first."""
    return _ATTEMPTS.validate_python((details or {}).get(ATTEMPTS_KEY) or ())


_ATTEMPTS = TypeAdapter(tuple[PastAttempt, ...])
