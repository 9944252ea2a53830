"""A backfill, as people ask for it over HTTP. Pure."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from models.fields.field_types import Instant
from models.fields.strict_model import DocumentModel

#: How many operations of a backfill are live at a time, unless somebody says so.
DEFAULT_AT_ONCE = 1

#: Characters of a note.
_LONGEST_NOTE = 1000


class Which(StrEnum):
    """Which of the occurrences a backfill runs."""

    MISSING = "missing"  # those that never ran: not recorded, missed, skipped, canceled
    FAILED = "failed"
    ALL = "all"  # both; what succeeded or is live never runs again


class BackfillModel(DocumentModel):
    """
    Past occurrences of an action that are to run after all.

    Args:
        since: Inclusive.
        until: Exclusive, not later than now. None: now.
        which: Which of them.
        at_once: How many of its operations may be live at a time.
        expected_count: How many the caller has seen that would run. None: has not
            looked.
        dry_run: Only list.
        note: Why; kept with it.
    """

    since: Instant = Field(alias="from", examples=["2026-11-01T00:00:00Z"])
    until: Instant | None = Field(default=None, examples=["2026-11-08T00:00:00Z"])
    which: Which = Which.MISSING
    at_once: Annotated[int, Field(strict=True)] = DEFAULT_AT_ONCE
    expected_count: Annotated[int, Field(ge=0, strict=True)] | None = None
    dry_run: bool = False
    note: Annotated[str, Field(max_length=_LONGEST_NOTE)] | None = None
