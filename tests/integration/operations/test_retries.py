"""A retry may begin with a step that succeeded, and keeps to ``overlap``."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.posting.post import delete_action
from dispatch.manual_runs import run_now
from models.database.engine import Author, writing
from models.database.tables import deliveries, operation_steps
from models.errors import ConflictError, NotFoundError, StepError, UsageError
from models.operation_state import LIVE_STATES, OperationState, Overlap
from operations.cancel_and_retry import (
    cancel_or_refuse,
    get_live_beside,
    reopen,
    retry_or_refuse,
)
from operations.claiming.claim import claim_operation
from operations.claiming.claimed import RESENT_KEY, RETURN_KEY
from operations.ports import Ports, StepContext, StepResult
from operations.running.attempt import Attempt
from tests.database import execute, fetch_rows, note_statements, race, read_by, write_by
from tests.scheduling import (
    REFRESH,
    add_app,
    add_mails,
    add_runs,
    edit,
    fetch_all,
    fetch_noted,
    get,
    get_steps,
    make_operation,
    must_claim,
    post,
    record_all,
)

DAILY = make_operation()
STEPS = {
    "refresh": True,
    "publish": True,
    "send_email": {"template": "t"},
    "call_webhook": {"url": "https://example.com"},
}
NAMES = list(STEPS)
BY = Author("ann")
FAILED, OTHER = (make_operation(n, overlap=Overlap.SKIP) for n in (1, 2))


@pytest.fixture
def failed(engine: sa.Engine, ports: Ports) -> sa.Engine:
    """Give a database with an operation whose third step of four failed for good."""
    add_runs(engine, DAILY, operations=STEPS, recipients={"groups": ["all"]})
    assert [*NAMES[:3]] == run(engine, ports, failing="send_email")
    assert "failed" == get(engine, DAILY.id).state
    return engine


def run(engine: sa.Engine, ports: Ports, failing: str | None = None) -> list[str]:
    """Make an attempt; return the steps that ran."""
    ran: list[str] = []

    def make(name: str) -> object:
        def step(context: StepContext, _arguments: object) -> StepResult:
            ran.append(name)
            context.remember("seen", context.memo.get("seen") is not None)
            if name == failing:
                raise StepError("no such template", permanent=True)
            return {"ran": name}

        return step

    claim = must_claim(engine, DAILY.id)
    steps = {name: make(name) for name in NAMES}
    Attempt(engine, claim, ports, steps=steps).run()  # type: ignore[arg-type]
    return ran


def retry(engine: sa.Engine, step: str | None, *, app: str | None = None) -> None:
    with writing(engine, author=BY) as connection:
        retry_or_refuse(connection, DAILY.id, from_step=step, app=app)


def fetch_states(engine: sa.Engine) -> list[str]:
    return [each.state for each in get_steps(engine, DAILY.id)]


@pytest.mark.parametrize(
    ("step", "again"),
    [
        (None, NAMES[2:]),
        ("send_email", NAMES[2:]),
        ("publish", NAMES[1:]),
        ("refresh", NAMES),
    ],
)
def test_that_step_and_all_after_it_run_again(
    failed: sa.Engine, ports: Ports, step: str | None, again: list[str]
):
    """Without a step, it goes on where it failed, as ever."""
    retry(failed, step)

    assert "pending" == get(failed, DAILY.id).state
    assert again == run(failed, ports)
    assert "succeeded" == get(failed, DAILY.id).state
    assert ["succeeded"] * 4 == fetch_states(failed)


def test_steps_that_run_again_have_forgotten_what_they_did(failed: sa.Engine):
    """
    Their records are as before the first attempt; those before them stay, and so do the
    marks of mails: nobody gets one twice, however often its step runs.
    """
    add_mails(failed, DAILY.id, {"ann": "sent"})

    retry(failed, "publish")

    refresh, *others = get_steps(failed, DAILY.id)
    assert ("succeeded", {"ran": "refresh"}) == (refresh.state, refresh.result)
    for each in others:
        assert ("pending", 0) == (each.state, each.attempt)
        assert {None} == {
            *(each.started_at, each.finished_at, each.progress, each.memo),
            *(each.result, each.error),
        }
    states = fetch_rows(failed, sa.select(deliveries.c.state)).scalars().all()
    assert ["sent"] == states


def test_resend_that_failed_gives_way_to_a_retry_from_a_step(
    failed: sa.Engine, ports: Ports
):
    """The operation runs as a whole again, not only for the mails to resend."""
    former = {"state": "succeeded", "reason": None, "error": None}
    edit(failed, DAILY.id, details={RETURN_KEY: former, "force": False})
    execute(
        failed,
        sa.update(operation_steps)
        .where(operation_steps.c.name == "send_email")
        .values(memo={RESENT_KEY: {"to": ["ann"], "state": "succeeded"}}),
    )

    retry(failed, "publish")

    assert {"force": False} == get(failed, DAILY.id).details
    assert NAMES[1:] == run(failed, ports)
    assert "succeeded" == get(failed, DAILY.id).state


@pytest.mark.parametrize(
    ("step", "error", "message"),
    [
        ("refreshed", UsageError, "Did you mean 'refresh'?"),
        ("run_task", UsageError, "Its steps: refresh, publish, send_email,"),
        ("", UsageError, "has no step ''"),
        ("call_webhook", ConflictError, "'send_email', before 'call_webhook'"),
    ],
)
def test_step_that_cannot_be_the_first_is_refused(
    failed: sa.Engine, step: str, error: type[Exception], message: str
):
    """What it has not, and what needs a step before it that has not succeeded."""
    before = fetch_states(failed)

    with pytest.raises(error, match=message.replace("?", r"\?")):
        retry(failed, step)

    assert "failed" == get(failed, DAILY.id).state
    assert before == fetch_states(failed)


def test_operation_that_never_ran_has_the_steps_of_its_document(
    engine: sa.Engine, ports: Ports
):
    """Canceled before its first attempt, it can only begin with its first step."""
    add_runs(engine, DAILY, operations=STEPS, recipients={"groups": ["all"]})
    write_by(engine, cancel_or_refuse, DAILY.id)

    with pytest.raises(UsageError, match="Did you mean 'publish'"):
        retry(engine, "publishes")
    with pytest.raises(ConflictError, match="'refresh', before 'publish'"):
        retry(engine, "publish")
    retry(engine, "refresh")

    assert NAMES == run(engine, ports)


def test_what_is_neither_failed_nor_canceled_is_refused(failed: sa.Engine):
    """A step changes nothing about that."""
    edit(failed, DAILY.id, state="succeeded")

    with pytest.raises(ConflictError, match="is succeeded"):
        retry(failed, "refresh")

    assert "succeeded" == get(failed, DAILY.id).state


def test_operation_of_another_app_is_unknown(failed: sa.Engine):
    """Neither retried nor canceled, in the words for one that never was."""
    for act in (retry_or_refuse, cancel_or_refuse):
        with pytest.raises(NotFoundError, match=f"there is no operation {DAILY.id}"):
            write_by(failed, act, DAILY.id, app="other")
    retry(failed, "refresh", app="app")


def test_worker_that_was_canceled_writes_nothing_into_what_was_reset(
    failed: sa.Engine, ports: Ports
):
    """It holds its claim until it notices; the retry waits for that."""
    retry(failed, None)
    claim = must_claim(failed, DAILY.id)

    def cancel_and_retry(_context: StepContext, _arguments: object) -> StepResult:
        write_by(failed, cancel_or_refuse, DAILY.id)
        retry(failed, "publish")
        return {"ran": "late"}

    steps = dict.fromkeys(NAMES, cancel_and_retry)
    assert Attempt(failed, claim, ports, steps=steps).run() is None

    assert ["succeeded", *["pending"] * 3] == fetch_states(failed)
    assert NAMES[1:] == run(failed, ports)


def test_one_of_many_retries_wins(postgres_engine: sa.Engine, ports: Ports):
    """The others find it pending, and reset nothing; a claim comes before or after."""
    engine = postgres_engine
    add_runs(engine, DAILY, operations=STEPS, recipients={"groups": ["all"]})
    run(engine, ports, failing="send_email")
    steps = ("refresh", "publish", "send_email", None)

    def act(number: int) -> bool:
        if number >= len(steps):
            claim_operation(engine, DAILY.id, worker="w")
            return False
        try:
            retry(engine, steps[number])
        except ConflictError:
            return False
        return True

    assert 1 == sum(race(6, act))
    assert get(engine, DAILY.id).state in {"pending", "running"}


def test_changes_are_noted(failed: sa.Engine):
    """Who did it, what it was and what it is; nothing is noted of what was refused."""
    retry(failed, "publish")
    with writing(failed, author=BY) as connection:
        cancel_or_refuse(connection, DAILY.id, note="too late")
    with pytest.raises(ConflictError), writing(failed, author=BY) as connection:
        cancel_or_refuse(connection, DAILY.id)

    noted = fetch_noted(failed, "operation")
    assert [("retried", "ann"), ("canceled", "ann")] == [
        (row.change, row.by) for row in noted
    ]
    assert {str(DAILY.id)} == {row.subject for row in noted}
    assert {"app"} == {row.app for row in noted}
    assert ({"state": "failed"}, {"state": "pending", "from_step": "publish"}) == (
        noted[0].before,
        noted[0].after,
    )
    assert ({"state": "pending"}, {"state": "canceled"}, "too late") == (
        noted[1].before,
        noted[1].after,
        noted[1].note,
    )


def test_action_of_another_tenant_is_not_locked(failed: sa.Engine):
    """The query that finds it asks whose it is, so that nobody waits for a stranger."""
    asked = note_statements(failed)

    with pytest.raises(NotFoundError):
        retry(failed, None, app="other")

    (lock,) = [text for text in asked if "FROM scheduled_actions" in text]
    assert "operations.app = " in lock


@pytest.mark.parametrize("state", list(OperationState))
def test_retry_beside_what_is_live_is_refused(engine: sa.Engine, state: OperationState):
    """``skip`` lets one run at a time; what is final is in nobody's way."""
    add_runs(engine, FAILED)
    edit(engine, FAILED.id, state="failed")
    record_all(engine, OTHER)
    edit(engine, OTHER.id, state=state)

    beside = read_by(engine, get_live_beside, FAILED.id)
    reopened = write_by(engine, reopen, FAILED.id)

    is_live = state in LIVE_STATES
    assert (OTHER.id if is_live else None) == beside
    assert (not is_live) == reopened
    assert ("failed" if is_live else "pending") == get(engine, FAILED.id).state


