"""A worker's claim: one winner, and nothing is written without its token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from models.back_off import LEASE
from models.database.engine import writing
from models.database.transaction import AtOnce
from models.errors import CanceledError, ClaimLostError
from models.operation_state import OperationState, Overlap, Queue
from operations.cancel_and_retry import cancel, reopen
from operations.claiming.claim import (
    await_task,
    claim_operation,
    finish,
    give_back,
    guard,
    renew,
    retry_later,
)
from operations.claiming.claimed import Claim
from operations.rescue import give_back_all
from operations.sending.order import fetch_sendable, mark_sent
from tests.database import race, read_by, write_by
from tests.scheduling import (
    HOUR,
    MINUTE,
    REFRESH,
    SECOND,
    add_revision,
    add_runs,
    edit,
    edit_action,
    expire,
    find_sendable,
    get,
    get_now,
    get_steps,
    make_operation,
    must_claim,
    post,
    put,
    record_all,
)

PAST, FUTURE = -SECOND, HOUR

DAILY = make_operation()


@pytest.fixture
def recorded(engine: sa.Engine) -> sa.Engine:
    """Give a database in which DAILY waits to run."""
    add_runs(engine, DAILY)
    return engine


def take(engine: sa.Engine, operation_id: UUID = DAILY.id) -> Claim | None:
    return claim_operation(engine, operation_id, worker="w")


def race_to_take(engine: sa.Engine, ids: Sequence[UUID]) -> list[Claim]:
    """Take these in many threads at once; return the claims won."""
    won = race(len(ids), lambda number: take(engine, ids[number]))
    return [claim for claim in won if claim is not None]


def test_claim_says_what_to_do(recorded: sa.Engine):
    """The claim carries the action as it was when the occurrence was recorded."""
    post(recorded, replace_it=True, uid="daily", operations=REFRESH)

    claim = must_claim(recorded, DAILY.id, worker="celery@host")

    assert (1, 3, "daily", True) == (
        claim.attempt,
        claim.attempts_allowed,
        claim.action_uid,
        claim.action_active,
    )
    assert {"run_task"} == {
        name for name, step in claim.document["operations"].items() if step
    }
    assert DAILY.occurrence == claim.occurrence
    row = get(recorded, DAILY.id)
    assert ("running", "celery@host", claim.token) == (
        row.state,
        row.worker,
        row.claim_token,
    )
    assert LEASE == pytest.approx(row.lease_expires_at - row.started_at, abs=SECOND)


@pytest.mark.parametrize(
    ("row", "wins"),
    [
        ({"state": "pending"}, True),
        ({"state": "queued"}, True),
        ({"state": "pending", "send_at": FUTURE}, False),
        ({"state": "queued", "send_at": FUTURE}, True),  # the clock was set back
        ({"state": "running", "lease_expires_at": FUTURE}, False),
        ({"state": "running", "lease_expires_at": PAST}, True),
        ({"state": "running", "lease_expires_at": PAST, "attempt": 3}, False),
        ({"state": "queued", "attempt": 2}, True),
        ({"state": "queued", "attempt": 3}, False),
        ({"state": "queued", "attempt": 3, "attempts_allowed": 6}, True),
        ({"state": "succeeded"}, False),
        ({"state": "failed"}, False),
        ({"state": "canceled"}, False),
        ({"state": "skipped"}, False),
        ({"state": "missed"}, False),
    ],
)
def test_claim_wins_what_may_run_now(
    recorded: sa.Engine, row: dict[str, object], *, wins: bool
):
    """What waits and is due, or whose worker is lost, with attempts left."""
    now = get_now(recorded)
    values = {
        name: now + value if isinstance(value, timedelta) else value
        for name, value in row.items()
    }
    edit(recorded, DAILY.id, **values)
    before = get(recorded, DAILY.id)

    claim = take(recorded)

    assert wins == (claim is not None)
    if claim is None:
        assert before == get(recorded, DAILY.id)
    else:
        assert before.attempt + 1 == claim.attempt


def test_unknown_operation_is_not_claimed(engine: sa.Engine):
    """A message for a row that is not there is dropped."""
    assert take(engine) is None


def test_one_of_twenty_claimers_wins(postgres_engine: sa.Engine):
    """
    Copies of a message that arrive together start one attempt; after the lease ran out
    one worker goes on, not several.
    """
    add_runs(postgres_engine, DAILY)
    first = race_to_take(postgres_engine, [DAILY.id] * 20)
    expire(postgres_engine, DAILY.id)
    second = race_to_take(postgres_engine, [DAILY.id] * 20)

    assert [1, 2] == [claim.attempt for claim in (*first, *second)]
    assert 2 == get(postgres_engine, DAILY.id).attempt


def test_one_heavy_operation_of_an_app_runs(postgres_engine: sa.Engine):
    """Of many claims at once on those of one app one wins; other apps go on."""
    add_revision(postgres_engine, operations=REFRESH)
    mine = [make_operation(n, queue=Queue.HEAVY) for n in range(8)]
    other = make_operation(9, queue=Queue.HEAVY, app="other")
    record_all(postgres_engine, *mine, other)
    must_claim(postgres_engine, other.id)

    won = race_to_take(postgres_engine, [each.id for each in mine])

    assert 1 == len(won)


def test_heavy_operation_waits_for_the_running_one(engine: sa.Engine):
    """The message is dropped; the operation is sent again when it can run."""
    add_revision(engine, operations=REFRESH)
    first, second = (make_operation(n, queue=Queue.HEAVY) for n in (1, 2))
    quick = make_operation(3)
    record_all(engine, first, second, quick)
    edit(engine, second.id, state="queued")
    claim = must_claim(engine, first.id)

    assert take(engine, second.id) is None
    assert ("pending", 0) == (
        get(engine, second.id).state,
        get(engine, second.id).attempt,
    )
    assert take(engine, quick.id) is not None

    write_by(engine, finish, claim, OperationState.SUCCEEDED)
    assert take(engine, second.id) is not None


IN_LINE: dict[str, Any] = {"overlap": Overlap.QUEUE}


@pytest.mark.parametrize("user_id", [None, "ann"])
def test_two_of_a_line_never_run_at_once(engine: sa.Engine, user_id: str | None):
    """
    The second is recorded as sent, by whatever message; it waits for the end of the
    first, is sent again then, and keeps nobody else waiting.
    """
    add_revision(engine)
    first, second = (make_operation(n, user_id=user_id, **IN_LINE) for n in (1, 2))
    others = [
        make_operation(3, user_id="bob", **IN_LINE),
        make_operation(4, action_uid="other", user_id=user_id, **IN_LINE),
    ]
    record_all(engine, first, second, *others)
    edit(engine, second.id, state="queued")
    claim = must_claim(engine, first.id)

    assert take(engine, second.id) is None
    row = get(engine, second.id)
    assert ("pending", 0) == (row.state, row.attempt)
    assert all(take(engine, each.id) is not None for each in others)

    write_by(engine, finish, claim, OperationState.SUCCEEDED)
    assert [second.id] == find_sendable(engine)
    assert take(engine, second.id) is not None


def _leave_pending() -> dict[str, Callable[[sa.Engine, Claim], object]]:
    def retry(engine: sa.Engine, claim: Claim) -> None:
        write_by(engine, retry_later, claim, delay=FUTURE, error="busy")

    def await_it(engine: sa.Engine, claim: Claim) -> None:
        write_by(engine, await_task, claim, within=FUTURE, what="a task")

    def stop_worker(engine: sa.Engine, _claim: Claim) -> None:
        assert 1 == write_by(engine, give_back_all, worker_suffix="w")

    return {
        "given back": give_back,
        "worker stopped": stop_worker,
        "retry": retry,
        "task": await_it,
    }


@pytest.mark.parametrize("how", _leave_pending())
def test_what_has_begun_keeps_its_place_in_line(engine: sa.Engine, how: str):
    """
    Whatever makes it pending, and however long it waits: the next one is neither sent
    nor claimed, though it was to be sent before.
    """
    add_revision(engine)
    first, second = (make_operation(n, **IN_LINE) for n in (1, 2))
    record_all(engine, first, second)
    claim = must_claim(engine, first.id)

    _leave_pending()[how](engine, claim)
    edit(engine, second.id, state="queued")

    assert take(engine, second.id) is None
    assert "pending" == get(engine, second.id).state
    edit(engine, first.id, send_at=get_now(engine))
    # What waits for its task is neither sent nor claimed: its answer ends it.
    next_up = [] if how == "task" else [first.id]
    assert next_up == find_sendable(engine)
    assert (how == "task") is (take(engine, first.id) is None)


def test_what_is_tried_again_goes_before_what_was_recorded_later(engine: sa.Engine):
    """
    A failed run that somebody retries has its old place; a task that is waited for
    ends first all the same, or two of the line would have begun.
    """
    add_revision(engine)
    first, second, third = (make_operation(n, **IN_LINE) for n in (1, 2, 3))
    record_all(engine, first, second, third)
    edit(engine, first.id, state="failed")
    claim = must_claim(engine, second.id)
    _leave_pending()["task"](engine, claim)
    write_by(engine, reopen, first.id)
    assert [] == find_sendable(engine)
    edit(engine, second.id, state="succeeded", reason=None)

    sent = []
    while ids := find_sendable(engine):
        claim = must_claim(engine, *ids)
        write_by(engine, finish, claim, OperationState.SUCCEEDED)
        sent += ids

    assert [first.id, third.id] == sent


def test_one_of_a_line_runs(postgres_engine: sa.Engine):
    """Of many claims at once the first of the line wins, or nobody, for now."""
    add_revision(postgres_engine)
    line = [make_operation(n, **IN_LINE) for n in range(8)]
    record_all(postgres_engine, *line)

    won = race_to_take(postgres_engine, [each.id for each in line])

    assert [line[0].id] == [claim.operation_id for claim in won]


def test_index_guards_the_line(engine: sa.Engine):
    """Even a claim that has not seen another one commit cannot stand beside it."""
    add_revision(engine)
    line = [make_operation(n, **IN_LINE) for n in (1, 2)]
    of_users = [make_operation(n, user_id="ann", **IN_LINE) for n in (1, 2)]
    record_all(engine, *line, *of_users)
    for first, second in (line, of_users):
        must_claim(engine, first.id)
        with pytest.raises(sa.exc.IntegrityError):
            edit(engine, second.id, state="running", claim_token=uuid4())


def test_message_that_is_dropped_before_it_is_marked_is_sent_again(engine: sa.Engine):
    """A worker may be faster than the leader, which marks later what it has sent."""
    add_revision(engine, operations=REFRESH)
    waiting = put(engine, 1, queue=Queue.HEAVY)
    [message] = read_by(engine, fetch_sendable, limit=10)
    running = put(engine, 2, queue=Queue.HEAVY)
    claim = must_claim(engine, running)

    assert take(engine, waiting) is None
    with writing(engine) as connection:
        mark_sent(AtOnce(connection), [message])
        finish(connection, claim, OperationState.SUCCEEDED)

    assert [waiting] == find_sendable(engine)
    row = get(engine, waiting)
    assert ("pending", 1) == (row.state, row.sends)


def test_lost_heavy_operation_is_taken_over(engine: sa.Engine):
    """The one heavy operation that runs is no obstacle to itself."""
    add_revision(engine, operations=REFRESH)
    heavy = put(engine, queue=Queue.HEAVY)
    must_claim(engine, heavy)
    expire(engine, heavy)

    assert 2 == must_claim(engine, heavy).attempt


def test_claim_knows_that_the_action_is_gone(recorded: sa.Engine):
    """Deleted and deactivated actions are told apart."""
    edit_action(recorded, "daily", active=False)
    assert must_claim(recorded, DAILY.id).action_active is False
    expire(recorded, DAILY.id)
    write_by(recorded, delete_action, "daily")

    claim = must_claim(recorded, DAILY.id)

    assert claim.action_active is None
    assert "daily" == claim.document["name"]


def fetch_states(engine: sa.Engine) -> list[tuple[str, str, int, bool]]:
    found = get_steps(engine, DAILY.id)
    return [(s.name, s.state, s.attempt, s.started_at is not None) for s in found]


def test_first_claim_starts_the_first_step(engine: sa.Engine):
    """The steps are there with the claim, in their order, not the document's."""
    steps = {"run_task": {"name": "t"}, "publish": {"data": True}, "refresh": True}
    add_runs(engine, DAILY, operations=steps)

    claim = must_claim(engine, DAILY.id)

    expected = [("refresh", "running", 1, True)]
    expected += [(name, "pending", 0, False) for name in ("publish", "run_task")]
    assert expected == fetch_states(engine)
    assert 3 == claim.begun


