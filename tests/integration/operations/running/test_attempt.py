"""How long the next attempt waits, and what counts as none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from itertools import count

import pytest
import sqlalchemy as sa

from models.back_off import LOSS_DELAY, RETRY_DELAY
from models.database.engine import make_engine
from models.errors import PlatformError, StepError, UnreachableError
from operations.cancel_and_retry import reopen
from operations.claiming.claim import postpone
from operations.operation_log import LONGEST_ERROR, fetch_log
from operations.ports import Ports, StepContext, StepResult
from operations.rescue import reclaim_lost_workers
from operations.running.attempt import PLATFORM_DELAY, PLATFORM_DELAY_LIMIT, Attempt
from operations.running.past_attempts import MOST_KEPT, read_attempts
from tests.database import fetch_rows, read_by, write_by
from tests.scheduling import (
    MINUTE,
    SECOND,
    add_runs,
    edit,
    expire,
    get,
    get_now,
    get_steps,
    make_operation,
    must_claim,
    run_attempt,
)

DAILY = make_operation()


def fail(_context: StepContext, _arguments: object) -> StepResult:
    """Fail as what may pass does."""
    raise StepError("no network", permanent=False)


def end_by_failure(engine: sa.Engine, ports: Ports) -> None:
    """Make an attempt whose step fails."""
    run_attempt(engine, DAILY.id, ports, steps={"run_task": fail})


def end_by_loss(engine: sa.Engine, _ports: Ports) -> None:
    """Make an attempt whose worker dies."""
    must_claim(engine, DAILY.id)
    expire(engine, DAILY.id)
    write_by(engine, reclaim_lost_workers)


def spend_attempts(
    engine: sa.Engine,
    ports: Ports,
    end: Callable[[sa.Engine, Ports], None],
    expected: Sequence[timedelta],
) -> None:
    """End one attempt more than there are pauses, each of which is as *expected*."""
    for pause in expected:
        before = get_now(engine)
        end(engine, ports)
        send_at = get(engine, DAILY.id).send_at
        assert before <= send_at - pause <= get_now(engine)
        edit(engine, DAILY.id, send_at=before)
    end(engine, ports)
    assert "failed" == get(engine, DAILY.id).state


@pytest.mark.parametrize(
    ("end", "first"), [(end_by_failure, RETRY_DELAY), (end_by_loss, LOSS_DELAY)]
)
def test_pauses_begin_anew_after_a_retry(
    engine: sa.Engine,
    ports: Ports,
    end: Callable[[sa.Engine, Ports], None],
    first: timedelta,
):
    """They double within the three attempts that a retry gives, not beyond."""
    add_runs(engine, DAILY)
    for _retry in range(3):
        spend_attempts(engine, ports, end, [first, 2 * first])
        assert write_by(engine, reopen, DAILY.id)


@pytest.mark.parametrize("end", [end_by_failure, end_by_loss])
def test_an_action_says_how_often_and_after_what(
    engine: sa.Engine, ports: Ports, end: Callable[[sa.Engine, Ports], None]
):
    """Whatever ended an attempt; a retry by hand gives as many again."""
    add_runs(engine, DAILY._replace(attempts_allowed=4), retries=3, retry_after="PT1M")
    spend_attempts(engine, ports, end, [n * MINUTE for n in (1, 2, 4)])

    assert 4 == get(engine, DAILY.id).attempt
    assert write_by(engine, reopen, DAILY.id)
    assert 8 == get(engine, DAILY.id).attempts_allowed


def make_step(error: Exception | None) -> Callable[[StepContext, object], StepResult]:
    def run(_context: StepContext, _arguments: object) -> StepResult:
        if error is not None:
            raise error
        return {}

    return run


def attempt(engine: sa.Engine, ports: Ports, error: Exception | None) -> str | None:
    """Make an attempt whose step meets *error*; return the state it leaves."""
    edit(engine, DAILY.id, send_at=get_now(engine) - SECOND)
    return run_attempt(engine, DAILY.id, ports, steps={"run_task": make_step(error)})


@pytest.mark.parametrize(
    "error",
    [
        PlatformError("the workspace /data is full"),
        UnreachableError("the workspace /data is full"),
    ],
)
def test_trouble_of_the_platform_counts_as_no_attempt(
    engine: sa.Engine, ports: Ports, error: Exception
):
    """It waits twice as long each time, up to a limit, and says for what."""
    add_runs(engine, DAILY)
    pauses = []
    for _ in range(7):
        before = get_now(engine)
        state = attempt(engine, ports, error)
        row = get(engine, DAILY.id)
        pauses.append(round((row.send_at - before) / PLATFORM_DELAY))
        assert ("pending", "pending", 0) == (state, row.state, row.attempt)
        assert "platform: the workspace /data is full" == row.reason
        assert "run_task: the workspace /data is full" == row.error

    limit = PLATFORM_DELAY_LIMIT // PLATFORM_DELAY
    assert [1, 2, 4, 8, limit, limit, limit] == pauses
    assert "succeeded" == attempt(engine, ports, None)
    row = get(engine, DAILY.id)
    assert ("succeeded", None, None, 1) == (
        row.state,
        row.reason,
        row.error,
        row.attempt,
    )


def test_trouble_of_the_platform_leaves_the_attempts_of_a_step(
    engine: sa.Engine, ports: Ports
):
    """An operation that fails by itself in between fails after its three attempts."""
    add_runs(engine, DAILY)
    full, failed = PlatformError("full"), StepError("no network", permanent=False)

    states = [
        attempt(engine, ports, each)
        for each in (full, failed, full, failed, full, full, failed)
    ]

    assert [*["pending"] * 6, "failed"] == states
    assert 3 == get(engine, DAILY.id).attempt


def test_database_that_restarts_meanwhile_costs_no_second_run(
    postgres_engine: sa.Engine, postgres_url: str, ports: Ports
):
    """The session that is kept ends with it; another writes the step's end."""
    add_runs(postgres_engine, DAILY)
    ran = []

    def restart(context: StepContext, _arguments: object) -> StepResult:
        ran.append(context.operation_id)
        kept = fetch_rows(postgres_engine, sa.select(sa.func.pg_backend_pid())).scalar()
        other = make_engine(postgres_url)
        assert fetch_rows(other, sa.func.pg_terminate_backend(kept, 10_000)).scalar()
        other.dispose()
        return {}

    claim = must_claim(postgres_engine, DAILY.id)
    done = Attempt(postgres_engine, claim, ports, steps={"run_task": restart})

    assert "succeeded" == done.run()
    assert [DAILY.id] == ran


