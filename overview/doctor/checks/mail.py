"""What mails need."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from operations.adapters.breaker import fetch_pauses
from overview.doctor.finding import Finding, Health, View

#: With mails to send, a trial is made each five minutes at least.
_FORGOTTEN = timedelta(minutes=15)


def look_at_mail(view: View) -> Iterator[Finding]:
    """Name a mail server that does not serve, for which operations wait."""
    for pause in fetch_pauses(view.connection):
        # Nobody has a mail for it, or it is no longer the one that is used.
        forgotten = view.now - pause.retry_at > _FORGOTTEN
        health = Health.DOUBTFUL if forgotten else Health.BAD
        yield Finding("mail", health, str(pause))
