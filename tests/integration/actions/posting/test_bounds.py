"""What an operator lets the actions of one small app be together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import (
    Refusal,
    pause_action,
    pause_many,
    resume_action,
    resume_many,
)
from actions.pausing.targets import pause_target
from actions.posting.post import Posting, delete_action, post_action, post_actions
from actions.read_actions import get_action_state
from models.database.engine import writing
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError
from models.fields.app_bounds import read_app_bounds
from models.requests.notes import UNTIL_RESUMED
from models.revision import ActionState
from tests.database import is_waiting_for_lock, write_by
from tests.scheduling import TASK, examine, fetch_action, post
from tests.servers import wait_until

HOURLY = {"cron_rule": "0 * * * *"}


pytestmark = pytest.mark.usefixtures("small_app", "other_app")


def make(name: str, when: object = HOURLY, **changes: Any) -> Any:
    return read_action_object(
        {"name": name, "operations": TASK, "when": when, **changes}
    )


def bound(text: str, *, replace: bool = False) -> Posting:
    return Posting(replace, bounds=read_app_bounds(text))


def refuse(engine: sa.Engine, how: Posting, *actions: Any) -> list[tuple[str, str]]:
    """Return the pointers and messages with which a post is refused."""
    with pytest.raises(InvalidDocumentError) as error, writing(engine) as connection:
        post_actions(connection, "app", actions, how)
    return [(each.pointer, each.message) for each in error.value.problems]


def test_actions_are_bounded_by_their_number(engine: sa.Engine):
    """New ones alone count; the app's own bound goes before that of all."""
    how = bound('{"*": {"actions": 1}, "app": {"actions": 2}}', replace=True)
    post(engine, name="a")
    gone = post(engine, name="b").uid
    post(engine, "other", name="c")

    found = refuse(engine, how, make("d"), make("e"))

    message = "Small app 'app' would have 4 of at most 2 actions."
    assert [("/1", message)] == found
    with writing(engine) as connection:
        post_action(connection, "app", make("a", {"every": "PT5M"}), how)
        delete_action(connection, gone)
        post_action(connection, "app", make("d"), how)


@pytest.mark.parametrize(
    "when",
    [
        {"every": "PT4M"},
        {"cron_rule": "*/4 * * * *"},
        [HOURLY, {"cron_rule": "3 7 1 * *"}],
    ],
)
def test_intervals_are_bounded(engine: sa.Engine, when: object):
    """Also between two rules of one action that seldom meet."""
    how = bound('{"*": {"shortest_interval": "PT5M"}}')

    ((pointer, message),) = refuse(engine, how, make("often", when))

    assert "/0/when" == pointer
    assert message.endswith("the shortest interval of this small app is 5 min.")
    with writing(engine) as connection:
        post_action(connection, "app", make("seldom"), how)
        post_action(connection, "app", make("idle", when, active=False), how)


def test_runs_of_all_actions_are_bounded_by_the_hour(engine: sa.Engine):
    """What an action that is replaced does no more is not counted."""
    how = bound('{"*": {"runs_an_hour": 20}}', replace=True)
    post(engine, name="a", when={"cron_rule": "*/5 * * * *"})

    ((pointer, message),) = refuse(engine, how, make("b", {"every": "PT5M"}))

    assert "/0/when" == pointer
    assert message.startswith(
        "Small app 'app' would have 24 of at most 20 runs an hour"
    )
    with writing(engine) as connection:
        post_action(connection, "app", make("a", {"every": "PT4M"}), how)
        post_action(connection, "app", make("b", HOURLY), how)


@pytest.mark.parametrize(
    "text", ['{"*": {"actions": 2}}', '{"*": {"runs_an_hour": 30}}']
)
def test_bounds_hold_for_two_who_post_at_once(postgres_engine: sa.Engine, text: str):
    """The second waits for the first, and is refused; another small app is free."""
    often = {"cron_rule": "*/4 * * * *"}
    post(postgres_engine, name="a", when=HOURLY)
    with ThreadPoolExecutor() as pool:
        with writing(postgres_engine) as connection:
            post_action(connection, "app", make("b", often), bound(text))
            second = pool.submit(refuse, postgres_engine, bound(text), make("c", often))
            wait_until(
                lambda: second.done() or is_waiting_for_lock(postgres_engine),
                what="the second post",
            )
            with writing(postgres_engine) as other:
                post_action(other, "other", make("c", often), bound(text))
        ((_, message),) = second.result()

    assert message.startswith("Small app 'app' would have 3")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"*": {"runs_an_hour": 16}}', "would have 18 of at most 16 runs an hour"),
        ('{"app": {"shortest_interval": "PT10M"}}', "shortest interval of this small"),
    ],
)
def test_what_is_resumed_is_held_to_bounds(engine: sa.Engine, text: str, told: str):
    """One is refused with the number; of many, those of other apps go on."""
    bounds = read_app_bounds(text)
    often = {"cron_rule": "*/5 * * * *"}
    uids = [
        post(engine, name="a", when=often).uid,
        post(engine, "other", name="b", when=HOURLY).uid,
    ]
    post(engine, name="c", when={"cron_rule": "*/10 * * * *"})
    write_by(engine, pause_many, uids, UNTIL_RESUMED)

    with pytest.raises(InvalidDocumentError) as error, writing(engine) as connection:
        resume_action(connection, uids[0], bounds=bounds)
    many = write_by(engine, resume_many, uids, None, bounds)

    (problem,) = error.value.problems
    assert told in problem.message
    assert (1, {Refusal.TOO_MUCH: 1}) == (many.done, many.refused)
    assert ActionState.PAUSED == get_action_state(fetch_action(engine, uids[0]))
    assert write_by(engine, resume_action, uids[0])


def test_paused_action_is_resumed_with_its_app_only(engine: sa.Engine):
    """In a paused app it stays paused, so that nothing is more than it was."""
    uid = post(engine, name="a", when={"cron_rule": "* * * * *"}).uid
    bounds = read_app_bounds('{"*": {"runs_an_hour": 20}}')
    with writing(engine) as connection:
        pause_action(connection, uid, UNTIL_RESUMED)
        pause_target(connection, "app", UNTIL_RESUMED)

        assert resume_action(connection, uid, bounds=bounds)


def test_doctor_names_bounds_of_no_app(engine: sa.Engine):
    """Such as by a typo: they would bound nothing."""
    text = '{"*": {"actions": 1}, "x": {}}'

    (found,) = examine(engine, "bounds", APP_BOUNDS=text)

    assert "MINUTEHAND_APP_BOUNDS names 'x', which is no small app" == found.detail
