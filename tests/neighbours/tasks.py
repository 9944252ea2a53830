"""Tasks that a site's application finds by itself."""

from __future__ import annotations

from celery import shared_task

from tests.neighbours.project import note


@shared_task(name="site.count")
def count(number: int) -> None:
    """Leave *number* in a file, so that one can see that it ran."""
    note("site", number)
