"""run_task that waits for the end of its task, on fakes."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest

from models.errors import AwaitedError, StepError
from models.run_task import WITHIN, RunTaskModel
from operations.foreign_tasks import Answer
from operations.steps.run_task import run_task
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
    world.waits.keep(Answer(world.waits.wait.token, succeeded, **told))  # type: ignore[arg-type]


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


def test_answer_of_another_token_changes_nothing(world: World):
    """
    Whoever else uses the broker does not know the token.
    """
    send(world)
    world.waits.keep(Answer(uuid4(), succeeded=True))

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


@pytest.mark.parametrize("is_away", [False, True])
def test_nothing_in_time_fails_and_says_where_to_look(world: World, *, is_away: bool):
    """
    Also if the broker cannot be asked any more.
    """
    asked = TASK.model_copy(update={"within": "PT10M"})
    send(world, asked)
    world.waits.now = NOW + timedelta(minutes=10)
    if is_away:
        world.tasks.error = StepError("away", permanent=False)

    with pytest.raises(StepError, match=r"within PT10M; look at the log") as caught:
        run_task(world.make_context(), asked)

    assert caught.value.permanent
    assert 1 == len(world.tasks.sent)


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
