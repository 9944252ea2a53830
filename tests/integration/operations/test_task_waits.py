"""Operations that wait for the end of a task, on each database."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from models.database.engine import reading, writing
from models.database.tables import operation_steps, operations, task_waits
from models.errors import PlatformError
from models.operation_state import OperationState, Overlap, Queue, is_awaiting
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import claim_operation
from operations.foreign_tasks import Answer, ForeignTask
from operations.list_operations import fetch_steps
from operations.ports import Ports
from operations.running.attempt import Attempt
from operations.running.step_records import prepare_steps
from operations.sending.order import fetch_sendable
from operations.sending.why_not_sent import find_hindrances
from operations.task_waits import (
    TaskWaits,
    fetch_listened,
    fetch_silent,
    note_remark,
    record_answers,
)
from overview.operations.shown import fetch_shown_operation
from tests.scheduling import (
    add_revision,
    edit,
    get,
    get_now,
    make_operation,
    record_all,
)
from tests.servers import wait_until
from tests.unit.operations.fakes import FakeTaskSender, World

MINUTE = timedelta(minutes=1)
TASK = {"name": "shop.report", "queue": "reports", "wait": True, "within": "PT10M"}
DAILY = make_operation()
NEXT = make_operation(1)


@dataclass
class QuickSender(FakeTaskSender):
    """Its tasks end before ``send`` returns."""

    answer: Callable[[UUID], object] = lambda token: token

    def send(self, task: ForeignTask) -> ForeignTask:
        """Send, and answer."""
        sent = super().send(task)
        assert sent.token is not None
        self.answer(sent.token)
        return sent


@pytest.fixture
def ports(tmp_path: Path) -> Ports:
    """Give a world with a sender that keeps what it is sent."""
    return World(tmp_path).make_context().ports


def prepare(engine: sa.Engine) -> None:
    """Record DAILY, whose action sends a task and waits for it."""
    add_revision(engine, operations={"run_task": TASK})
    record_all(engine, DAILY)


def run(engine: sa.Engine, ports: Ports) -> OperationState | None:
    """Let a worker claim DAILY and run it; None: nothing can be claimed."""
    claim = claim_operation(engine, DAILY.id, worker="w")
    return None if claim is None else Attempt(engine, claim, ports).run()


def get_token(engine: sa.Engine) -> UUID:
    """Return the token of the wait."""
    with reading(engine) as connection:
        token: UUID = connection.execute(sa.select(task_waits.c.token)).scalar_one()
    return token


def answer(engine: sa.Engine, *, succeeded: bool = True, returned: object = 7) -> bool:
    """Let the task end."""
    told = Answer(get_token(engine), succeeded, returned)  # type: ignore[arg-type]
    return record_answers(engine, [told]) == 1


def edit_step(engine: sa.Engine, **values: object) -> None:
    """Write *values* into the only step of DAILY."""
    with writing(engine) as connection:
        connection.execute(sa.update(operation_steps).values(**values))


def get_sendable(engine: sa.Engine) -> list[UUID]:
    """Return what would be sent now."""
    with reading(engine) as connection:
        return [each.id for each in fetch_sendable(connection, limit=10)]


def pass_deadline(engine: sa.Engine) -> None:
    """Let the time be over that the task was given."""
    past = get_now(engine) - MINUTE
    with writing(engine) as connection:
        connection.execute(sa.update(task_waits).values(deadline=past))
    edit(engine, DAILY.id, send_at=past)


def test_operation_waits_without_a_worker(engine: sa.Engine, ports: Ports):
    """
    No claim, no lease, no attempt; it is due again at the deadline.
    """
    prepare(engine)

    state = run(engine, ports)

    row = get(engine, DAILY.id)
    assert "pending" == state == row.state
    assert (None, None, 0) == (row.claim_token, row.lease_expires_at, row.attempt)
    assert is_awaiting(row.reason)
    assert timedelta(minutes=9) < row.send_at - get_now(engine) <= timedelta(minutes=10)
    assert [] == get_sendable(engine)
    assert run(engine, ports) is None
    with reading(engine) as connection:
        assert [None] == fetch_listened(connection)
        hindrance = find_hindrances(connection, [DAILY.id])[DAILY.id]
        shown = fetch_shown_operation(connection, DAILY.id)
    assert "to end" in hindrance
    assert shown.told is not None
    assert "Waits for the task's own end (shop.report), until " in shown.told.write()
    assert shown.mark is None


def test_answer_lets_it_go_on_at_once(engine: sa.Engine, ports: Ports):
    """
    Success is that of the task, with what it returned.
    """
    prepare(engine)
    run(engine, ports)
    began_at = get_now(engine) - MINUTE
    edit_step(engine, started_at=began_at)

    assert answer(engine, returned={"text": "a\0b\ud800", "n": float("nan")})
    assert [DAILY.id] == get_sendable(engine)
    assert "succeeded" == run(engine, ports)

    row = get(engine, DAILY.id)
    assert ("succeeded", None, 1) == (row.state, row.reason, row.attempt)
    with reading(engine) as connection:
        (step,) = fetch_steps(connection, [DAILY.id])[DAILY.id]
        assert [] == fetch_listened(connection)
    assert began_at == step.started_at  # waiting is part of the step
    assert {"text": "a\ufffdb\ufffd", "n": "NaN"} == step.result["returned"]


def test_failure_is_told_and_is_final(engine: sa.Engine, ports: Ports):
    """
    Its own retries are over, so there is none of ours.
    """
    prepare(engine)
    run(engine, ports)

    answer(engine, succeeded=False)

    assert "failed" == run(engine, ports)
    assert "shop.report failed" in get(engine, DAILY.id).error


def test_answer_that_comes_before_the_worker_lets_go_is_seen(
    engine: sa.Engine, ports: Ports
):
    """
    The task may be over before its sender has written that it waits.
    """
    prepare(engine)

    def end(token: UUID) -> None:
        record_answers(engine, [Answer(token, succeeded=True)])

    sender = QuickSender(answer=end)

    run(engine, replace(ports, tasks=sender))

    assert [DAILY.id] == get_sendable(engine)
    assert "succeeded" == run(engine, ports)


def test_second_answer_late_answer_and_strangers_change_nothing(
    engine: sa.Engine, ports: Ports
):
    """
    Each answer counts once, if it carries the token.
    """
    prepare(engine)
    run(engine, ports)
    token = get_token(engine)

    assert not record_answers(engine, [Answer(uuid4(), succeeded=False)])
    assert answer(engine)
    assert not record_answers(engine, [Answer(token, succeeded=False)])
    run(engine, ports)
    assert not record_answers(engine, [Answer(token, succeeded=False)])

    assert "succeeded" == get(engine, DAILY.id).state


def test_answers_that_come_together_are_recorded_together(
    engine: sa.Engine, ports: Ports
):
    """
    Those of strangers among them change nothing, and the first to a token counts.
    """
    prepare(engine)
    record_all(engine, NEXT)
    run(engine, ports)
    claim = claim_operation(engine, NEXT.id, worker="w")
    assert claim is not None
    Attempt(engine, claim, ports).run()
    first, second = (each.token for each in ports.tasks.sent)  # type: ignore[attr-defined]
    told = [
        Answer(uuid4(), succeeded=False),
        Answer(first, succeeded=True, returned=1),
        Answer(first, succeeded=False),
        Answer(second, succeeded=True, returned=2),
    ]

    assert 2 == record_answers(engine, told)

    assert {DAILY.id, NEXT.id} == set(get_sendable(engine))
    with reading(engine) as connection:
        answers = connection.execute(
            sa.select(task_waits.c.answer).order_by(task_waits.c.answered_at)
        )
        assert [1, 2] == sorted(answer["returned"] for answer in answers.scalars())


def test_answer_to_an_operation_that_is_locked_waits_for_it_alone(
    postgres_engine: sa.Engine, ports: Ports
):
    """
    The others are recorded meanwhile: nobody waits for a lock and holds another.
    """
    engine = postgres_engine
    prepare(engine)
    record_all(engine, NEXT)
    run(engine, ports)
    claim = claim_operation(engine, NEXT.id, worker="w")
    assert claim is not None
    Attempt(engine, claim, ports).run()
    told = [Answer(each.token, succeeded=True) for each in ports.tasks.sent]  # type: ignore[attr-defined]
    answered = sa.select(sa.func.count()).where(task_waits.c.answered_at.is_not(None))

    with ThreadPoolExecutor() as threads, writing(engine) as holding:
        holding.execute(
            sa.select(operations.c.id)
            .where(operations.c.id == DAILY.id)
            .with_for_update()
        )
        recorded = threads.submit(record_answers, engine, told)

        def is_one_answered() -> bool:
            with reading(engine) as connection:
                return connection.execute(answered).scalar() == 1

        wait_until(is_one_answered, what="the answer to what is not locked")
        holding.rollback()
        assert 2 == recorded.result()


def test_deadline_ends_it(engine: sa.Engine, ports: Ports):
    """
    What says why is what was noticed meanwhile.
    """
    prepare(engine)
    run(engine, ports)
    with writing(engine) as connection:
        assert [] == fetch_silent(connection, older_than=MINUTE, limit=9)
        (silent,) = fetch_silent(connection, older_than=timedelta(), limit=9)
        note_remark(connection, silent.operation_id, "nobody takes queue reports")
    with reading(engine) as connection:
        shown = fetch_shown_operation(connection, DAILY.id)
    assert shown.told is not None
    assert "nobody takes queue reports" in shown.told.write()
    pass_deadline(engine)

    assert [DAILY.id] == get_sendable(engine)
    assert "failed" == run(engine, ports)
    assert "within PT10M; nobody takes queue reports" in get(engine, DAILY.id).error


def test_broker_that_is_away_at_the_deadline_ends_nothing(
    engine: sa.Engine, ports: Ports
):
    """
    The operation waits for the broker, which is told, and no attempt counts.
    """
    prepare(engine)
    run(engine, ports)
    ports.tasks.error = PlatformError("our broker is away")  # type: ignore[attr-defined]
    pass_deadline(engine)

    assert "pending" == run(engine, ports)

    row = get(engine, DAILY.id)
    assert (None, 0) == (row.claim_token, row.attempt)
    with reading(engine) as connection:
        hindrance = find_hindrances(connection, [DAILY.id])[DAILY.id]
        shown = fetch_shown_operation(connection, DAILY.id)
        assert [None] == fetch_listened(connection)
    assert "nothing is judged while our broker is away; the next look" in hindrance
    assert shown.told is not None
    assert "nothing is judged while our broker is away" in shown.told.write()
    answer(engine)
    assert "succeeded" == run(engine, ports)


def test_cancellation_ends_the_wait_and_a_retry_sends_anew(
    engine: sa.Engine, ports: Ports
):
    """
    Under the same id, with another token: the former answer is not for this one.
    """
    prepare(engine)
    run(engine, ports)
    former = get_token(engine)
    with writing(engine) as connection:
        assert cancel(connection, DAILY.id, reason="canceled")
    record_answers(engine, [Answer(former, succeeded=True)])
    assert "canceled" == get(engine, DAILY.id).state
    with writing(engine) as connection:
        assert reopen(connection, DAILY.id)

    run(engine, ports)

    assert former != get_token(engine)
    assert not record_answers(engine, [Answer(former, succeeded=True)])
    first, second = ports.tasks.sent  # type: ignore[attr-defined]
    assert first.id == second.id


def test_retry_of_a_failure_sends_anew(engine: sa.Engine, ports: Ports):
    """
    What failed is not looked at again.
    """
    prepare(engine)
    run(engine, ports)
    answer(engine, succeeded=False)
    run(engine, ports)
    with writing(engine) as connection:
        assert reopen(connection, DAILY.id)

    assert "pending" == run(engine, ports)
    assert answer(engine)
    assert "succeeded" == run(engine, ports)


class KilledError(BaseException):
    """The worker is gone."""


def test_retry_that_is_cut_off_sends_anew_all_the_same(
    engine: sa.Engine, ports: Ports, monkeypatch: pytest.MonkeyPatch
):
    """
    The answer to what was sent before the retry is not taken for the new one's.
    """
    prepare(engine)
    run(engine, ports)
    answer(engine, succeeded=False)
    run(engine, ports)
    with writing(engine) as connection:
        assert reopen(connection, DAILY.id)

    def die(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(TaskWaits, "begin", die)
        with pytest.raises(KilledError):
            run(engine, ports)
    edit(engine, DAILY.id, lease_expires_at=get_now(engine) - MINUTE)

    assert "pending" == run(engine, ports)
    assert 2 == len(ports.tasks.sent)  # type: ignore[attr-defined]


def test_answer_to_what_is_sent_again_stays(engine: sa.Engine, ports: Ports):
    """
    It came between two looks of the next worker.
    """
    prepare(engine)
    run(engine, ports)
    token = get_token(engine)
    answer(engine)
    claim = claim_operation(engine, DAILY.id, worker="w")
    assert claim is not None
    waits = TaskWaits(engine, claim, "run_task", {"awaited": str(token)})

    waits.begin(
        ForeignTask("shop.report", str(DAILY.id), queue="reports"), MINUTE, token
    )

    found = waits.fetch()
    assert found is not None
    assert found.answer is not None


def test_worker_that_dies_after_sending_loses_nothing(engine: sa.Engine, ports: Ports):
    """
    The next one sends under the same token, or finds the answer to the first.
    """
    prepare(engine)
    run(engine, ports)
    token = get_token(engine)
    with writing(engine) as connection:
        connection.execute(sa.update(task_waits).values(sent_at=None))
    edit(engine, DAILY.id, send_at=get_now(engine))

    run(engine, ports)

    assert [token] * 2 == [each.token for each in ports.tasks.sent]  # type: ignore[attr-defined]
    answer(engine)
    assert "succeeded" == run(engine, ports)
    assert 2 == len(ports.tasks.sent)  # type: ignore[attr-defined]


def test_outcome_of_what_was_sent_is_told_though_its_action_is_gone(
    engine: sa.Engine, ports: Ports
):
    """
    The task has run; that it was deleted meanwhile is no answer.
    """
    prepare(engine)
    run(engine, ports)
    with writing(engine) as connection:
        delete_action(connection, "daily")
    answer(engine)

    assert "succeeded" == run(engine, ports)


def delete_the_action_as_a_worker_dies(engine: sa.Engine) -> None:
    """Claim the operation, delete its action, and let the lease run out."""
    claim = claim_operation(engine, DAILY.id, worker="w")
    assert claim is not None
    with writing(engine) as connection:
        prepare_steps(connection, claim, ["run_task"])
        delete_action(connection, "daily")
    edit(engine, DAILY.id, lease_expires_at=get_now(engine) - MINUTE)


def test_outcome_is_told_though_the_worker_that_read_it_died(
    engine: sa.Engine, ports: Ports
):
    """
    Its action was deleted meanwhile; the answer that came wins.
    """
    prepare(engine)
    run(engine, ports)
    with writing(engine) as connection:
        # it died between sending and writing, too
        connection.execute(sa.update(task_waits).values(sent_at=None))
    answer(engine)
    delete_the_action_as_a_worker_dies(engine)

    assert "succeeded" == run(engine, ports)


def test_task_that_would_be_sent_anew_is_not_if_its_action_is_gone(
    engine: sa.Engine, ports: Ports
):
    """
    What was sent before the retry is over.
    """
    prepare(engine)
    run(engine, ports)
    answer(engine, succeeded=False)
    run(engine, ports)
    with writing(engine) as connection:
        assert reopen(connection, DAILY.id)
    delete_the_action_as_a_worker_dies(engine)

    assert "canceled" == run(engine, ports)


def test_next_run_waits_until_the_task_has_ended(engine: sa.Engine, ports: Ports):
    """
    With ``overlap: queue`` a run ends as its task does; other actions go on.
    """
    queued = DAILY._replace(overlap=Overlap.QUEUE)
    add_revision(engine, operations={"run_task": TASK})
    record_all(engine, queued, NEXT._replace(overlap=Overlap.QUEUE))
    run(engine, ports)
    other = make_operation(2, action_uid="other")._replace(
        queue=Queue.HEAVY, overlap=Overlap.QUEUE
    )
    record_all(engine, other)

    assert [other.id] == get_sendable(engine)
    with reading(engine) as connection:
        assert "has not ended" in find_hindrances(connection, [NEXT.id])[NEXT.id]
    answer(engine)
    assert {DAILY.id, other.id} == set(get_sendable(engine))
    run(engine, ports)
    assert {NEXT.id, other.id} == set(get_sendable(engine))