def talk_and_lose_a_commit(
    engine: sa.Engine, ports: Ports, *, is_answer_alone: bool
) -> list[str]:
    """
    Return the log of two steps, of which each talks and then loses a commit.

    If *is_answer_alone*, the commit is done, and what is lost is its answer.
    """
    add_runs(engine, DAILY, operations={"refresh": True, "publish": True})

    def talk(context: StepContext, _arguments: object) -> StepResult:
        def lose(connection: sa.Connection) -> None:
            if is_answer_alone:
                connection.connection.commit()
            raise UnreachableError("the session is gone")

        context.say("one")
        context.say("two")
        sa.event.listen(engine, "commit", lose, once=True)
        return {}

    claim = must_claim(engine, DAILY.id)
    done = Attempt(engine, claim, ports, steps={"refresh": talk, "publish": talk})

    assert "succeeded" == done.run()
    return [f"{each.step} {each.text}" for each in read_by(engine, fetch_log, DAILY.id)]


@pytest.mark.parametrize("is_answer_alone", [False, True])
def test_lines_outlast_a_commit_that_fails(
    engine: sa.Engine, ports: Ports, *, is_answer_alone: bool
):
    """The second writing has them too, unless they were written after all."""
    told = talk_and_lose_a_commit(engine, ports, is_answer_alone=is_answer_alone)

    assert ["refresh one", "refresh two", "publish one", "publish two"] == told


