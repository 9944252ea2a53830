"""Who is told of what failed: once, together, and again when it is over."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from actions.lease import LeadershipLostError, expire_lease
from actions.lookup import SYSTEM_APP
from actions.own_actions import NOTICES_UID, record_watch
from actions.pausing.pause_and_resume import pause_action
from actions.posting.post import delete_action
from actions.small_apps.apply import apply_small_app
from dispatch import noticer as looking
from dispatch.notice_operations import send_test_notice
from dispatch.noticer import Noticer
from models.database.engine import reading, writing
from models.database.tables import notices, operations
from models.door.app_documents import read_small_app_object
from models.errors import ConflictError
from models.operation_state import OperationState, Trigger
from operations.cancel_and_retry import reopen
from operations.notices.grouping import INSTALLATION, Scope
from tests.database import execute, fetch_rows, write_by
from tests.scheduling import (
    HOUR,
    MINUTE,
    add_app,
    add_mails,
    edit,
    edit_action,
    get,
    get_now,
    lead,
    make_operation,
    post,
    record_all,
)

REFUSED = "send_email: the mail server refused"


def make_noticer(engine: sa.Engine, **options: Any) -> Noticer:
    """Return one that leads, and tells of all small apps unless told otherwise."""
    leader = lead(engine)
    return Noticer(engine, leader, **{"mail": ("ops@example.org",), **options})


def add_action(engine: sa.Engine, uid: str = "daily", app: str = "app") -> None:
    post(engine, app, uid=uid, name=uid)
    edit_action(engine, uid, next_due_at=None)


@pytest.fixture(autouse=True)
def _app(any_engine: sa.Engine) -> None:
    """Give every test a small app with an action."""
    add_app(any_engine)
    add_action(any_engine)


@pytest.fixture
def noticer(engine: sa.Engine) -> Noticer:
    """Give one that leads."""
    return make_noticer(engine)


def fail(
    engine: sa.Engine,
    *numbers: int,
    at: datetime | None = None,
    error: str = REFUSED,
    state: OperationState = OperationState.FAILED,
    **changes: Any,
) -> list[UUID]:
    """Record operations that failed for good at *at*, or just now."""
    made = [make_operation(number, **changes) for number in numbers]
    record_all(engine, *made)
    ids = [each.id for each in made]
    end(engine, ids, at=at, error=error, state=state)
    return ids


def end(
    engine: sa.Engine,
    ids: list[UUID],
    *,
    at: datetime | None = None,
    error: str | None = None,
    state: OperationState = OperationState.SUCCEEDED,
) -> None:
    """End operations, with the reason of a step that failed if there is an error."""
    for operation_id in ids:
        edit(
            engine,
            operation_id,
            state=state,
            reason=error and "step failed: send_email",
            error=error,
            finished_at=at or get_now(engine),
        )


def succeed(engine: sa.Engine, *numbers: int, at: datetime, **changes: Any) -> None:
    fail(engine, *numbers, at=at, error="", state=OperationState.SUCCEEDED, **changes)


def fetch_notices(engine: sa.Engine) -> list[dict[str, Any]]:
    """Return what the operations of notices tell, as they were recorded."""
    with reading(engine) as connection:
        rows = connection.execute(
            sa.select(operations.c.details)
            .where(operations.c.trigger == Trigger.NOTICE)
            .order_by(operations.c.occurrence, operations.c.id)
        ).scalars()
        return [details["notice"] for details in rows]


def ask_for_notices(engine: sa.Engine, **asked: Any) -> None:
    model = read_small_app_object({"uid": "app", "notices": asked})
    write_by(engine, apply_small_app, model)


def test_failures_of_one_cause_are_one_notice(engine: sa.Engine, noticer: Noticer):
    """Four hundred failures that differ by ids and numbers alone are told of in one."""
    made = [make_operation(n, user_id=f"u{n}") for n in range(400)]
    record_all(engine, *made)
    execute(
        engine,
        sa.update(operations).values(
            state="failed",
            reason="step failed: send_email",
            error=sa.literal("send_email: 550 no user 'u1' ")
            + sa.cast(operations.c.id, sa.Text),
            finished_at=get_now(engine),
        ),
    )

    recorded = noticer.look()

    assert 1 == recorded
    [told] = fetch_notices(engine)
    assert ("failed", 400, 1) == (told["kind"], told["count"], told["action_count"])
    assert ["ops@example.org"] == told["mail"]
    assert "send_email: 550 no user 'u1'" in told["cause"]


def test_nobody_is_told_twice(engine: sa.Engine):
    """What was told of is not told of again, by this leader or by the next."""
    fail(engine, 0)
    noticer = make_noticer(engine)
    noticer.look()

    again = noticer.look()
    write_by(engine, expire_lease)
    by_the_next = make_noticer(engine).look()

    assert (0, 0) == (again, by_the_next)
    assert 1 == len(fetch_notices(engine))


def test_older_leader_tells_nobody(engine: sa.Engine):
    """One whose lease was taken over writes nothing, and marks nothing as told."""
    fail(engine, 0)
    older = make_noticer(engine)
    write_by(engine, expire_lease)
    newer = make_noticer(engine)

    with pytest.raises(LeadershipLostError):
        older.look()

    assert 1 == newer.look()


def test_crash_before_the_commit_tells_later(
    engine: sa.Engine, noticer: Noticer, monkeypatch: pytest.MonkeyPatch
):
    """Marks and notices are one transaction: neither is there without the other."""
    fail(engine, 0)

    def crash(*_arguments: object, **_options: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(looking, "record", crash)
        with pytest.raises(KeyboardInterrupt):
            noticer.look()

    assert [] == fetch_notices(engine)
    assert 1 == noticer.look()


def test_more_of_the_same_waits_an_hour(engine: sa.Engine, noticer: Noticer):
    """Further failures of an open cause are told of together after an hour."""
    now = get_now(engine)
    fail(engine, 0)
    noticer.look(now=now)
    fail(engine, 1, 2, 3)

    soon = noticer.look(now=now + HOUR - MINUTE)
    later = noticer.look(now=now + HOUR)

    assert (0, 1) == (soon, later)
    told = fetch_notices(engine)[-1]
    assert (True, 3, 4) == (told["more"], told["count"], told["total"])


def test_success_is_told_of_once(engine: sa.Engine, noticer: Noticer):
    """When the action succeeds again; the next failure is a new cause."""
    now = get_now(engine)
    fail(engine, 0, 1, at=now)
    noticer.look(now=now)
    succeed(engine, 2, at=now + MINUTE)

    recovered = noticer.look(now=now + 5 * MINUTE)
    again = noticer.look(now=now + 6 * MINUTE)
    fail(engine, 3)
    failed = noticer.look(now=now + 7 * MINUTE)

    assert (1, 0, 1) == (recovered, again, failed)
    kinds = [each["kind"] for each in fetch_notices(engine)]
    assert ["failed", "recovered", "failed"] == kinds
    assert 2 == fetch_notices(engine)[1]["count"]


def test_all_that_failed_has_to_succeed(engine: sa.Engine, noticer: Noticer):
    """Nobody is told that it is over while one of two actions has not succeeded."""
    add_action(engine, "other")
    # due again, so that it is waited for
    edit_action(engine, "other", next_due_at=get_now(engine) + HOUR)
    now = get_now(engine)
    fail(engine, 0, at=now)
    fail(engine, 0, at=now, action_uid="other")
    noticer.look(now=now)
    succeed(engine, 1, at=now + MINUTE)

    one = noticer.look(now=now + 10 * MINUTE)
    succeed(engine, 1, at=now + 11 * MINUTE, action_uid="other")
    both = noticer.look(now=now + 20 * MINUTE)

    assert (0, 1) == (one, both)


def test_deleted_action_is_not_waited_for(engine: sa.Engine, noticer: Noticer):
    """It is over when what is left has succeeded."""
    add_action(engine, "other")
    now = get_now(engine)
    fail(engine, 0, at=now)
    fail(engine, 0, at=now, action_uid="other")
    noticer.look(now=now)
    succeed(engine, 1, at=now + MINUTE)
    write_by(engine, delete_action, "other")

    assert 1 == noticer.look(now=now + 10 * MINUTE)
    assert "recovered" == fetch_notices(engine)[-1]["kind"]


@pytest.mark.parametrize(
    ("error", "state", "told"),
    [
        (None, OperationState.SUCCEEDED, ("recovered", 1)),
        # it is news to whoever thinks that it was mended
        (REFUSED, OperationState.FAILED, ("failed", 2)),
    ],
)
def test_retry_by_hand_counts(
    engine: sa.Engine,
    noticer: Noticer,
    error: str | None,
    state: OperationState,
    told: tuple[str, int],
):
    """The operation that failed, tried again, ends it, or fails again."""
    now = get_now(engine)
    ids = fail(engine, 0, at=now)
    noticer.look(now=now)
    assert write_by(engine, reopen, ids[0])
    end(engine, ids, at=now + MINUTE, error=error, state=state)

    assert 1 == noticer.look(now=now + HOUR)
    last = fetch_notices(engine)[-1]
    assert told == (last["kind"], last["total"])


def test_attempt_that_is_repeated_is_no_failure(engine: sa.Engine, noticer: Noticer):
    """What waits for its next attempt is told to nobody."""
    [waits] = record_all(engine, make_operation(0))
    edit(engine, waits, reason="step failed", error=REFUSED, attempt=1)

    assert 0 == noticer.look()


def test_notice_that_fails_makes_no_notice(engine: sa.Engine, noticer: Noticer):
    """A wrong address must not go round in circles."""
    fail(engine, 0)
    noticer.look()
    execute(
        engine,
        sa.update(operations)
        .where(operations.c.trigger == Trigger.NOTICE)
        .values(state="failed", reason="step failed: notify", error="550")
        .values(finished_at=get_now(engine)),
    )

    assert 0 == noticer.look(now=get_now(engine) + HOUR)


def test_missed_occurrences_are_told_of(engine: sa.Engine, noticer: Noticer):
    """One notice for all actions of an outage, with the count of all occurrences."""
    add_action(engine, "other")
    missed = {"state": OperationState.MISSED, "reason": "outage"}
    record_all(
        engine,
        make_operation(0, details={"count": 30}, **missed),
        make_operation(0, action_uid="other", details={"count": 12}, **missed),
    )

    assert 1 == noticer.look()
    [told] = fetch_notices(engine)
    assert ("missed", "outage", 42) == (told["kind"], told["cause"], told["count"])


def test_uncertain_mails_are_told_of(engine: sa.Engine, noticer: Noticer):
    """They are told of when their operation is final, with how many there are."""
    [running] = record_all(engine, make_operation(0))
    mails = dict.fromkeys(("u1", "u2"), "uncertain")
    add_mails(engine, running, mails, at=get_now(engine))

    before = noticer.look()
    end(engine, [running])
    after = noticer.look()
    again = noticer.look(now=get_now(engine) + 2 * HOUR)

    assert (0, 1, 0) == (before, after, again)
    [told] = fetch_notices(engine)
    assert ("uncertain", 2) == (told["kind"], told["count"])


def test_installation_hears_of_all_in_one(engine: sa.Engine, noticer: Noticer):
    """One cause in two apps: one notice to the operator, one to the app that asks."""
    add_app(engine, "neighbour")
    add_action(engine, "other", app="neighbour")
    ask_for_notices(engine, webhook="https://example.org/hook")
    fail(engine, 0)
    fail(engine, 0, action_uid="other", app="neighbour")

    noticer.look()

    told = {each["app"]: each for each in fetch_notices(engine)}
    assert {None: 2, "app": 1} == {app: each["count"] for app, each in told.items()}
    assert "https://example.org/hook" == told["app"]["webhook"]


def test_failures_of_long_ago_are_not_told_of(engine: sa.Engine, noticer: Noticer):
    """Whoever asks for notices hears of what fails from then on."""
    fail(engine, 0, at=get_now(engine) - HOUR)

    first = noticer.look()
    fail(engine, 1)
    second = noticer.look()

    assert (0, 1) == (first, second)


def test_what_failed_while_nobody_led_is_told_of(engine: sa.Engine, noticer: Noticer):
    """The next leader goes on where the last look was, however long ago."""
    noticer.look()
    write_by(engine, record_watch, get_now(engine) - 48 * HOUR)
    fail(engine, 0, at=get_now(engine) - 47 * HOUR)

    assert 1 == noticer.look()


def test_nothing_is_remembered_while_nobody_asks(engine: sa.Engine):
    """With nobody to tell, nothing is written at all."""
    [failed] = fail(engine, 0)

    assert 0 == make_noticer(engine, mail=()).look()
    with reading(engine) as connection:
        count = sa.select(sa.func.count()).select_from(notices)
        assert 0 == connection.execute(count).scalar_one()
        noticed = sa.select(operations.c.noticed_at).where(operations.c.id == failed)
        assert connection.execute(noticed).scalar_one() is None


def test_paused_notices_are_silent(engine: sa.Engine, noticer: Noticer):
    """The action of notices is paused like any other."""
    fail(engine, 0)
    noticer.look()
    write_by(engine, pause_action, NOTICES_UID)
    fail(engine, 1, error="another cause")

    assert 0 == noticer.look()


def test_what_somebody_is_writing_waits_for_the_next_look(postgres_engine: sa.Engine):
    """A look waits for nobody who tries many operations again at this moment."""
    ids = fail(postgres_engine, 0, 1)
    noticer = make_noticer(postgres_engine)

    with writing(postgres_engine) as other:
        assert reopen(other, ids[0])
        noticer.look()
        other.rollback()
    noticer.look(now=get_now(postgres_engine) + HOUR)

    assert [1, 1] == [each["count"] for each in fetch_notices(postgres_engine)]


def test_many_are_told_in_several_looks(
    engine: sa.Engine, noticer: Noticer, monkeypatch: pytest.MonkeyPatch
):
    """One look takes a bounded number, and says that there may be more."""
    monkeypatch.setattr(looking, "MOST_AT_ONCE", 3)
    fail(engine, *range(4))

    noticer.look()
    behind = noticer.is_behind
    noticer.look(now=get_now(engine) + HOUR)

    assert (True, False) == (behind, noticer.is_behind)
    assert [3, 1] == [each["count"] for each in fetch_notices(engine)]


def test_notices_are_operations_of_the_scheduler(engine: sa.Engine, noticer: Noticer):
    """They belong to its own app, wait to be sent, and are under the leader's fence."""
    fail(engine, 0)
    noticer.look()

    row = fetch_rows(
        engine, sa.select(operations).where(operations.c.trigger == Trigger.NOTICE)
    ).one()
    assert (SYSTEM_APP, NOTICES_UID) == (row.app, row.action_uid)
    assert ("pending", "celery", 1) == (row.state, row.queue, row.fence)


