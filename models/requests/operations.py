"""What people may send with a change of one operation. Pure."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from models.fields.field_types import Name
from models.fields.strict_model import DocumentModel

#: Characters of a note.
LONGEST_NOTE = 1000

_Note = Annotated[str | None, Field(max_length=LONGEST_NOTE)]


class CancelModel(DocumentModel):
    """
    How to cancel an operation.

    Args:
        note: Why, for the record of changes.
    """

    note: _Note = None


class RetryModel(DocumentModel):
    """
    How to run an operation again.

    Args:
        from_step: The step with which to begin: it and all after it run again, whether
            or not they succeeded. Left out: the first that has not succeeded.
        note: Why, for the record of changes.
    """

    from_step: Name | None = None
    note: _Note = None
