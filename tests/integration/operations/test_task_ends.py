"""Operations that wait for the end of a task, on each database."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from models.database.engine import reading, writing
from models.database.tables import operation_steps, operations
from models.operation_state import OperationState, Overlap, Queue, is_awaiting
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import claim_operation, give_back
from operations.fleet.processes import fetch_secret
from operations.foreign_tasks import ForeignTask, TaskAnswer, make_token
from operations.list_operations import fetch_steps
from operations.ports import Ports
from operations.running.attempt import Attempt
from operations.task_ends import (
    end_overdue,
    fetch_listened,
    fetch_overdue,
    fetch_silent,
    note_remark,
    record_answers,
)
from overview.operations import fetch_shown_operation
from tests.database import read_by, write_by
from tests.scheduling import (
    MINUTE,
    add_runs,
    edit,
    find_sendable,
    get,
    get_now,
    get_steps,
    make_operation,
    must_claim,
    record_all,
    run_attempt,
    say_why,
)
from tests.unit.operations.fakes import FakeTaskSender

TASK = {"name": "shop.report", "queue": "reports", "wait": True, "within": "PT10M"}
DAILY = make_operation()
NEXT = make_operation(1)


@dataclass
class QuickSender(FakeTaskSender):
    """Its tasks end before ``send`` returns."""

    answer: Callable[[str], object] = lambda token: token

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send, and answer."""
        sent = super().send(task)
        assert sent.token is not None
        self.answer(sent.token)
        return sent


def prepare(engine: sa.Engine) -> None:
    """Record DAILY, whose action sends a task and waits for it."""
    add_runs(engine, DAILY, operations={"run_task": TASK})


def run(engine: sa.Engine, ports: Ports) -> OperationState | None:
    """Let a worker claim DAILY and run it; None: nothing can be claimed."""
    claim = claim_operation(engine, DAILY.id, worker="w")
    return None if claim is None else Attempt(engine, claim, ports).run()


def get_token(engine: sa.Engine, attempt: int = 1) -> str:
    """Return what the answer to DAILY must bring."""
    return make_token(read_by(engine, fetch_secret), DAILY.id, attempt)


def answer(
    engine: sa.Engine, attempt: int = 1, *, succeeded: bool = True, returned: object = 7
) -> bool:
    told = TaskAnswer(get_token(engine, attempt), succeeded, returned)  # type: ignore[arg-type]
    return record_answers(engine, [told]) == (1, {})


def fetch_result(engine: sa.Engine, operation_id: UUID) -> dict[str, Any]:
    (step,) = get_steps(engine, operation_id)
    result: dict[str, Any] = step.result
    return result


def end_what_is_overdue(engine: sa.Engine) -> int:
    """Let the time be over that the task was given, and end it."""
    edit(engine, DAILY.id, send_at=get_now(engine) - MINUTE)
    overdue = read_by(engine, fetch_overdue, limit=9)
    return end_overdue(engine, [(each, each.remark) for each in overdue])


def test_operation_waits_without_a_worker(engine: sa.Engine, ports: Ports):
    """No claim and no lease, until the deadline; nobody sends or claims it then."""
    prepare(engine)

    state = run(engine, ports)

    row = get(engine, DAILY.id)
    assert "pending" == state == row.state
    assert (None, None, 1) == (row.claim_token, row.lease_expires_at, row.attempt)
    assert is_awaiting(row.reason)
    assert timedelta(minutes=9) < row.send_at - get_now(engine) <= timedelta(minutes=10)
    with reading(engine) as connection:
        assert [None] == fetch_listened(connection)
        shown = fetch_shown_operation(connection, DAILY.id)
    assert shown.told is not None
    assert "Waits for the task's own end (shop.report), until " in shown.told.text
    assert shown.mark is None
    edit(engine, DAILY.id, send_at=get_now(engine) - MINUTE)
    assert [] == find_sendable(engine)
    assert run(engine, ports) is None