def test_test_notice_goes_to_those_who_are_named(engine: sa.Engine):
    """As any notice does; it tells of no operation, and no cause stays open."""
    ask_for_notices(engine, mail=["ann@example.org"])

    operation_id = write_by(engine, send_test_notice, "app")

    (told,) = fetch_notices(engine)
    assert ("test", "app", ["ann@example.org"]) == (
        told["kind"],
        told["app"],
        told["mail"],
    )
    row = get(engine, operation_id)
    assert ("notice", "pending", "celery") == (row.trigger, row.state, row.queue)
    assert "Notice to app: app: a test notice; nothing has failed" == row.triggered_by
    assert [] == fetch_rows(engine, sa.select(notices)).all()


def test_test_notice_to_nobody_is_refused(engine: sa.Engine):
    """With where to name somebody; and while notices are paused, with that."""
    with pytest.raises(ConflictError) as nobody:
        write_by(engine, send_test_notice, "app")
    with pytest.raises(ConflictError) as operator:
        write_by(engine, send_test_notice, None, Scope(INSTALLATION, "UTC"))
    ask_for_notices(engine, mail=["ann@example.org"])
    with writing(engine) as connection:
        send_test_notice(connection, "app")
        pause_action(connection, "minutehand-notices")
    with pytest.raises(ConflictError) as paused:
        write_by(engine, send_test_notice, "app")

    assert "the notices of small app 'app'" in str(nobody.value)
    assert "MINUTEHAND_NOTICE_MAIL" in str(operator.value)
    assert "minutehand actions resume minutehand-notices" in str(paused.value)
