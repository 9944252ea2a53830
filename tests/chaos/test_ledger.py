"""What the ledger finds."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

from models.occurrence import str_to_uuid
from tests.chaos.ledger import Happening, Ledger

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)
MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)

MAIL: dict[str, Any] = {"send_email": {}}
TASK: dict[str, Any] = {"run_task": {"wait": True}}


def make_ledger(asked: dict[str, Any], *states: str, **changes: Any) -> Ledger:
    """Return that of one operation that was recorded at noon and went by *states*."""
    moves = [
        SimpleNamespace(
            old=old, new=new, sends=int(new != "pending"), at=NOON + n * SECOND
        )
        for n, (old, new) in enumerate(pairwise([None, *states]))
    ]
    values: dict[str, Any] = {
        "id": uuid4(),
        "action_uid": "a",
        "trigger": "schedule",
        "occurrence": NOON,
        "state": states[-1],
        "reason": None,
        "error": None,
        "queue": "quick",
        "overlap": "allow",
        "recorded_at": NOON,
        "sends": moves[-1].sends,
        **changes.pop("row", {}),
    }
    row: Any = SimpleNamespace(**values)
    moves[-1].sends = row.sends
    known: dict[str, Any] = {"happenings": [], "reopened": Counter(), "ran": Counter()}
    known |= {"begun_at": NOON - MINUTE, **changes}
    return Ledger([row], {row.id: moves}, {"a": asked}, **known)  # type: ignore[dict-item]


def find(ledger: Ledger) -> list[str]:
    """Return what it finds, without the operation's id."""
    id_ = f" {ledger.rows[0].id}"
    return [each.text.replace(id_, "") for each in ledger.judge()]


GOOD = ("pending", "queued", "running", "succeeded")


def test_what_ends_once_is_well() -> None:
    """Recorded, sent, claimed, ended."""
    assert [] == find(make_ledger(MAIL, *GOOD))


def test_what_ends_twice_is_found() -> None:
    """Unless somebody tried it again by hand."""
    twice = (*GOOD[:3], "failed", *GOOD)
    again = "operation ended 2 times, reopened 1 times"

    ledger = make_ledger(MAIL, *twice)

    assert [again] == find(ledger)
    ledger.reopened[ledger.rows[0].id] += 1
    assert [] == find(ledger)


def test_a_way_that_there_is_not_is_found() -> None:
    """Whoever wrote it."""
    found = find(make_ledger(MAIL, "pending", "missed", "succeeded"))

    assert "operation went from missed by missed to succeeded" in found


def test_a_task_that_ran_twice_is_explained_or_wrong() -> None:
    """By what was done to whom it went through, and counted."""
    ledger = make_ledger(TASK, "pending", "succeeded", row={"queue": "tasks"})
    task_id = str(str_to_uuid(f"{ledger.rows[0].id} | run_task"))
    ledger.ran[task_id] += 2

    assert ["the task of ran 2 times"] == find(ledger)
    ledger.happenings = [Happening("kill", "their worker", NOON, NOON)]
    assert [] == find(ledger)
    assert ledger.duplicates["of tasks after kill their worker"] == 1


def test_a_task_that_never_ran_is_found() -> None:
    """Its operation says that it succeeded."""
    ledger = make_ledger(TASK, "pending", "succeeded", row={"queue": "tasks"})

    assert ["operation succeeded, and its task never ran"] == find(ledger)


def test_a_message_that_was_sent_again_is_found() -> None:
    """But for one in line, which another that is tried again goes before."""
    again = {"sends": 2}

    assert ["operation was sent 2 times"] == find(make_ledger(MAIL, *GOOD, row=again))
    in_line = {**again, "overlap": "queue"}
    assert [] == find(make_ledger(MAIL, *GOOD, row=in_line))


def test_a_late_tick_is_found_where_somebody_could_tick() -> None:
    """Not in a minute in which a scheduler or the database was hurt."""
    late = {"recorded_at": NOON + 3 * SECOND}
    killed = Happening("kill", "scheduler-1", NOON - SECOND, NOON)

    assert ["the tick of 12:00 was late by 0:00:03"] == find(
        make_ledger(MAIL, *GOOD, row=late)
    )
    assert [] == find(make_ledger(MAIL, *GOOD, row=late, happenings=[killed]))
