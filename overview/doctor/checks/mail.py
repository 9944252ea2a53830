"""Whether the mail server accepts mails, and apps send them under their own name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from actions.small_apps.senders import find_sender_doubt
from models.database.tables import small_apps
from operations.mail.server_pauses import fetch_pauses
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import MAIL_FORGOTTEN_AFTER

#: The most apps that are named.
_NAMED = 5


def look_at_senders(view: View) -> Iterator[Finding]:
    """Look for small apps whose own sender is not used."""
    kept = small_apps.c
    rows = view.connection.execute(
        sa.select(kept.uid, kept.mail)
        .where(kept.mail.is_not(None), kept.deleted_at.is_(None))
        .order_by(kept.uid)
    )
    doubts = [
        Finding("sender", Health.DOUBTFUL, f"app {uid}: {doubt}")
        for uid, mail in rows
        if (doubt := _find_doubt(view, mail)) is not None
    ]
    yield from doubts[:_NAMED]
    if len(doubts) > _NAMED:
        found = f"{len(doubts) - _NAMED} more apps: see minutehand apps show APP"
        yield Finding("sender", Health.DOUBTFUL, found)


def _find_doubt(view: View, mail: Mapping[str, Any]) -> str | None:
    allowed = view.settings.mail_sender_hosts
    return find_sender_doubt(mail.get("from_address"), allowed)


def look_at_mail(view: View) -> Iterator[Finding]:
    """Report mail servers that are left alone because they serve nobody."""
    for pause in fetch_pauses(view.connection):
        # No trial although one was due: there are no mails, or the server was replaced.
        forgotten = view.now - pause.retry_at > MAIL_FORGOTTEN_AFTER
        health = Health.DOUBTFUL if forgotten else Health.BAD
        title = "the mail server serves nobody"
        yield Finding("mail", health, str(pause), title, pause.since)
