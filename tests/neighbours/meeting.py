"""Operations of ours beside what others have on the broker, and what became of them."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

from celery_app.app import make_app
from models.operation_state import Trigger
from tests.chaos.installation import Installation
from tests.scheduling import get_now, make_operation, record_all


def record_many(installation: Installation, count: int) -> list[UUID]:
    """Record so many runs of one quick action; return their ids."""
    return record_runs(installation, installation.add("sleep", 0), count)


def record_runs(installation: Installation, uid: str, count: int) -> list[UUID]:
    """Record so many runs of the quick action *uid*; return their ids."""
    now = get_now(installation.engine).replace(microsecond=0)
    of: dict[str, Any] = {"trigger": Trigger.MANUAL, "occurrence": now}
    new = [make_operation(id=uuid4(), action_uid=uid, **of) for _ in range(count)]
    return record_all(installation.engine, *new)


def ping(installation: Installation) -> list[str]:
    app = make_app(installation.settings)
    return [name for reply in app.control.ping(timeout=2) for name in reply]
