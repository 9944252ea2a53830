"""A Celery task whose id the caller decides, as in the original (docs/origin.md)."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from celery import Task
from celery.result import AsyncResult


class EnforcedIdTask(Task):  # type: ignore[misc]  # Celery has no type hints
    """
    Takes ``enforce_task_id`` in ``delay`` and ``apply_async``.

    Celery does not drop a second message with the same id; the claim does.
    """

    def delay(
        self, *args: Any, enforce_task_id: UUID | str | None = None, **kwargs: Any
    ) -> AsyncResult[Any]:
        """Send the task with *args* and *kwargs*, under the id given."""
        return self.apply_async(args, kwargs, enforce_task_id=enforce_task_id)

    def apply_async(
        self, *args: Any, enforce_task_id: UUID | str | None = None, **options: Any
    ) -> AsyncResult[Any]:
        """Send the task as Celery does; *enforce_task_id* beats ``task_id``."""
        if enforce_task_id is not None:
            options["task_id"] = str(enforce_task_id)
        result: AsyncResult[Any] = super().apply_async(*args, **options)
        return result