@pytest.mark.parametrize("why", ["deleted", "inactive", "later attempt", "absence"])
def test_claim_that_must_look_first_begins_nothing_itself(engine: sa.Engine, why: str):
    """What may not run, was begun before, or depends on a user: the worker looks."""
    seen = {"after": "instance.user.last_seen", "delay": "PT1H"}
    changes: dict[str, Any] = {"when": seen} if why == "absence" else {}
    add_runs(engine, DAILY, **changes)
    if why == "deleted":
        write_by(engine, delete_action, "daily")
    elif why == "inactive":
        edit_action(engine, "daily", active=False)
    elif why == "later attempt":
        edit(engine, DAILY.id, attempt=1)

    claim = must_claim(engine, DAILY.id)

    assert 0 == claim.begun
    assert [] == fetch_states(engine)


def test_steps_of_a_claim_that_was_given_back_stay(engine: sa.Engine):
    """The attempt counts as none, so the next is a first one: it begins no step."""
    add_runs(engine, DAILY)
    before = must_claim(engine, DAILY.id)
    states = fetch_states(engine)
    give_back(engine, before)

    claim = must_claim(engine, DAILY.id)

    assert (1, 0) == (claim.attempt, claim.begun)
    assert states == fetch_states(engine)


def _writes() -> dict[str, Callable[[sa.Connection, Claim], object]]:
    return {
        "guard": guard,
        "finish": lambda c, claim: finish(c, claim, OperationState.SUCCEEDED),
        "retry": lambda c, claim: retry_later(c, claim, delay=SECOND, error="x"),
    }


