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
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import Insert, insert

from models.database.engine import db_now, writing
from models.database.plain_json import make_plain_text
from models.database.tables import deliveries, mail_contents
from models.operation_state import MailState
from operations.claiming.claim import guard
from operations.claiming.claimed import Claim
from operations.mail.message import Mail

#: Bytes of the text and HTML of a mail that is kept; mails of people are far below.
LARGEST = 256 << 10

#: Stands for the digest of a mail that is larger.
TOO_LARGE = "too large"


def make_content(mail: Mail) -> dict[str, str | None]:
    """
    Return what *mail* says, as far as a database can keep it, by columns.

    Its digest is TOO_LARGE if it is not kept; else SHA-256 of the rest, in hexadecimal.
    """
    parts = {
        name: text if text is None else make_plain_text(text)
        for name in ("subject", "text", "html")
        for text in (getattr(mail, name),)
    }
    if sum(len(text.encode()) for text in parts.values() if text) > LARGEST:
        return {"digest": TOO_LARGE}
    told = json.dumps([*parts.values()], ensure_ascii=False)
    return {"digest": hashlib.sha256(told.encode()).hexdigest(), **parts}


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
    #: Digests that this step has stored, or need not store.
    _stored: set[str | None] = field(default_factory=lambda: {None, TOO_LARGE})

    def start(self, recipient_id: str, mail: Mail | None = None) -> MailState | None:
        """Commit ``sending``, and return what was found: SENT, UNCERTAIN or None."""
        content = make_content(mail) if mail and self.keeps_content else {}
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            found = connection.execute(
                sa.select(deliveries.c.state).where(
                    deliveries.c.operation_id == self.claim.operation_id,
                    deliveries.c.step == self.step,
                    deliveries.c.recipient == recipient_id,
                )
            ).scalar_one_or_none()
            if found == MailState.SENT:
                return MailState.SENT
            if found in {MailState.SENDING, MailState.UNCERTAIN}:
                mark = self._make_mark(recipient_id, MailState.UNCERTAIN)
                connection.execute(mark)
                return MailState.UNCERTAIN
            self._begin(connection, recipient_id, content)
        self._stored.add(content.get("digest"))
        return None

    def end(
        self, recipient_id: str, state: MailState, error: str | None = None
    ) -> None:
        """Mark what became of the mail: SENT, FAILED or UNCERTAIN."""
        with writing(self.engine) as connection:
            guard(connection, self.claim)
            connection.execute(self._make_mark(recipient_id, state, error=error))

    def _begin(
        self,
        connection: sa.Connection,
        recipient_id: str,
        content: dict[str, str | None],
    ) -> None:
        kept = content.get("digest")
        mark = self._make_mark(recipient_id, MailState.SENDING, content=kept)
        if kept not in self._stored:
            # One that is there is said to be in use: maintenance, which may be removing
            # it at this moment because no other mail has it, looks at that again.
            used = {"used_at": db_now()}
            store = insert(mail_contents).values(**content, **used)
            store = store.on_conflict_do_update(index_elements=["digest"], set_=used)
            if connection.dialect.name == "postgresql":
                mark = mark.add_cte(store.cte("stored"))
            else:
                connection.execute(store)
        connection.execute(mark)

    def _make_mark(self, recipient_id: str, state: MailState, **more: Any) -> Insert:
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
