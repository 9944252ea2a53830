"""The list of actions: its filters, and that its parts are the whole."""

from __future__ import annotations

from datetime import timedelta
from functools import partial
from itertools import product
from typing import Any

import pytest
import sqlalchemy as sa

from actions.list_actions import Order, select_part
from actions.pausing.pause_and_resume import pause_action
from actions.posting.post import delete_action
from models.database.engine import reading
from models.errors import UsageError
from models.operation_state import OperationState, Queue
from models.paging import Page
from models.requests.actions import ActionFilterModel, Trouble
from models.revision import ActionState
from tests.database import read_by, turn_pages, write_by
from tests.scheduling import MINUTE, MONDAY, REFRESH, add_app, edit_action, post, put


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    for app in ("app", "other"):
        add_app(engine, app)
        post(engine, app, uid=f"{app}-cron", name="100% Cron", operations=REFRESH)
        both = [{"cron_rule": "0 7 * * *"}, {"calendar": "daily"}]
        post(engine, app, uid=f"{app}-both", name="both", when=both)
        on = {"on": "instance.user.created"}
        post(engine, app, uid=f"{app}-on", name="on", when=on)
        post(engine, app, uid=f"{app}-idle", name="idle", active=False)
        post(engine, app, uid=f"{app}-paused", name="paused")
        post(engine, app, uid=f"{app}-gone", name="gone")
        post(engine, app, uid=f"{app}-bad", name="bad")
        post(engine, app, uid=f"{app}-worse", name="worse")
        for each in ("paused", "worse"):
            write_by(engine, pause_action, f"{app}-{each}")
        write_by(engine, delete_action, f"{app}-gone")
        for each in ("bad", "worse"):
            edit_action(engine, f"{app}-{each}", quarantined_at=MONDAY)


def find(engine: sa.Engine, **wanted: Any) -> str:
    """Return the actions of one app that match, by what they are."""
    part = read_by(
        engine, select_part, ActionFilterModel(app="app", **wanted), Page(50)
    )
    assert part.following is None
    return " ".join(row.uid.removeprefix("app-") for row in part.entries)


MATCHES: list[tuple[dict[str, Any], str]] = [
    ({}, "cron bad both idle on paused worse"),
    ({"state": ActionState.ACTIVE}, "cron both on"),
    ({"state": ActionState.INACTIVE}, "idle"),
    ({"state": ActionState.PAUSED}, "paused"),
    ({"state": ActionState.QUARANTINED}, "bad worse"),
    ({"state": ActionState.DELETED}, "gone"),
    ({"kind": "calendar"}, "both"),
    ({"kind": "cron_rule"}, "cron bad both idle paused worse"),
    ({"kind": "on"}, "on"),
    ({"kind": "after"}, ""),
    ({"queue": Queue.HEAVY}, "cron"),
    ({"text": "CRON"}, "cron"),
    ({"text": "0% c"}, "cron"),
    ({"text": "_"}, ""),
    ({"text": "APP-BO"}, "both"),
    ({"trouble": Trouble.QUARANTINED}, "bad worse"),
    ({"trouble": Trouble.ANY}, "bad worse"),
    ({"trouble": Trouble.FAILED}, ""),
    ({"text": "o", "state": ActionState.ACTIVE, "kind": "on"}, "on"),
]


def test_filters_find_what_they_say(engine: sa.Engine):
    for wanted, expected in MATCHES:
        assert expected == find(engine, **wanted), wanted


def test_trouble_is_of_the_last_run(engine: sa.Engine):
    for uid, states in {
        "app-cron": (OperationState.SUCCEEDED, OperationState.FAILED),
        "app-both": (OperationState.FAILED, OperationState.SUCCEEDED),
        "app-on": (OperationState.FAILED, OperationState.MISSED),
        "other-cron": (OperationState.FAILED,),
    }.items():
        for number, state in enumerate(states):
            ended = {"state": state, "finished_at": MONDAY + number * MINUTE}
            put(engine, number, action_uid=uid, app=uid.partition("-")[0], **ended)

    assert "cron" == find(engine, trouble=Trouble.FAILED)
    assert "on" == find(engine, trouble=Trouble.MISSED)
    assert "cron bad on worse" == find(engine, trouble=Trouble.ANY)


@pytest.mark.parametrize("text", [None, "o"])
def test_parts_are_the_whole(engine: sa.Engine, text: str | None):
    with reading(engine) as connection:
        select = partial(select_part, connection, ActionFilterModel(text=text))
        whole = [row.uid for row in select(Page(200)).entries]
        for looked_at, limit in product((1, 3, 100), (1, 2)):
            parts = turn_pages(partial(select, looked_at=looked_at), limit)

            assert whole == [row.uid for part in parts for row in part]


def test_the_next_due_come_first(engine: sa.Engine):
    """Only those that will be due, in parts of one, some due at once."""
    later = MONDAY + timedelta(hours=1)
    for uid, at in {
        "app-cron": later,
        "other-cron": MONDAY,
        "app-both": MONDAY,
        "app-idle": MONDAY,
        "app-bad": MONDAY,
    }.items():
        edit_action(engine, uid, next_due_at=at)
    for uid in ("other-both", "app-on", "other-on"):
        edit_action(engine, uid, next_due_at=None)

    def walk(**wanted: Any) -> list[str]:
        asked = ActionFilterModel(**wanted)
        how: dict[str, Any] = {"order": Order.NEXT, "looked_at": 2}
        parts = turn_pages(
            lambda page: read_by(engine, select_part, asked, page, **how), 1
        )
        return [row.uid for part in parts for row in part]

    assert ["app-both", "other-cron", "app-cron"] == walk()
    assert ["app-both", "app-cron"] == walk(app="app")
    assert ["other-cron", "app-cron"] == walk(queue=Queue.HEAVY)
    assert ["app-cron"] == walk(uids=frozenset({"app-cron", "app-idle", "unknown"}))
    of_names = Page(1, ("app", "name", "uid"))
    with pytest.raises(UsageError):
        read_by(engine, select_part, ActionFilterModel(), of_names, order=Order.NEXT)