@pytest.mark.parametrize("name", list(_writes()))
@pytest.mark.parametrize("how", ["taken over", "finished", "canceled", "pending"])
def test_nothing_is_written_without_the_token(recorded: sa.Engine, name: str, how: str):
    """A worker that was overtaken changes nothing when it wakes."""
    stale = must_claim(recorded, DAILY.id)
    expire(recorded, DAILY.id)
    if how == "canceled":
        write_by(recorded, cancel, DAILY.id, reason="canceled")
    elif how == "pending":
        edit(recorded, DAILY.id, state="pending", claim_token=None)
    else:
        claim = must_claim(recorded, DAILY.id)
        if how == "finished":
            write_by(recorded, finish, claim, OperationState.SUCCEEDED)
    before = get(recorded, DAILY.id)

    with writing(recorded) as connection:
        if name == "guard":
            error = CanceledError if how == "canceled" else ClaimLostError
            with pytest.raises(error):
                guard(connection, stale)
        else:
            assert not _writes()[name](connection, stale)
    # What was canceled stays claimed until its worker has stopped; nothing else does.
    kept = {stale.token} if how == "canceled" else set()
    assert before == get(recorded, DAILY.id)
    assert kept == renew(recorded, {stale.token})
    assert not give_back(recorded, stale)
    row = get(recorded, DAILY.id)
    left = None if how == "canceled" else before.claim_token
    assert (before.state, left) == (row.state, row.claim_token)


