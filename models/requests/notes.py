"""What people say beside a change: why, and until when it lasts. Pure."""

from __future__ import annotations

from models.fields.field_types import Instant, Note
from models.fields.strict_model import DocumentModel, optional


class NoteModel(DocumentModel):
    """
    What somebody says about what they do.

    Args:
        note: Why, for the record of changes.
    """

    note: Note | None = optional("new kernel")


class PauseModel(DocumentModel):
    """
    A pause.

    Args:
        until: When it ends by itself, aware UTC; in JSON with an offset. None: when
            somebody ends it.
    """

    note: Note | None = optional("until the import is fixed")
    until: Instant | None = optional("2035-01-01T00:00:00Z")


#: Until somebody resumes it, for no reason that is said.
UNTIL_RESUMED = PauseModel()
