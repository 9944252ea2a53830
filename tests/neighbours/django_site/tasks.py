"""Its tasks."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from celery import shared_task
from django.utils import timezone  # type: ignore[import-untyped]  # no types

from tests.neighbours.project import note

#: Of the operations that send a task, every so many has one that fails.
FAILS_EVERY = 3


def is_to_fail(operation_id: str) -> bool:
    """Return whether the task of an operation fails, whenever it is tried."""
    return UUID(operation_id).int % FAILS_EVERY == 0


@shared_task(name="site.count")
def count(number: int) -> None:
    """Leave *number* in a file: a task that the site sends itself."""
    note("site", number)


@shared_task(name="site.report", bind=True, max_retries=1)
def report(self: Any, operation_id: str, due: str) -> dict[str, str]:
    """Report, or fail for the last time after a retry: a task that Minutehand sends."""
    headers = self.request.headers or {}
    assert operation_id == headers["minutehand-operation-id"]
    if is_to_fail(operation_id):
        raise self.retry(exc=ValueError("no paper"), countdown=0)
    note("report", int(UUID(operation_id)))
    return {"due": due, "at": timezone.now().isoformat()}
