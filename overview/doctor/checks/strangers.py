"""Whether workers met messages in our queues that are not ours."""

from __future__ import annotations

from collections.abc import Iterator

from operations.fleet.strangers import fetch_strangers
from overview.doctor.finding import Finding, Health, View


def look_at_strangers(view: View) -> Iterator[Finding]:
    """Report who else uses our queues, and what to do."""
    for each in fetch_strangers(view.connection):
        title = "strangers use our queues"
        yield Finding(f"queue {each.queue}", Health.BAD, each.hint, title)
