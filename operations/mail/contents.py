"""
What mails said, kept with their marks so that people can read them again.

A content is stored under its digest: a thousand equal mails share a row. It is written
in the transaction that marks a mail as ``sending``, so what is kept is what was handed
over, even of a mail whose fate is unknown.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

from sqlalchemy.dialects.postgresql import Insert, insert

from models.database.engine import db_now
from models.database.tables import mail_contents
from operations.mail.message import Mail

#: Bytes of the text and HTML of a mail that is kept; mails of people are far below.
LARGEST = 256 << 10

#: Stands for the digest of a mail that is larger.
TOO_LARGE = "too large"


@dataclass(frozen=True, slots=True)
class Content:
    """
    What a mail said.

    Args:
        digest: SHA-256 of the rest, in hexadecimal.
        text: The plain text part. None: there was none.
        html: The HTML part. None: there was none.
    """

    digest: str
    subject: str
    text: str | None
    html: str | None

    @property
    def is_small(self) -> bool:
        """Whether it is kept."""
        parts = (self.subject, self.text or "", self.html or "")
        return sum(len(part.encode()) for part in parts) <= LARGEST


def make_content(mail: Mail) -> Content:
    """Return what *mail* says, as far as a database can keep it."""
    subject = _make_storable(mail.subject)
    text = None if mail.text is None else _make_storable(mail.text)
    html = None if mail.html is None else _make_storable(mail.html)
    parts = json.dumps([subject, text, html], ensure_ascii=False)
    return Content(hashlib.sha256(parts.encode()).hexdigest(), subject, text, html)


def _make_storable(text: str) -> str:
    """Replace what PostgreSQL takes in no text: NUL, and halves of characters."""
    whole = text.encode(errors="replace").decode()
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")


def keep_content(content: Content) -> Insert:
    """
    Return the statement that stores *content*.

    If it is stored already, it is said to be in use: maintenance, which may be removing
    it at this moment because no other mail has it, looks at that again.
    """
    return (
        insert(mail_contents)
        .values(
            digest=content.digest,
            subject=content.subject,
            text=content.text,
            html=content.html,
            used_at=db_now(),
        )
        .on_conflict_do_update(index_elements=["digest"], set_={"used_at": db_now()})
    )
