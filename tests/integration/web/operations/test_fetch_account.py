"""The account of one operation."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from models.database.tables import domains
from models.occurrence import make_manual_id, make_missed_id, make_operation_id
from models.operation_state import Trigger
from operations.cancel_and_retry import cancel_or_refuse, retry_or_refuse
from operations.running.past_attempts import AttemptOutcome, PastAttempt
from tests.database import execute, read_by, write_by
from tests.scheduling import (
    MINUTE,
    MONDAY,
    add_mails,
    add_revision,
    add_steps,
    edit,
    get_now,
    make_operation,
    put,
    record_all,
    tell_missed,
)
from web.operations.fetch_account import Account, fetch_account

DAILY = make_operation()


@pytest.fixture(autouse=True)
def _daily(engine: sa.Engine) -> None:
    """Give an action and its operation."""
    add_revision(engine)
    record_all(engine, DAILY)


def give(engine: sa.Engine, operation_id: UUID = DAILY.id, **options: Any) -> Account:
    """Return the account of an operation."""
    return read_by(engine, fetch_account, operation_id, **options)


def test_id_is_computed_anew(engine: sa.Engine):
    """Of an occurrence, a user, a range; of a manual run the key is not kept."""
    of_user = make_operation(1, user_id="ann")
    missed = make_operation(2, id=make_missed_id("daily", MONDAY + 2 * MINUTE))
    missed = missed._replace(**tell_missed(MONDAY + 2 * MINUTE))
    manual = make_operation(3, id=make_manual_id("daily", "k"), trigger=Trigger.MANUAL)
    strange = make_operation(4, id=make_operation_id("other", MONDAY))
    record_all(engine, of_user, missed, manual, strange)
    told = [
        give(engine, each.id).identity
        for each in (DAILY, of_user, missed, manual, strange)
    ]

    assert [True, True, True, False, False] == [each.is_proved for each in told]
    assert [
        "daily | 2026-01-05 00:00:00+00:00",
        "daily | 2026-01-05 00:01:00+00:00 | ann",
        "daily | missed | 2026-01-05 00:02:00+00:00",
    ] == [each.text for each in told[:3]]


def test_attempts_are_told_in_their_order(engine: sa.Engine):
    """Those that failed before, then what the steps know, then what has not begun."""
    instants = [MONDAY + number * MINUTE for number in range(5)]
    attempts = [
        PastAttempt(
            number=number,
            outcome=AttemptOutcome.FAILED,
            step=step,
            began_at=MONDAY,
            step_began_at=instants[begin],
            ended_at=instants[begin + 1],
            error="503",
        ).as_details()
        for number, step, begin in ((1, "refresh", 0), (2, "publish", 3))
    ]
    edit(engine, DAILY.id, state="failed", attempt=2, details={"attempts": attempts})
    steps = [
        {
            "name": name,
            "state": state,
            "attempt": 2,
            "started_at": instants[begin],
            "finished_at": instants[begin + 1],
        }
        for name, state, begin in (
            ("refresh", "succeeded", 2),
            ("publish", "failed", 3),
        )
    ]
    add_steps(engine, DAILY.id, *steps, {"name": "send_email", "state": "skipped"})

    assert [
        ("refresh", 1, "failed"),
        ("refresh", 2, "succeeded"),
        ("publish", 2, "failed"),
        ("send_email", 0, "skipped"),
    ] == [(each.step, each.attempt, each.state) for each in give(engine).stretches]


def test_same_failures_are_counted(engine: sa.Engine):
    """Within a day and a week, with other ids and numbers."""
    now = get_now(engine)
    ages = [timedelta(hours=1), timedelta(hours=2), timedelta(days=2)]
    ids = [DAILY.id, *(put(engine, number) for number in (1, 2, 3))]
    for id_, age in zip(ids, [*ages, timedelta(days=8)], strict=True):
        failed = {"error": f"refresh: user '{id_}' is gone", "finished_at": now - age}
        edit(engine, id_, state="failed", reason="step failed: refresh", **failed)
    put(engine, 9, state="failed", reason="step failed", error="x")

    same = give(engine).same

    assert same is not None
    assert (2, 3) == (same.day, same.week)
    assert (now - ages[2], now - ages[0]) == (same.first_at, same.last_at)


def test_what_it_made_is_told(engine: sa.Engine):
    """Versions with rows, which are live; what was published; mails by state."""
    add_steps(
        engine,
        DAILY.id,
        {
            "name": "refresh",
            "state": "succeeded",
            "result": {
                "refreshed": ["orders"],
                "reused": ["stock"],
                "rows": {"orders": 1204},
                "versions": {"orders": 119},
            },
        },
        {"name": "publish", "state": "succeeded", "result": {"published": ["data"]}},
    )
    orders = {"app": "app", "name": "orders", "source": {}, "live_version": 119}
    execute(engine, sa.insert(domains).values(orders))
    add_mails(engine, DAILY.id, {**dict.fromkeys("abcd", "sent"), "e": "failed"})

    account = give(engine)

    assert [("orders", 119, 1204, True), ("stock", None, None, False)] == [
        (each.domain, each.version, each.rows, each.is_live)
        for each in account.versions
    ]
    assert ("data",) == account.published
    assert [("failed", 1, ("e",)), ("sent", 4, ("a", "b", "c"))] == [
        (each.state, each.count, each.first) for each in account.mails
    ]


def test_who_intervened_is_told(engine: sa.Engine):
    """In order, with the reason."""
    write_by(engine, cancel_or_refuse, DAILY.id, note="wrong")
    write_by(engine, retry_or_refuse, DAILY.id)

    assert [("canceled", "wrong"), ("retried", None)] == [
        (each.change, each.note) for each in give(engine).interventions
    ]
