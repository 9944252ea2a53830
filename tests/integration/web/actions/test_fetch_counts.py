"""How many actions there are of everything, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from models.operation_state import Queue
from models.requests.actions import ActionFilterModel, ActionKind, Trouble
from models.revision import ActionState
from tests.database import read_by, write_by
from tests.scheduling import MONDAY, REFRESH, add_app, edit_action, post, put
from web.actions.fetch_counts import ActionCounts, count_actions

HOURLY = {"cron_rule": "0 * * * *"}


@pytest.fixture(autouse=True)
def _actions(engine: sa.Engine) -> None:
    """
    Give every test five actions of two apps.

    Two of them are in trouble, and one of those is in quarantine, too.
    """
    for app in ("shop", "books"):
        add_app(engine, app)
    post(engine, "shop", uid="one", name="Invoices")
    post(engine, "shop", uid="two", name="both", when=[HOURLY, {"every": "PT7M"}])
    post(engine, "shop", uid="three", name="heavy", operations=REFRESH, active=False)
    post(engine, "books", uid="four", name="seen", when={"on": "app.x"})
    post(engine, "books", uid="five", name="old invoices")
    write_by(engine, pause_action, "four")
    edit_action(engine, "five", quarantined_at=MONDAY, quarantine_reason="no zone")
    for uid, state in (("one", "failed"), ("five", "missed")):
        put(engine, action_uid=uid, state=state, finished_at=MONDAY)


def count(engine: sa.Engine, app: str | None = None, **wanted: Any) -> ActionCounts:
    options = {"most": wanted.pop("most")} if "most" in wanted else {}
    return read_by(
        engine, count_actions, ActionFilterModel(**wanted), app=app, **options
    )


def test_everything_is_counted(engine: sa.Engine):
    """An action of two rules is of both kinds; one of two troubles counts once."""
    found = count(engine)

    assert (5, True) == (found.total, found.is_whole)
    assert {"shop": 3, "books": 2} == found.apps
    assert {
        ActionState.ACTIVE: 2,
        ActionState.INACTIVE: 1,
        ActionState.PAUSED: 1,
        ActionState.QUARANTINED: 1,
    } == found.states
    assert {"cron_rule": 4, "every": 1, "on": 1} == found.kinds
    assert {Queue.TASKS: 4, Queue.HEAVY: 1} == found.queues
    assert {
        Trouble.ANY: 2,
        Trouble.FAILED: 1,
        Trouble.MISSED: 1,
        Trouble.QUARANTINED: 1,
    } == found.troubles


def test_a_filter_leaves_its_own_counts_as_they_are(engine: sa.Engine):
    """They say what another value would give; the other counts follow."""
    found = count(engine, state=ActionState.ACTIVE)

    assert (2, {"shop": 2}, {"cron_rule": 2, "every": 1}) == (
        found.total,
        found.apps,
        found.kinds,
    )
    assert 4 == len(found.states)
    assert {"any": 1, "failed": 1, "missed": 0, "quarantined": 0} == found.troubles


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"text": "INVOICE"}, 2),
        ({"kind": ActionKind("every")}, 1),
        ({"queue": Queue.HEAVY}, 1),
        ({"trouble": Trouble.ANY}, 2),
        ({"trouble": Trouble.MISSED, "app": "shop"}, 0),
        ({"text": "no such text"}, 0),
    ],
)
def test_the_total_is_what_the_list_has(
    engine: sa.Engine, wanted: dict[str, Any], expected: int
):
    """With each of the filters of the list."""
    assert expected == count(engine, **wanted).total


def test_another_apps_actions_are_not_counted(engine: sa.Engine):
    """Not by their app, and not by anything else."""
    found = count(engine, app="books")

    assert (2, {"books": 2}, 1) == (
        found.total,
        found.apps,
        found.troubles[Trouble.ANY],
    )


def test_of_too_many_the_indexes_know_apps_and_states(engine: sa.Engine):
    """The other figures are the least that there may be."""
    whole, found = count(engine), count(engine, most=1)

    assert (False, whole.total, whole.apps, whole.states) == (
        found.is_whole,
        found.total,
        found.apps,
        found.states,
    )
    assert sum(found.queues.values()) < sum(whole.queues.values())
    assert whole.troubles == found.troubles
