"""An action may go on after a refresh only if that brought something new."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import sqlalchemy as sa

from dispatch.manual_runs import run_now
from models.database.tables import domain_versions
from models.errors import StepError
from models.requests.actions import RunModel
from operations.cancel_and_retry import retry_or_refuse
from operations.ports import Ports, StepContext, StepResult
from operations.running.attempt import Attempt
from tests.database import execute, write_by
from tests.integration.dispatch.backfills.backfilling import make_backfiller, start
from tests.integration.operations.staging import add_domains, stage
from tests.scheduling import (
    MONDAY,
    SECOND,
    edit,
    edit_action,
    fetch_all,
    get,
    get_now,
    get_steps,
    make_operation,
    must_claim,
    post,
    record_all,
)
from tests.unit.operations.fakes import World

STEPS = {"refresh": {"domains": ["sales"]}, "publish": {"data": True}}
IF: dict[str, Any] = {"if": {"refreshed": True}}

Run = Callable[..., tuple[list[str], UUID]]


@pytest.fixture
def run(engine: sa.Engine, tmp_path: Path) -> Run:
    """Give what runs the next occurrence; it returns the steps that ran."""
    ports: Ports = World(tmp_path).make_context().ports
    add_domains(engine, "sales", "other")
    post(engine, uid="daily", operations=STEPS, **IF)
    numbers = iter(range(100))

    def run(
        rows: list[int] | None = None,
        *,
        domain: str = "sales",
        fails: bool = False,
        operation_id: UUID | None = None,
        **changes: Any,
    ) -> tuple[list[str], UUID]:
        ran: list[str] = []

        def refresh(_context: StepContext, _asked: object) -> StepResult:
            ran.append("refresh")
            if rows is not None:
                stage(engine, tmp_path, domain, {"a": rows})
                set_created(engine)
            return {"refreshed": [domain] if rows else []}

        def publish(_context: StepContext, _asked: object) -> StepResult:
            ran.append("publish")
            if fails:
                raise StepError("no", permanent=True)
            return {}

        made = make_operation(next(numbers), **changes)
        if operation_id is None:
            record_all(engine, made)
        claim = must_claim(engine, operation_id or made.id)
        steps = {"refresh": refresh, "publish": publish}
        Attempt(engine, claim, ports, steps=steps).run()
        return ran, claim.operation_id

    return run


def set_created(engine: sa.Engine) -> None:
    """Date what was staged just now."""
    newest = sa.select(sa.func.max(domain_versions.c.version)).scalar_subquery()
    now = get_now(engine)
    execute(
        engine,
        sa.update(domain_versions)
        .where(domain_versions.c.version == newest)
        .values(created_at=now),
    )


WHOLE, HALF = ["refresh", "publish"], ["refresh"]


def test_what_is_not_new_ends_the_run(engine: sa.Engine, run: Run):
    """It is skipped, with the refresh that was done, and says why."""
    assert WHOLE == run([1, 2])[0]

    ran, operation_id = run()

    assert HALF == ran
    row = get(engine, operation_id)
    assert ("skipped", "unchanged", None) == (row.state, row.reason, row.claim_token)
    steps = get_steps(engine, operation_id)
    assert [("refresh", "succeeded"), ("publish", "skipped")] == [
        (step.name, step.state) for step in steps
    ]
    assert {"refreshed": []} == steps[0].result
    assert WHOLE == run([1, 2, 3])[0]


def test_equal_content_is_not_new(run: Run):
    """A source that does not say whether it changed is read again."""
    run([1, 2])

    assert HALF == run([1, 2])[0]


def test_what_failed_to_go_on_is_new_to_the_next_run(run: Run):
    """Nothing that was refreshed is lost."""
    run([1])
    assert WHOLE == run([1, 2], fails=True)[0]

    assert [WHOLE, HALF] == [run()[0], run()[0]]


def test_what_others_refreshed_is_new(engine: sa.Engine, run: Run, tmp_path: Path):
    """If the action refreshes that domain, too."""
    run([1])
    run(None)
    stage(engine, tmp_path, "sales", {"a": [7]})
    set_created(engine)

    assert WHOLE == run()[0]


def test_backfill_repeats_nothing_that_is_not_new(engine: sa.Engine, run: Run):
    """An occurrence of the past looks at the data of today, too."""
    run([1])
    edit_action(engine, "daily", effective_from=MONDAY, created_at=MONDAY)
    start(engine, "daily", at_once=1)
    make_backfiller(engine).look()
    (made,) = fetch_all(engine)[1:]
    edit(engine, made.id, send_at=get_now(engine) - SECOND)

    assert HALF == run(operation_id=made.id)[0]

    row = get(engine, made.id)
    assert ("backfill", "skipped", "unchanged") == (row.trigger, row.state, row.reason)


def test_other_domains_do_not_matter(engine: sa.Engine, run: Run, tmp_path: Path):
    """Only those that it refreshes."""
    run([1])
    stage(engine, tmp_path, "other", {"a": [7]})

    assert HALF == run()[0]


def test_in_doubt_it_goes_on(engine: sa.Engine, run: Run):
    """After a change of the action, or if the version of then is gone."""
    run([1])
    edit(engine, run()[1], state="succeeded", action_revision=2)
    execute(
        engine, sa.update(domain_versions).values(created_at=get_now(engine) + SECOND)
    )

    assert WHOLE == run()[0]


def test_runs_of_chosen_steps_are_not_the_last_success(engine: sa.Engine, run: Run):
    """A refresh alone has published nothing."""
    run([1])
    chosen = run_now(engine, "daily", RunModel(steps=("refresh",)))
    edit(engine, chosen, send_at=get_now(engine) - SECOND)
    assert HALF == run([1, 2], operation_id=chosen)[0]
    assert "succeeded" == get(engine, chosen).state

    assert WHOLE == run()[0]


def test_forced_and_retried_from_a_later_step_goes_on(engine: sa.Engine, run: Run):
    """Somebody asked for it."""
    run([1])
    forced = run_now(engine, "daily", RunModel(force=True))
    assert WHOLE == run(operation_id=forced)[0]
    failed = run([2], fails=True)[1]
    write_by(engine, retry_or_refuse, failed, from_step="publish")

    assert ["publish"] == run(operation_id=failed)[0]