def test_answer_ends_it(engine: sa.Engine, ports: Ports):
    """Success is that of the task, with what it returned."""
    prepare(engine)
    run(engine, ports)
    began_at = get(engine, DAILY.id).started_at

    assert answer(engine, returned={"text": "a\0b\ud800", "n": float("nan")})

    row = get(engine, DAILY.id)
    assert ("succeeded", None, None, 1) == (
        *(row.state, row.reason, row.error),
        row.attempt,
    )
    assert began_at == row.started_at < row.finished_at
    with reading(engine) as connection:
        (step,) = fetch_steps(connection, [DAILY.id])[DAILY.id]
        assert [] == fetch_listened(connection)
    assert ("succeeded", row.finished_at) == (step.state, step.finished_at)
    assert {"text": "a\ufffdb\ufffd", "n": "NaN"} == step.result["returned"]
    assert "reports" == step.result["queue"]


def test_step_behind_others_ends_in_its_place(engine: sa.Engine, ports: Ports):
    """What ran before it stays as it is."""
    hook = {"url": "https://example.com/hook"}
    add_runs(engine, DAILY, operations={"call_webhook": hook, "run_task": TASK})
    run(engine, ports)

    assert answer(engine)

    steps = get_steps(engine, DAILY.id)
    assert ["call_webhook", "run_task"] == [step.name for step in steps]
    assert ["succeeded"] * 2 == [step.state for step in steps]
    assert 7 == steps[1].result["returned"]


def test_failure_is_told_and_is_final(engine: sa.Engine, ports: Ports):
    """Its own retries are over, so there is none of ours; results may say why."""
    prepare(engine)
    run(engine, ports)
    told = [TaskAnswer(get_token(engine), succeeded=False)]

    record_answers(engine, told, lambda connection, _id: f"{connection} is no shop")

    row = get(engine, DAILY.id)
    assert ("failed", "step failed: run_task") == (row.state, row.reason)
    assert row.error.startswith("run_task: shop.report failed: None is no shop (task")


def test_answer_that_comes_before_the_worker_lets_go_ends_it(
    engine: sa.Engine, ports: Ports
):
    """The task may be over before its sender has written that it waits."""
    prepare(engine)

    def end(token: str) -> None:
        record_answers(engine, [TaskAnswer(token, succeeded=True)])

    sender = QuickSender(answer=end)

    assert "succeeded" == run(engine, replace(ports, tasks=sender))

    row = get(engine, DAILY.id)
    assert ("succeeded", None) == (row.state, row.claim_token)


def test_answer_to_what_a_worker_gave_back_ends_it(engine: sa.Engine):
    """It was sent, though nobody had written that down."""
    prepare(engine)
    claim = must_claim(engine, DAILY.id)
    give_back(engine, claim)

    assert answer(engine)

    assert "succeeded" == get(engine, DAILY.id).state
    assert [] == find_sendable(engine)


def test_second_answer_late_answer_and_strangers_change_nothing(
    engine: sa.Engine, ports: Ports
):
    """Each answer counts once, if its token is ours and of this attempt."""
    prepare(engine)
    run(engine, ports)
    ours = get_token(engine)
    strangers = ("", "x", make_token("theirs", DAILY.id, 1), ours[:-1] + "\u0660")

    for each in strangers:
        assert (0, {}) == record_answers(engine, [TaskAnswer(each, succeeded=False)])
    for attempt in (0, 2, 3):
        assert not answer(engine, attempt)
    assert answer(engine)
    assert not answer(engine, succeeded=False)

    assert "succeeded" == get(engine, DAILY.id).state


def test_answers_that_come_together_are_recorded_together(
    engine: sa.Engine, ports: Ports
):
    """Those of strangers among them change nothing, and the first to a token counts."""
    prepare(engine)
    record_all(engine, NEXT)
    run(engine, ports)
    run_attempt(engine, NEXT.id, ports)
    first, second = (each.token for each in ports.tasks.sent)  # type: ignore[attr-defined]
    told = [
        TaskAnswer("nobody's", succeeded=False),
        TaskAnswer(first, succeeded=True, returned=1),
        TaskAnswer(first, succeeded=False),
        TaskAnswer(second, succeeded=True, returned=2),
    ]

    assert (2, {}) == record_answers(engine, told)

    results = [fetch_result(engine, each.id) for each in (DAILY, NEXT)]
    assert [1, 2] == [result["returned"] for result in results]


