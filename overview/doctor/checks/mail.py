"""Whether the mail server accepts mails."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from operations.adapters.breaker import fetch_pauses
from overview.doctor.finding import Finding, Health, View

#: While there are mails to send, one is tried at least every five minutes.
_FORGOTTEN = timedelta(minutes=15)


def look_at_mail(view: View) -> Iterator[Finding]:
    """Report mail servers that are left alone because they serve nobody."""
    for pause in fetch_pauses(view.connection):
        # No trial although one was due: there are no mails, or the server was replaced.
        forgotten = view.now - pause.retry_at > _FORGOTTEN
        health = Health.DOUBTFUL if forgotten else Health.BAD
        yield Finding("mail", health, str(pause))