def test_what_was_put_back_is_no_longer_ours(engine: sa.Engine):
    """A worker that was overtaken postpones nothing."""
    add_runs(engine, DAILY)
    claim = must_claim(engine, DAILY.id)

    def put_back() -> bool:
        return write_by(
            engine, postpone, claim, delay=SECOND, reason="platform: x", error="x"
        )

    assert [True, False] == [put_back(), put_back()]
    assert 0 == get(engine, DAILY.id).attempt


def succeed(_context: StepContext, _arguments: object) -> StepResult:
    """Take no time."""
    return {}


def test_step_starts_when_the_former_has_finished(engine: sa.Engine, ports: Ports):
    """Not a moment before, though one transaction ends the one and starts the other."""
    add_runs(engine, DAILY, operations={"refresh": True, "publish": True})
    claim = must_claim(engine, DAILY.id)
    steps = dict.fromkeys(("refresh", "publish"), succeed)

    Attempt(engine, claim, ports, steps=steps).run()

    former, following = get_steps(engine, DAILY.id)
    assert former.finished_at <= following.started_at


def test_step_is_told_the_time_at_which_it_begins(engine: sa.Engine, ports: Ports):
    """An hour of refresh makes no webhook old, and no publication early."""
    add_runs(engine, DAILY, operations={"refresh": True, "publish": True})
    claim = must_claim(engine, DAILY.id)
    seconds, told = count(0, 3600), list[timedelta]()

    def tell(context: StepContext, _arguments: object) -> StepResult:
        told.append(context.now - claim.claimed_at)
        return {}

    steps = dict.fromkeys(("refresh", "publish"), tell)

    Attempt(engine, claim, ports, steps=steps, monotonic=seconds.__next__).run()

    assert told[0] < told[1]


def test_attempts_that_did_not_succeed_are_kept(engine: sa.Engine, ports: Ports):
    """The step knows only the last; those before tell when, where and why."""
    add_runs(engine, DAILY)
    full = PlatformError("the disk is full")
    attempt(engine, ports, StepError("no network", permanent=False))
    attempt(engine, ports, full)
    attempt(engine, ports, StepError("no such user", permanent=True))

    details = get(engine, DAILY.id).details
    ended = read_attempts(details)

    assert all(each["ended_at"].endswith("Z") for each in details["attempts"])
    assert [
        (1, "failed", "no network"),
        (2, "postponed", "the disk is full"),
        (2, "failed", "no such user"),
    ] == [(each.number, each.outcome, each.error) for each in ended]
    assert all(
        each.step == "run_task"
        and each.step_began_at is not None
        and each.began_at <= each.step_began_at <= each.ended_at
        for each in ended
    )


def test_error_of_a_megabyte_is_cut(engine: sa.Engine, ports: Ports):
    """Wherever it is kept: lists fetch it with each row."""
    add_runs(engine, DAILY)
    attempt(engine, ports, StepError("x" * 2**20, permanent=True))

    row = get(engine, DAILY.id)
    (step,) = get_steps(engine, DAILY.id)
    assert len(row.error) < LONGEST_ERROR + 100
    assert len(step.error) <= LONGEST_ERROR
    assert row.error.endswith("(cut)")


def test_attempts_of_an_endless_wait_are_not_all_kept(engine: sa.Engine, ports: Ports):
    """A disk that is full for a week must not fill the database."""
    add_runs(engine, DAILY)
    for _attempt in range(MOST_KEPT + 2):
        attempt(engine, ports, PlatformError("the disk is full"))

    assert MOST_KEPT == len(read_attempts(get(engine, DAILY.id).details))