def test_guard_extends_the_lease_by_as_much_as_was_claimed(recorded: sa.Engine):
    """A lease from the settings stays what it is, whoever renews it."""
    lease = 10 * MINUTE
    claim = must_claim(recorded, DAILY.id, lease=lease)
    expire(recorded, DAILY.id)

    now = write_by(recorded, guard, claim)

    expires_at = get(recorded, DAILY.id).lease_expires_at
    assert lease == pytest.approx(expires_at - now, abs=SECOND)


def test_renewal_tells_which_claims_are_left(recorded: sa.Engine):
    """One statement for all that a process runs."""
    other = put(recorded, 1)
    mine, theirs = must_claim(recorded, DAILY.id), must_claim(recorded, other)
    write_by(recorded, finish, theirs, OperationState.SUCCEEDED)
    expire(recorded, DAILY.id)

    claim = renew(recorded, {mine.token, theirs.token}, lease=5 * MINUTE)

    assert {mine.token} == claim
    assert get(recorded, DAILY.id).lease_expires_at > get_now(recorded)
    assert set() == renew(recorded, [])


def test_lost_worker_that_was_only_slow_goes_on(recorded: sa.Engine):
    """While nobody took over, a late renewal keeps the claim."""
    claim = must_claim(recorded, DAILY.id)
    expire(recorded, DAILY.id)

    assert {claim.token} == renew(recorded, {claim.token})
    assert take(recorded) is None


def test_given_back_operation_counts_no_attempt(recorded: sa.Engine):
    """A worker that stops puts the operation back as if it had never claimed it."""
    claim = must_claim(recorded, DAILY.id)

    assert give_back(recorded, claim)

    row = get(recorded, DAILY.id)
    assert ("pending", 0, None, None) == (
        row.state,
        row.attempt,
        row.claim_token,
        row.lease_expires_at,
    )
    assert 1 == must_claim(recorded, DAILY.id).attempt


def test_retry_waits_for_its_time(recorded: sa.Engine):
    """A stale message does not cut the pause short."""
    claim = must_claim(recorded, DAILY.id)
    write_by(recorded, retry_later, claim, delay=HOUR, error="no network")

    row = get(recorded, DAILY.id)

    assert ("pending", "step failed", "no network") == (
        row.state,
        row.reason,
        row.error,
    )
    assert row.send_at > get_now(recorded) + 59 * MINUTE
    assert take(recorded) is None
