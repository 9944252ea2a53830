"""Actions with steps of packages that are gone, and those that are there."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from pydantic import JsonValue

from actions.due_action import ActionRevision
from actions.leader import Leader
from actions.tick import Dispatched, run_tick
from dispatch.foresee import NoFlights
from dispatch.step_check import PART, StepCheck
from models.decision import Decision
from models.extending import InstalledStep
from models.installed import INSTALLED, Packages
from models.operation_state import OperationState
from operations.claiming.claim import claim_operation
from operations.list_operations import fetch_steps
from operations.ports import StepContext
from operations.running.attempt import Attempt
from tests.scheduling import (
    MONDAY,
    add_app,
    add_revision,
    fetch_action,
    get,
    make_operation,
    post,
    post_at,
    record_all,
)
from tests.unit.operations.fakes import World

DAILY = make_operation()

Install = Callable[..., None]


class Archive(InstalledStep):
    """Takes a folder."""

    folder: str

    def run(self, context: StepContext) -> Mapping[str, JsonValue]:
        """Return what it knows."""
        context.progress(1, 1)
        return {"folder": self.folder, "app": context.app}


ASKED = {"archive": {"folder": "a"}, "call_webhook": {"url": "https://example.com"}}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Give a function that installs the package, or uninstalls it."""

    def do(*, is_there: bool) -> None:
        steps = {"archive": Archive} if is_there else {}
        monkeypatch.setattr(INSTALLED, "_found", Packages(steps=steps))

    return do


def test_new_leader_puts_actions_of_missing_steps_into_quarantine(
    engine: sa.Engine, install: Install
) -> None:
    """
    Each with its reason, in as many looks as there are parts; others stay.
    """
    install(is_there=True)
    add_app(engine)
    for number in range(3):
        post(engine, name=f"a{number}", uid=f"a{number}", operations=ASKED)
    post(engine, name="other", uid="other")
    leader = Leader(engine)
    assert leader.hold()
    check = StepCheck(engine, leader)
    check.look()
    assert fetch_action(engine, "a0").quarantined_at is None

    install(is_there=False)
    check.look()  # it has looked at all of them already
    assert fetch_action(engine, "a0").quarantined_at is None
    StepCheck(engine, leader).look()

    rows = [fetch_action(engine, f"a{number}") for number in range(3)]
    assert PART > len(rows)
    assert all(row.quarantined_at for row in rows)
    assert (
        "'archive' is no step that is built in or installed here. Install the package "
        "that adds it where this program runs."
    ) == rows[0].quarantine_reason
    assert fetch_action(engine, "other").quarantined_at is None


def test_worker_with_the_package_runs_its_step(
    engine: sa.Engine, install: Install, tmp_path: Path
) -> None:
    """
    After those that are built in; its result is kept as theirs are.
    """
    install(is_there=True)
    add_revision(engine, operations=ASKED)
    record_all(engine, DAILY)
    claim = claim_operation(engine, DAILY.id, worker="w")
    assert claim is not None

    Attempt(
        engine,
        claim,
        World(tmp_path).make_context().ports,
        steps={"call_webhook": lambda _context, _asked: {}},
    ).run()

    assert OperationState.SUCCEEDED == get(engine, DAILY.id).state
    with engine.connect() as connection:
        steps = fetch_steps(connection, [DAILY.id])[DAILY.id]
    assert ["call_webhook", "archive"] == [step.name for step in steps]
    assert {"folder": "a", "app": "app"} == steps[1].result


@pytest.mark.parametrize(
    "changes",
    [
        {"operations": ASKED},
        {"operations": {"archive": {"folder": "a"}}},
    ],
)
def test_worker_without_the_package_fails_the_operation_and_says_so(
    engine: sa.Engine,
    install: Install,
    tmp_path: Path,
    changes: dict[str, Any],
) -> None:
    """
    Nothing of it runs: a step before it may be what it was for.
    """
    install(is_there=True)
    add_revision(engine, **changes)
    record_all(engine, DAILY)
    install(is_there=False)
    claim = claim_operation(engine, DAILY.id, worker="w")
    assert claim is not None

    Attempt(engine, claim, World(tmp_path).make_context().ports).run()

    row = get(engine, DAILY.id)
    assert OperationState.FAILED == row.state
    assert "'archive' is no step that is built in or installed here" in row.error


def test_rule_that_is_missing_stops_no_tick(
    engine: sa.Engine,
) -> None:
    """
    Its action goes into quarantine, and the others of the tick are decided.
    """
    add_app(engine)
    lost = post_at(engine, name="lost", uid="lost")
    post_at(engine, name="other", uid="other")
    with engine.begin() as connection:
        connection.execute(
            sa.text(
                "update scheduled_actions set timing ="
                """ '{"when":[{"moon":"full"}]}' where uid = 'lost'"""
            )
        )
    decided: list[str] = []
    bad: list[str] = []

    def dispatch(decisions: Sequence[Decision]) -> Dispatched:
        decided.extend(each.action_uid for each in decisions)
        return Dispatched(len(decisions), 0)

    def quarantine(_action: ActionRevision, reason: str) -> None:
        bad.append(reason)

    run_tick(MONDAY, engine=engine, dispatcher=NoFlights(dispatch, quarantine))

    assert lost not in decided
    assert "other" in decided
    assert "kind that is built in or installed here" in bad[0]