def test_deadline_ends_it(engine: sa.Engine, ports: Ports):
    """What says why is what was noticed meanwhile."""
    prepare(engine)
    run(engine, ports)
    with writing(engine) as connection:
        assert [] == fetch_silent(connection, older_than=MINUTE, limit=9)
        (silent,) = fetch_silent(connection, older_than=timedelta(), limit=9)
        note_remark(connection, [silent.operation_id], "nobody takes queue reports")
    with reading(engine) as connection:
        shown = fetch_shown_operation(connection, DAILY.id)
        assert [] == fetch_overdue(connection, limit=9)
    assert shown.told is not None
    assert "nobody takes queue reports" in shown.told.text

    assert 1 == end_what_is_overdue(engine)

    row = get(engine, DAILY.id)
    assert ("failed", "step failed: run_task") == (row.state, row.reason)
    assert "within PT10M; nobody takes queue reports" in row.error


def test_deadline_leaves_what_was_answered(engine: sa.Engine, ports: Ports):
    """Or canceled, or retried: whoever looked before that ends nothing."""
    prepare(engine)
    run(engine, ports)
    edit(engine, DAILY.id, send_at=get_now(engine) - MINUTE)
    overdue = [(each, None) for each in read_by(engine, fetch_overdue, limit=9)]
    answer(engine)

    assert 0 == end_overdue(engine, overdue)

    assert "succeeded" == get(engine, DAILY.id).state


def test_cancellation_ends_the_wait_and_a_retry_sends_anew(
    engine: sa.Engine, ports: Ports
):
    """Under the same id, with another token: the former answer is not for this one."""
    prepare(engine)
    run(engine, ports)
    assert write_by(engine, cancel, DAILY.id, reason="canceled")
    assert not answer(engine)
    assert write_by(engine, reopen, DAILY.id)
    assert not answer(engine)

    run(engine, ports)

    assert not answer(engine)
    first, second = ports.tasks.sent  # type: ignore[attr-defined]
    assert first.id == second.id
    assert answer(engine, attempt=2)


def test_outcome_of_what_was_sent_is_told_though_its_action_is_gone(
    engine: sa.Engine, ports: Ports
):
    """The task has run; that it was deleted meanwhile is no answer."""
    prepare(engine)
    run(engine, ports)
    write_by(engine, delete_action, "daily")

    assert answer(engine)


@pytest.mark.parametrize(
    "held", [operations.c.id, operation_steps.c.operation_id], ids=["itself", "step"]
)
def test_answer_to_an_operation_that_is_locked_is_left_alone(
    postgres_engine: sa.Engine, ports: Ports, held: sa.Column[UUID]
):
    """The others are recorded: nobody waits for a lock, as the deadline does not."""
    engine = postgres_engine
    prepare(engine)
    record_all(engine, NEXT)
    run(engine, ports)
    run_attempt(engine, NEXT.id, ports)
    told = [TaskAnswer(each.token, succeeded=True) for each in ports.tasks.sent]  # type: ignore[attr-defined]

    with writing(engine) as holding:
        holding.execute(sa.select(held).where(held == DAILY.id).with_for_update())
        recorded = record_answers(engine, told)
        (silent,) = read_by(engine, fetch_silent, older_than=timedelta(), limit=9)
        overdue = end_overdue(engine, [(silent, None)])

    assert (1, {DAILY.id: told[0].token}) == recorded
    assert (0, "succeeded") == (overdue, get(engine, NEXT.id).state)
    assert (1, {}) == record_answers(engine, told)


def test_next_run_waits_until_the_task_has_ended(engine: sa.Engine, ports: Ports):
    """With ``overlap: queue`` a run ends as its task does; other actions go on."""
    queued = DAILY._replace(overlap=Overlap.QUEUE)
    add_runs(
        engine,
        queued,
        NEXT._replace(overlap=Overlap.QUEUE),
        operations={"run_task": TASK},
    )
    run(engine, ports)
    other = make_operation(2, action_uid="other")._replace(
        queue=Queue.HEAVY, overlap=Overlap.QUEUE
    )
    record_all(engine, other)

    assert [other.id] == find_sendable(engine)
    assert "has not ended" in read_by(engine, say_why, NEXT.id)
    answer(engine)
    assert {NEXT.id, other.id} == set(find_sendable(engine))
