"""What a worker writes for its processes that were killed."""

from __future__ import annotations

from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.tables import deliveries
from models.operation_state import MailState, OperationState, Reason, StepState
from operations.cancel_and_retry import reopen
from operations.claiming.claim import finish, renew
from operations.claiming.claimed import Claim
from operations.mail.delivery_marks import DeliveryMarks
from operations.rescue import (
    count_kill,
    expire_claim,
    fail_at_time_limit,
    give_back_all,
    reclaim_lost_workers,
)
from tests.database import fetch_rows, write_by
from tests.scheduling import add_runs, edit, get, get_steps, make_operation, must_claim

OURS, THEIRS = "(1234abcd)", "(0000ffff)"
DAILY = make_operation()
STEPS = {"send_email": {"template": "t"}, "run_task": {"name": "t"}}


@pytest.fixture
def claim(engine: sa.Engine) -> Claim:
    """Give a claim of a process of ours, which is sending a mail."""
    add_runs(engine, DAILY, operations=STEPS)
    claim = must_claim(engine, DAILY.id, worker=f"celery@host {OURS}")
    DeliveryMarks(engine, claim, "send_email").start("ada")
    return claim


def fetch_mark(engine: sa.Engine) -> str:
    return str(fetch_rows(engine, sa.select(deliveries.c.state)).scalar_one())


def fetch_step_states(engine: sa.Engine) -> list[str]:
    return [step.state for step in get_steps(engine, DAILY.id)]


def test_time_limit_makes_an_operation_final(engine: sa.Engine, claim: Claim):
    """With its reason, its steps closed, and the mail under way uncertain."""
    done = write_by(engine, fail_at_time_limit, DAILY.id, worker_suffix=OURS)
    row = get(engine, DAILY.id)

    assert done == 1
    assert (row.state, row.reason) == (OperationState.FAILED, Reason.TIME_LIMIT)
    assert fetch_step_states(engine) == [StepState.FAILED, StepState.SKIPPED]
    assert fetch_mark(engine) == MailState.UNCERTAIN
    assert renew(engine, [claim.token]) == set()


def test_expired_claim_is_reclaimed_at_the_next_look(engine: sa.Engine, claim: Claim):
    """As if the lease had run out; it counts as an attempt."""
    done = write_by(engine, expire_claim, DAILY.id, worker_suffix=OURS)
    reclaimed = write_by(engine, reclaim_lost_workers)
    row = get(engine, DAILY.id)

    assert (done, reclaimed) == (1, (1, 0))
    assert (row.state, row.attempt) == (OperationState.PENDING, 1)
    assert renew(engine, [claim.token]) == set()


def test_stopping_worker_gives_back_what_it_ran(engine: sa.Engine, claim: Claim):
    """It is pending at once, and nothing was attempted."""
    done = write_by(engine, give_back_all, worker_suffix=OURS)
    row = get(engine, DAILY.id)

    assert done == 1
    assert (row.state, row.attempt) == (OperationState.PENDING, 0)
    assert renew(engine, [claim.token]) == set()


def settle_all(connection: sa.Connection, suffix: str, operation_id: UUID) -> int:
    """Do all three; return how many took effect."""
    return (
        fail_at_time_limit(connection, operation_id, worker_suffix=suffix)
        + expire_claim(connection, operation_id, worker_suffix=suffix)
        + give_back_all(connection, worker_suffix=suffix)
    )


def take_again(engine: sa.Engine) -> Claim:
    """Let the leader find the lost one, and another process of ours take it."""
    write_by(engine, reclaim_lost_workers)
    edit(engine, DAILY.id, send_at=get(engine, DAILY.id).recorded_at)
    return must_claim(engine, DAILY.id, worker=f"celery@host {OURS}")


def kill(engine: sa.Engine) -> int:
    return write_by(
        engine, count_kill, DAILY.id, worker_suffix=OURS, cause="out of memory"
    )


def test_second_kill_is_final(engine: sa.Engine, claim: Claim):
    """Although an attempt is left: the third process would die of it, too."""
    del claim  # whose process is killed
    first = kill(engine)
    again = take_again(engine)
    second = kill(engine)
    row = get(engine, DAILY.id)

    assert (1, 1) == (first, second)
    assert (OperationState.FAILED, 2) == (row.state, row.attempt)
    assert row.reason == f"{Reason.PROCESS_KILLED}: out of memory"
    assert "operations retry" in str(row.error)
    assert fetch_step_states(engine) == [StepState.FAILED, StepState.SKIPPED]
    assert renew(engine, [again.token]) == set()


def test_retry_after_two_kills_begins_anew(engine: sa.Engine, claim: Claim):
    """With more memory it may go well, and one death is not held against it."""
    del claim
    kill(engine)
    take_again(engine)
    kill(engine)
    assert write_by(engine, reopen, DAILY.id)
    take_again(engine)
    kill(engine)
    take_again(engine)

    assert get(engine, DAILY.id).state == OperationState.RUNNING


def test_nothing_of_another_run_is_touched(engine: sa.Engine, claim: Claim):
    """Two workers may have one node name, and a worker has it again after a restart."""
    done = write_by(engine, settle_all, THEIRS, DAILY.id)

    assert done == 0
    assert renew(engine, [claim.token]) == {claim.token}


def test_nothing_that_ended_is_touched(engine: sa.Engine, claim: Claim):
    """The process may have been killed after its last write."""
    write_by(engine, finish, claim, OperationState.SUCCEEDED)
    done = write_by(engine, settle_all, OURS, DAILY.id)

    assert (done, kill(engine)) == (0, 0)
    assert get(engine, DAILY.id).state == OperationState.SUCCEEDED
