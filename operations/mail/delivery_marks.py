"""
The marks that prevent a mail from being sent twice, one row for each recipient.

``sending`` is committed before a mail leaves, ``sent`` afterwards. If a later attempt
finds ``sending``, a worker died between the two. Nobody knows whether the mail left, so
its mark becomes ``uncertain``, and it is never sent again by itself.

With ``sending``, what the mail says is kept, in the same transaction, so that people
can read what was handed over, even of a mail whose fate is unknown; on PostgreSQL it
takes no round trip of its own. A content is stored under its digest: a thousand equal
mails share a row.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert

from models.database.engine import db_now, writing
from models.database.tables import deliveries, mail_contents
from models.operation_state import DeliveryState
from operations.claiming.claim import guard
from operations.claiming.claimed import Claim
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
        .values(**asdict(content), used_at=db_now())
        .on_conflict_do_update(index_elements=["digest"], set_={"used_at": db_now()})
    )


@dataclass(frozen=True, slots=True)
class DeliveryMarks:
    """
    The marks of one step of one operation, under its claim; see ports.Deliveries.

    Args:
        keeps_content: Whether what mails say is kept.
    """

    engine: sa.Engine
    claim: Claim
    step: str
    keeps_content: bool = True
    #: Digests that this step has stored; equal mails need not be stored again.
    _stored: set[str] = field(default_factory=set)

    def start(self, recipient_id: str, mail: Mail | None = None) -> DeliveryState:
        """Commit ``sending``, and return what was found: NEW, SENT or UNCERTAIN."""
        content = None
        if mail is not None and self.keeps_content:
            content = make_content(mail)
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            found = connection.execute(
                sa.select(deliveries.c.state).where(
                    deliveries.c.operation_id == self.claim.operation_id,
                    deliveries.c.step == self.step,
                    deliveries.c.recipient == recipient_id,
                )
            ).scalar_one_or_none()
            if found == DeliveryState.SENT:
                return DeliveryState.SENT
            if found in {DeliveryState.SENDING, DeliveryState.UNCERTAIN}:
                mark = self._make_mark(recipient_id, DeliveryState.UNCERTAIN)
                connection.execute(mark)
                return DeliveryState.UNCERTAIN
            self._begin(connection, recipient_id, content)
        if content is not None and content.is_small:
            self._stored.add(content.digest)
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
            connection.execute(self._make_mark(recipient_id, state, error=error))

    def _begin(
        self, connection: sa.Connection, recipient_id: str, content: Content | None
    ) -> None:
        kept, store = None, None
        if content is not None:
            kept = content.digest if content.is_small else TOO_LARGE
            if content.is_small and kept not in self._stored:
                store = keep_content(content)
        mark = self._make_mark(recipient_id, DeliveryState.SENDING, content=kept)
        if store is not None and connection.dialect.name == "postgresql":
            mark = mark.add_cte(store.cte("stored"))
        elif store is not None:
            connection.execute(store)
        connection.execute(mark)

    def _make_mark(
        self, recipient_id: str, state: DeliveryState, **more: Any
    ) -> Insert:
        values = {"state": state, "error": None, "updated_at": db_now(), **more}
        key = {
            "operation_id": self.claim.operation_id,
            "step": self.step,
            "recipient": recipient_id,
        }
        return (
            insert(deliveries)
            .values(**key, app=self.claim.app, **values)
            .on_conflict_do_update(index_elements=[*key], set_=values)
        )
