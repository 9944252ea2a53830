"""Tasks that the leader sends itself: recorded, committed, sent, marked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from actions.tick import run_tick
from dispatch.manual_runs import run_now
from dispatch.outbox import Outbox
from dispatch.task_outbox import TaskOutbox
from models.back_off import RETRY_DELAY
from models.database.engine import writing
from models.database.tables import scheduled_action_revisions
from models.operation_state import Overlap, is_awaiting
from operations.cancel_and_retry import cancel, reopen
from operations.foreign_tasks import ForeignTask, TaskAnswer
from operations.sending.tasks import PUT_OFF, Ready
from operations.task_ends import record_answers
from tests.database import execute, note_statements, read_by, write_by
from tests.scheduling import (
    BROKER_DOWN,
    MINUTE,
    MINUTELY,
    SECOND,
    FakeCouriers,
    FakeSender,
    add_app,
    backdate,
    edit,
    edit_action,
    fetch_all,
    get,
    get_now,
    get_steps,
    make_dispatcher,
    post,
    say_why,
    tick,
)

TASK = {"name": "shop.report", "queue": "reports", "wait": True, "within": "PT10M"}


@dataclass
class Case:
    """A leader, and who sends for it."""

    engine: sa.Engine
    couriers: FakeCouriers = field(default_factory=FakeCouriers)
    sender: FakeSender = field(default_factory=FakeSender)

    def __post_init__(self) -> None:
        """Make the leader."""
        self.dispatcher = make_dispatcher(self.engine, self.sender)
        clock = self.couriers.clock
        tasks = TaskOutbox(self.engine, self.couriers, clock)
        self.dispatcher.outbox.tasks = tasks
        self.dispatcher.outbox.monotonic = clock

    def add(self, named: str = "report", **task: Any) -> str:
        """Post an action that is due, and whose only step is a task."""
        when = MINUTELY
        steps = {"run_task": TASK | task}
        posted = post(
            self.engine, name=named, operations=steps, when=when, replace_it=True
        )
        uid = posted.uid
        backdate(self.engine, uid)
        return uid

    def run(self, **task: Any) -> UUID:
        """Let a person ask for a run of such an action, without a tick."""
        asked = TASK | task
        uid = post(self.engine, name=asked["name"], operations={"run_task": asked}).uid
        return run_now(self.engine, uid)

    def send(self) -> int:
        """Look into the outbox until nothing more is sent."""
        total = 0
        while sent := self.dispatcher.send_waiting():
            total += sent
        return total

    def answer(self, task: ForeignTask, *, succeeded: bool = True) -> int:
        """Let a task end."""
        assert task.token is not None
        return record_answers(self.engine, [TaskAnswer(task.token, succeeded, 7)])[0]


@pytest.fixture
def case(engine: sa.Engine) -> Case:
    """Give a leader of an installation with one small app."""
    add_app(engine)
    return Case(engine)


def fetch_step(engine: sa.Engine, operation_id: UUID) -> Any:
    (step,) = get_steps(engine, operation_id)
    return step


def test_tick_sends_a_task_straight_to_its_queue(engine: sa.Engine, case: Case):
    """No worker of ours hears of it; it is marked, and its answer ends it."""
    case.add(kwargs={"due": "{{ scheduled_for }}", "by": "{{ app.name }}"})

    tick(case.dispatcher, get_now(engine))

    (row,) = fetch_all(engine)
    (task,) = case.couriers.sent
    assert [] == case.sender.ids
    assert ("tasks", "pending", 1, 1) == (row.queue, row.state, row.attempt, row.sends)
    assert is_awaiting(row.reason)
    assert abs(row.send_at - row.sent_at - timedelta(minutes=10)) < SECOND
    assert {"due": row.occurrence.isoformat(), "by": "app"} == task.kwargs
    assert str(row.id) == task.headers["minutehand-operation-id"]
    assert 1 == task.headers["minutehand-attempt"]
    assert 0 == case.send()
    assert 1 == case.answer(task)
    row = get(engine, row.id)
    assert ("succeeded", None, 1) == (row.state, row.reason, row.attempt)
    step = fetch_step(engine, row.id)
    assert ("run_task", "succeeded", 1) == (step.name, step.state, step.attempt)
    assert (7, "reports") == (step.result["returned"], step.result["queue"])
    assert row.started_at == step.started_at


@pytest.mark.parametrize(
    ("named", "reads"), [("{{ scheduled_for }}", 0), ("{{ app.name }}", 1)]
)
def test_task_that_a_tick_has_recorded_is_not_read_again(
    engine: sa.Engine, case: Case, named: str, reads: int
):
    """It is made from what was decided, unless it is to be told of its small app."""
    now = backdate(engine, case.add(kwargs={"given": named}))
    statements = note_statements(engine)

    tick(case.dispatcher, now)

    assert 1 == len(case.couriers.sent)
    assert reads == sum("LEFT OUTER JOIN small_apps" in each for each in statements)


def test_task_that_was_recorded_before_is_sent_as_it_was(engine: sa.Engine, case: Case):
    """Whoever decides the same occurrence again may know another revision."""
    uid = case.add(kwargs={"revision": 1})
    now = backdate(engine, uid)
    case.couriers.refusal = "away"
    tick(case.dispatcher, now)
    (row,) = fetch_all(engine)
    case.couriers.refusal = None
    case.add(kwargs={"revision": 2})
    edit_action(engine, uid, next_due_at=now, effective_from=now)
    edit(engine, row.id, send_at=now)

    report = tick(case.dispatcher, now)

    assert (1, 0) == (report.due, report.recorded)
    assert [{"revision": 1}] == [task.kwargs for task in case.couriers.sent]


@pytest.mark.parametrize("is_late", [False, True])
def test_tasks_that_fly_are_of_what_is_committed(
    engine: sa.Engine, case: Case, *, is_late: bool
):
    """Couriers get them while the next chunk is written; each once, and all marked."""
    uids = [case.add(f"action {number}") for number in range(9)]
    now = get_now(engine).replace(second=0, microsecond=0)
    for uid in uids:
        edit_action(engine, uid, next_due_at=now, effective_from=now)
    take, committed = case.couriers.take, []

    def look(connection: str | None, batch: Sequence[Ready]) -> str | None:
        known = {row.id for row in fetch_all(engine)}
        committed.append({each.message.id for each in batch} <= known)
        return take(connection, batch)

    case.couriers.take = look  # type: ignore[method-assign]
    case.couriers.is_late = is_late
    report = run_tick(now, engine=engine, dispatcher=case.dispatcher, chunk=2)
    case.couriers.deliver()
    case.send()

    assert (9, 9) == (report.recorded, report.sent)
    assert all(committed)
    assert len(committed) > 3
    assert 9 == len({task.id for task in case.couriers.sent}) == len(case.couriers.sent)
    assert {("pending", 1, 1)} == {
        (row.state, row.attempt, row.sends) for row in fetch_all(engine)
    }
    assert not case.dispatcher.outbox.has_news


def test_task_that_is_not_waited_for_has_succeeded_when_it_is_sent(
    engine: sa.Engine, case: Case
):
    """And says where it went."""
    operation_id = case.run(wait=False, within=None)

    assert 1 == case.send()

    row = get(engine, operation_id)
    assert ("succeeded", 1) == (row.state, row.attempt)
    assert abs(row.sent_at - row.finished_at) < SECOND
    assert "reports" == fetch_step(engine, operation_id).result["queue"]
    assert case.couriers.sent[0].token is None


def test_run_that_was_delivered_is_in_nobodys_way(engine: sa.Engine, case: Case):
    """What became of it is marked before the ``overlap`` of the next is decided."""
    uid = case.add(wait=False, within=None)
    edit_action(engine, uid, overlap=Overlap.SKIP)
    case.couriers.is_late = True
    tick(case.dispatcher, get_now(engine))
    case.couriers.deliver()

    tick(case.dispatcher, get_now(engine) + MINUTE)

    assert ["succeeded", "pending"] == [row.state for row in fetch_all(engine)]


def test_answer_may_be_faster_than_the_mark(engine: sa.Engine, case: Case):
    """The mark then changes nothing."""
    operation_id = case.run()
    case.couriers.is_late = True
    case.send()
    assert 1 == case.answer(case.couriers.sent[0])
    ended = get(engine, operation_id)
    case.couriers.deliver()

    case.send()

    assert "succeeded" == ended.state
    assert ended == get(engine, operation_id)


def test_what_a_courier_has_is_not_sent_again(case: Case):
    """Until it was delivered, or another leadership begins."""
    case.run()
    case.couriers.is_late = True
    case.send()
    case.send()
    assert 1 == len(case.couriers.sent)

    case.dispatcher.outbox.forget()
    case.send()

    first, second = case.couriers.sent
    assert (first.id, first.token) == (second.id, second.token)


def test_crash_before_the_mark_sends_again_under_the_same_id(
    engine: sa.Engine, case: Case
):
    """The answer to either ends it, once."""
    case.run()
    case.couriers.is_late = True
    case.send()
    case.dispatcher.leader.release()
    other = Case(engine)

    other.send()

    (again,) = other.couriers.sent
    assert case.couriers.sent[0].token == again.token
    assert [1, 0] == [other.answer(again), other.answer(again)]


def test_broker_that_is_away_puts_off_and_says_so(engine: sa.Engine, case: Case):
    """No attempt counts, and others are found meanwhile."""
    operation_id = case.run()
    case.couriers.error = "connection 'shop' did not accept the task: refused"
    before = get_now(engine)

    case.send()

    row = get(engine, operation_id)
    assert ("pending", 0) == (row.state, row.attempt)
    assert "platform: connection 'shop' did not" in row.reason
    assert before <= row.send_at - PUT_OFF <= get_now(engine)
    assert "follows at" in read_by(engine, say_why, row.id)
    case.couriers.error = None
    edit(engine, operation_id, send_at=get_now(engine))
    case.send()
    row = get(engine, operation_id)
    assert is_awaiting(row.reason)
    assert row.error is None


@pytest.mark.parametrize("way", ["held", "refusal"], ids=["queue", "courier"])
def test_what_is_full_puts_off(engine: sa.Engine, case: Case, way: str):
    """
    No attempt counts, whoever asks is told, and what could not be taken is not what
    each look finds first.
    """
    operation_id = case.run()
    setattr(case.couriers, way, "it holds 100,000 messages or more")

    case.send()

    row = get(engine, operation_id)
    assert ("pending", 0, 0) == (row.state, row.attempt, row.sends)
    assert row.send_at > get_now(engine)
    assert "it holds 100,000" in read_by(engine, say_why, row.id)


def test_refused_task_is_tried_again_and_fails_in_the_end(
    engine: sa.Engine, case: Case
):
    """As a step that fails, such as for a queue that does not exist yet."""
    operation_id = case.run()
    case.couriers.refused = "our broker has no queue 'reports'"

    case.send()
    row = get(engine, operation_id)
    assert ("pending", "step failed", 1) == (row.state, row.reason, row.attempt)
    assert row.send_at - get_now(engine) <= RETRY_DELAY
    for _ in range(2):
        edit(engine, operation_id, send_at=get_now(engine))
        case.send()

    row = get(engine, operation_id)
    assert ("failed", 3) == (row.state, row.attempt)
    assert "run_task: our broker has no queue 'reports'" == row.error
    assert "failed" == fetch_step(engine, operation_id).state


def test_task_that_can_never_be_sent_fails_at_once(engine: sa.Engine, case: Case):
    """For the settings forbid its queue, or a placeholder has no value."""
    unfit = case.run(kwargs={"text": "it is {{ occurrence }}"})  # a manual run has none
    assert 1 == case.send()
    case.couriers.forbidden = "'reports' is a queue of Minutehand's own workers."
    forbidden = case.run(name="shop.other")
    case.send()

    assert "has no value in this run" in get(engine, unfit).error
    assert "Minutehand's own workers" in get(engine, forbidden).error
    assert [] == case.couriers.sent
    assert ("failed", 1) == (get(engine, unfit).state, get(engine, unfit).attempt)


def test_connection_that_the_leader_does_not_know_goes_through_a_worker(
    engine: sa.Engine, case: Case
):
    """Whose settings may have it."""
    case.couriers.unknown = (None,)
    operation_id = case.run()

    assert 1 == case.send()

    assert [operation_id] == case.sender.ids
    case.send()  # the mark
    row = get(engine, operation_id)
    assert ("quick", "queued") == (row.queue, row.state)


def test_action_that_was_deleted_stops_what_waits(engine: sa.Engine, case: Case):
    """As at a claim; one that is switched off stops what nobody asked for."""
    uid = case.add()
    case.couriers.refusal = "away"
    tick(case.dispatcher, get_now(engine))
    (row,) = fetch_all(engine)
    case.couriers.refusal = None
    edit(engine, row.id, send_at=get_now(engine))
    edit_action(engine, uid, active=False)

    case.send()

    row = get(engine, row.id)
    assert ("canceled", "action inactive") == (row.state, row.reason)
    manual = case.run(name="shop.other")
    write_by(engine, delete_action, get(engine, manual).action_uid)
    case.send()
    assert "action deleted" == get(engine, manual).reason
    assert [] == case.couriers.sent


def test_retry_goes_the_same_way(engine: sa.Engine, case: Case):
    """Under the same id, and the former answer is not for it."""
    operation_id = case.run()
    case.send()
    with writing(engine) as connection:
        assert cancel(connection, operation_id, reason="canceled")
        assert reopen(connection, operation_id)
    assert 0 == case.answer(case.couriers.sent[0])

    case.send()

    first, second = case.couriers.sent
    assert first.id == second.id
    assert 0 == case.answer(first)
    assert 1 == case.answer(second, succeeded=False)
    assert "failed" == get(engine, operation_id).state
    assert "shop.report failed" in fetch_step(engine, operation_id).error


def test_answer_from_before_a_retry_counts_nothing_though_it_was_not_marked(
    engine: sa.Engine, case: Case
):
    """Sent, not marked, canceled and retried: it is wanted done again."""
    case.couriers.is_late = True
    operation_id = case.run()
    case.send()
    with writing(engine) as connection:
        assert cancel(connection, operation_id, reason="canceled")
        assert reopen(connection, operation_id)

    assert 0 == case.answer(case.couriers.sent[0])

    case.couriers.is_late = False
    case.couriers.deliver()
    case.send()
    first, second = case.couriers.sent
    assert 0 == case.answer(first)
    assert 1 == case.answer(second)


def test_next_in_line_waits_for_the_answer(engine: sa.Engine, case: Case):
    """With ``overlap: queue`` a run ends as its task does, also before it is marked."""
    uid = post(engine, operations={"run_task": TASK}, overlap=Overlap.QUEUE.value).uid
    first, second = run_now(engine, uid), run_now(engine, uid)
    case.couriers.is_late = True
    case.send()

    demand_line(case, first, second)


def test_what_is_retried_waits_for_a_task_that_a_courier_has(
    engine: sa.Engine, case: Case
):
    """Though recorded before that, and the database knows of no task yet."""
    uid = post(engine, operations={"run_task": TASK}, overlap=Overlap.QUEUE.value).uid
    first, second = run_now(engine, uid), run_now(engine, uid)
    write_by(engine, cancel, first, reason="canceled")
    case.couriers.is_late = True
    case.send()
    write_by(engine, reopen, first)

    demand_line(case, second, first)


def demand_line(case: Case, ahead: UUID, behind: UUID) -> None:
    """Demand that *behind* is not sent before the task of *ahead* was answered."""
    case.send()
    assert [str(ahead)] == find_ids(case)
    case.couriers.deliver()
    case.send()
    case.send()
    assert [str(ahead)] == find_ids(case)
    case.answer(case.couriers.sent[0])
    case.send()
    assert [str(ahead), str(behind)] == find_ids(case)


def find_ids(case: Case) -> list[object]:
    """Return the ids of the operations whose tasks were sent."""
    return [task.headers["minutehand-operation-id"] for task in case.couriers.sent]


def test_our_broker_that_is_away_holds_up_no_task(engine: sa.Engine, case: Case):
    """Each has its own silence."""
    case.sender.error = BROKER_DOWN
    hook = {"call_webhook": {"url": "https://example.com/hook"}}
    ours = run_now(engine, post(engine, name="hook", operations=hook).uid)
    case.send()
    theirs = case.run()

    assert 1 == case.send()

    assert is_awaiting(get(engine, theirs).reason)
    assert ("pending", 0) == (get(engine, ours).state, get(engine, ours).sends)


def test_thousands_are_handed_over_in_parts(engine: sa.Engine, case: Case):
    """Each is sent once, though none is marked meanwhile."""
    uid = post(engine, operations={"run_task": TASK}, overlap="allow").uid
    ids = {run_now(engine, uid, key=f"key {n}") for n in range(25)}
    outbox: Outbox = case.dispatcher.outbox
    outbox.chunk = 5
    case.couriers.is_late = True

    assert 25 == case.send()

    assert {str(each) for each in ids} == set(map(str, find_ids(case)))
    assert 25 == len(case.couriers.sent)


def test_task_that_is_not_waited_for_starts_what_follows(case: Case):
    """It ends as it is sent: in the transaction that marks that."""
    engine = case.engine
    task = {"name": "shop.report", "queue": "reports", "wait": False}
    uid = post(engine, operations={"run_task": task}, when=MINUTELY).uid
    backdate(engine, uid)
    for on in ("success", "failure"):
        when = {"after_action": uid, "on": on}
        post(engine, name=on, uid=on, operations={"run_task": TASK}, when=when)

    tick(case.dispatcher, get_now(engine))
    case.send()

    rows = {row.action_uid: row for row in fetch_all(engine)}
    assert {uid, "success"} == set(rows)
    assert "succeeded" == rows[uid].state
    assert str(rows[uid].id) == rows["success"].details["after"]["operation"]
    assert 2 == len(case.couriers.sent)


def test_what_is_soon_due_is_read_before_its_minute(engine: sa.Engine, case: Case):
    """The tick that sends it has no time for that."""
    case.add()
    learn = case.dispatcher.outbox.tasks.learn_ahead

    assert [1, 0] == [learn(), learn()]

    execute(
        engine, sa.update(scheduled_action_revisions).values(document={"unread": True})
    )
    tick(case.dispatcher, get_now(engine))
    assert [TASK["name"]] == [task.name for task in case.couriers.sent]


def test_what_is_never_due_is_not_read_ahead(engine: sa.Engine, case: Case):
    """Neither is what goes through a worker."""
    post(engine, operations={"run_task": TASK}, active=False)
    other = {"publish": {"data": True}, "run_task": TASK}
    backdate(engine, post(engine, name="other", operations=other).uid)

    assert 0 == case.dispatcher.outbox.tasks.learn_ahead()


def test_what_has_no_revision_is_read_ahead_once(engine: sa.Engine, case: Case):
    """Or the look would never be done, and nothing beside it."""
    case.add()
    execute(engine, sa.delete(scheduled_action_revisions))
    learn = case.dispatcher.outbox.tasks.learn_ahead

    assert [1, 0] == [learn(), learn()]