@pytest.mark.parametrize(
    ("overlap", "other"),
    [
        (Overlap.QUEUE, {}),
        (Overlap.ALLOW, {}),
        (Overlap.SKIP, {"user_id": "ann"}),
        (Overlap.SKIP, {"action_uid": "another"}),
    ],
)
def test_retry_beside_others_is_let_through(
    engine: sa.Engine, overlap: Overlap, other: dict[str, str]
):
    """What is queued waits before it is sent; other users and actions do not count."""
    add_runs(engine, FAILED, make_operation(2, **other))
    edit(engine, FAILED.id, state="failed", overlap=overlap)

    assert write_by(engine, reopen, FAILED.id)


def test_run_of_an_action_that_is_gone_is_tried_again(engine: sa.Engine):
    """Its worker finds that it was deleted, and says so."""
    add_runs(engine, FAILED)
    edit(engine, FAILED.id, state="failed")
    write_by(engine, delete_action, "daily")

    assert write_by(engine, reopen, FAILED.id)


def test_one_of_many_at_once_is_live(postgres_engine: sa.Engine):
    """Retries and runs of one action see each other, however close they come."""
    engine = postgres_engine
    add_app(engine)
    uid = post(engine, operations=REFRESH).uid
    failed = []
    for _ in range(6):
        failed.append(run_now(engine, uid))
        edit(engine, failed[-1], state="failed")

    def ask(number: int) -> bool:
        if number < len(failed):
            return write_by(engine, reopen, failed[number])
        try:
            run_now(engine, uid)
        except ConflictError:
            return False
        return True

    won = race(8, ask)

    assert [False] * 7 + [True] == sorted(won)
    assert 1 == sum(row.state in LIVE_STATES for row in fetch_all(engine))
