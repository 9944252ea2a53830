"""run_task that waits for the end of its task, on fakes."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import uuid4

import pytest

from models.errors import AwaitedError, PlatformError, StepError
from models.run_task import WITHIN, RunTaskModel
from operations.foreign_tasks import LISTEN_AFTER, Answer
from operations.steps.run_task import GRACE, LOOK_AGAIN, run_task
from tests.unit.operations.fakes import NOW, World

TASK = RunTaskModel(name="shop.report", queue="reports", wait=True)


def send(world: World, asked: RunTaskModel = TASK) -> AwaitedError:
    """Run the step once, until it waits."""
    with pytest.raises(AwaitedError) as caught:
        run_task(world.make_context(), asked)
    return caught.value


def answer(world: World, *, succeeded: bool, **told: object) -> None:
    """Let the task end."""
    assert world.waits.wait is not None
    world.waits.keep([Answer(world.waits.wait.token, succeeded, **told)])  # type: ignore[arg-type]


def test_task_is_sent_with_what_its_answer_must_carry(world: World):
    """
    What was sent, and until when its end is waited for, is known meanwhile.
    """
    awaited = send(world)

    (sent,) = world.tasks.sent
    assert world.waits.wait is not None
    assert (world.waits.wait.token, True) == (sent.token, sent.with_value)
    assert NOW + WITHIN == awaited.deadline
    assert "reports" == awaited.result["queue"]
    assert "2026-11-23T07:00:00+00:00" == awaited.result["waits_until"]


def test_step_that_runs_before_there_is_an_answer_sends_nothing(world: World):
    """
    Somebody may wake it early.
    """
    send(world)
    send(world)

    assert 1 == len(world.tasks.sent)


def test_success_brings_what_the_task_returned(world: World):
    """
    And what is to be said of it.
    """
    send(world)
    answer(world, succeeded=True, returned={"rows": 3}, note="cut")

    result = run_task(world.make_context(), TASK)

    assert ({"rows": 3}, "cut") == (result["returned"], result["note"])
    assert 1 == len(world.tasks.sent)


def test_failure_is_permanent(world: World):
    """
    Its own retries are over.
    """
    send(world)
    answer(world, succeeded=False)

    with pytest.raises(StepError, match=r"shop.report failed") as caught:
        run_task(world.make_context(), TASK)

    assert caught.value.permanent


def test_failure_says_why_if_its_results_do(world: World):
    """
    Without a result backend, the log of the worker is named.
    """
    send(world)
    answer(world, succeeded=False)
    with pytest.raises(StepError, match="failed: the log of its worker says why"):
        run_task(world.make_context(), TASK)
    world.tasks.failures[world.tasks.sent[0].id] = "ValueError: no such shop"

    with pytest.raises(StepError, match=r"shop.report failed: ValueError: no such"):
        run_task(world.make_context(), TASK)


def test_answer_of_another_token_changes_nothing(world: World):
    """
    Whoever else uses the broker does not know the token.
    """
    send(world)
    world.waits.keep([Answer(uuid4(), succeeded=True)])

    send(world)


def test_broker_is_asked_once_more_at_the_deadline(world: World):
    """
    No scheduler may have listened for an hour; the answer lies there.
    """
    send(world)
    assert world.waits.wait is not None
    world.tasks.answers = [Answer(uuid4(), succeeded=True)]
    world.tasks.answers += [Answer(world.waits.wait.token, succeeded=True, returned=1)]
    world.waits.now = NOW + WITHIN

    assert 1 == run_task(world.make_context(), TASK)["returned"]


def test_nothing_in_time_fails_and_says_where_to_look(world: World):
    """
    For good: the task may still run.
    """
    asked = TASK.model_copy(update={"within": "PT10M"})
    send(world, asked)
    world.waits.now = NOW + timedelta(minutes=10)

    with pytest.raises(StepError, match=r"within PT10M; look at the log") as caught:
        run_task(world.make_context(), asked)

    assert caught.value.permanent
    assert 1 == len(world.tasks.sent)


AWAY = PlatformError("our broker does not give the answers of tasks: refused")


def look(world: World, *, at: datetime) -> AwaitedError:
    """Run the step at an instant, at which it waits."""
    world.waits.now = at
    with pytest.raises(AwaitedError) as caught:
        run_task(world.make_context(now=at), TASK)
    return caught.value


def test_broker_that_is_away_at_the_deadline_is_waited_for(world: World):
    """
    The answer may lie there; what is waited for is told.
    """
    send(world)
    assert world.waits.wait is not None
    world.tasks.error = AWAY
    deadline = NOW + WITHIN

    awaited = look(world, at=deadline)
    world.tasks.error = None
    world.tasks.answers = [Answer(world.waits.wait.token, succeeded=True, returned=1)]
    result = run_task(world.make_context(now=awaited.deadline), TASK)

    assert deadline + LOOK_AGAIN == awaited.deadline
    assert "our broker does not give the answers" in str(awaited)
    assert 1 == result["returned"]


def test_worker_has_time_to_answer_when_the_broker_is_back(world: World):
    """
    It may have been cut off as we were.
    """
    send(world)
    world.tasks.error = AWAY
    deadline = NOW + WITHIN
    look(world, at=deadline)
    world.tasks.error = None

    awaited = look(world, at=deadline + LOOK_AGAIN)
    assert deadline + GRACE == awaited.deadline
    world.waits.now = awaited.deadline
    with pytest.raises(StepError, match="nothing told of the end") as caught:
        run_task(world.make_context(now=awaited.deadline), TASK)

    assert caught.value.permanent


def test_broker_that_stays_away_is_waited_for_within_bounds(world: World):
    """
    Then the operation fails, and says so.
    """
    send(world)
    world.tasks.error = AWAY
    bound = NOW + WITHIN + LISTEN_AFTER

    awaited = look(world, at=bound - LOOK_AGAIN / 2)
    assert bound == awaited.deadline
    world.waits.now = bound
    with pytest.raises(StepError, match=r"within PT1H; our broker does not") as caught:
        run_task(world.make_context(now=bound), TASK)

    assert caught.value.permanent


def test_connection_that_is_gone_is_not_waited_for(world: World):
    """
    Nothing can come over it any more.
    """
    send(world)
    world.tasks.error = StepError("'shop' is not a connection", permanent=True)
    world.waits.now = NOW + WITHIN

    with pytest.raises(StepError, match=r"within PT1H; 'shop' is not") as caught:
        run_task(world.make_context(now=NOW + WITHIN), TASK)

    assert caught.value.permanent


def test_worker_that_dies_after_sending_sends_again_under_one_token(world: World):
    """
    So the answer to either copy counts.
    """
    send(world)
    assert world.waits.wait is not None
    token = world.waits.wait.token
    world.waits.begin(world.tasks.sent[0], WITHIN, token)  # not marked as sent

    send(world)

    assert [token, token] == [each.token for each in world.tasks.sent]
    assert 1 == len({each.id for each in world.tasks.sent})


def test_stored_document_does_not_wait(world: World):
    """
    What was posted before means what it meant.
    """
    asked = RunTaskModel(name="shop.report", queue="reports")

    assert "returned" not in run_task(world.make_context(), asked)
    assert world.tasks.sent[0].token is None
