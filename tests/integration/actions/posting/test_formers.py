"""Which action another one follows: found by name or uid, never in a circle."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actions.posting.post import Posting, delete_action, find_refusals, post_actions
from actions.posting.refusals import make_given
from models.database.engine import writing
from models.door.documents import read_action_object
from models.errors import InvalidDocumentError
from overview.actions import describe_deletion, fetch_shown_action
from tests.database import read_by, write_by
from tests.scheduling import examine, fetch_action, post

HOOK = {"call_webhook": {"url": "https://example.com/hook"}}


pytestmark = pytest.mark.usefixtures("small_app", "other_app")


def add(engine: sa.Engine, name: str, after: str | None = None, **changes: Any) -> str:
    """Post an action, after another one if it is named; return its uid."""
    when = {"cron_rule": "0 7 * * *"} if after is None else {"after_action": after}
    posted = post(engine, name=name, operations=HOOK, when=when, **changes)
    return posted.uid


def refuse(
    engine: sa.Engine, name: str, after: str, **changes: Any
) -> tuple[str, str, str]:
    """Return what is wrong with such a post: pointer, message and hint."""
    with pytest.raises(InvalidDocumentError) as error:
        add(engine, name, after, **changes)
    (problem,) = error.value.problems
    return problem.pointer, problem.message, problem.hint


def post_all(engine: sa.Engine, *actions: dict[str, Any]) -> list[str]:
    read = [read_action_object({"operations": HOOK, **each}) for each in actions]
    how = Posting(replace=True)
    return [each.uid for each in write_by(engine, post_actions, "app", read, how)]


def after(name: str, former: str) -> dict[str, Any]:
    return {"name": name, "when": {"after_action": former}}


@pytest.mark.parametrize("former", ["nightly", "n-1"])
def test_action_is_found_by_name_or_uid(engine: sa.Engine, former: str):
    """Ticks do not look at what follows."""
    add(engine, "nightly", uid="n-1")

    row = fetch_action(engine, add(engine, "mail", former))

    assert ("n-1", "success", "PT0S") == (row.follows, row.follows_on, row.delay)
    assert (None, None, None) == (row.next_due_at, row.timing, row.event)


def test_unknown_action_is_refused_with_the_one_that_was_meant(engine: sa.Engine):
    """Those of other small apps are unknown, and so is what was deleted."""
    add(engine, "nightly")
    write_by(engine, delete_action, add(engine, "gone", uid="g-1"))
    post(engine, "other", name="hourly", operations=HOOK)

    assert (
        "/when/after_action",
        "Small app 'app' has no action 'nighly'.",
        "Did you mean 'nightly'?",
    ) == refuse(engine, "mail", "nighly")
    assert (
        "/when/after_action",
        "Small app 'app' has no action 'hourly'.",
        "Post that one first, or both together.",
    ) == refuse(engine, "mail", "hourly")
    assert "Small app 'app' has no action 'g-1'." == refuse(engine, "mail", "g-1")[1]


def test_deletion_of_what_others_follow_is_told(engine: sa.Engine):
    """Before it, and afterwards in each list, and by the doctor."""
    former, uid = add(engine, "nightly"), add(engine, "report", "nightly")
    with writing(engine) as connection:
        found = [fetch_shown_action(connection, each) for each in (former, uid)]
        told = [describe_deletion(connection, each) for each in (found[:1], found)]
        delete_action(connection, former)
        after = fetch_shown_action(connection, uid)

    assert told[0].endswith("again, and after which 'report' will never start")
    assert told[1].endswith("('nightly', 'report'), whose uids can never be used again")
    expected = "After 'nightly' succeeded; that is deleted, so it never starts"
    assert expected == after.sentence
    (left,) = examine(engine, "followers")
    told_by_doctor = "'report' (app app) starts after 'nightly', which is deleted"
    assert left.detail.startswith(told_by_doctor)


def test_circle_is_refused_when_an_edit_closes_it(engine: sa.Engine):
    """However long it is; it is named from its beginning to itself."""
    uid = add(engine, "a")
    add(engine, "b", "a")
    add(engine, "c", "b")

    found = refuse(engine, "a", "c", replace_it=True)

    expected = "It would start after itself: 'a' after 'c' after 'b' after 'a'."
    assert ("/when/after_action", expected) == found[:2]
    itself = "It would start after itself: 'd' after 'd'."
    assert itself == refuse(engine, "d", "d")[1]
    action = read_action_object({"operations": HOOK, **after("a", "c")})
    given = make_given(action, fetch_action(engine, uid))
    (told,) = read_by(engine, find_refusals, "app", given, Posting())
    assert expected == told.message


def test_actions_that_are_posted_together_find_each_other(engine: sa.Engine):
    """In whichever order; the pointer of a problem begins with the place."""
    first = {"name": "first", "when": {"cron_rule": "0 7 * * *"}}

    uids = post_all(engine, after("last", "middle"), after("middle", "first"), first)

    assert [uids[1], uids[2], None] == [fetch_action(engine, u).follows for u in uids]
    with pytest.raises(InvalidDocumentError) as error:
        post_all(engine, after("x", "y"), after("y", "x"), after("z", "gone"))
    places = [each.pointer for each in error.value.problems]
    assert [f"/{n}/when/after_action" for n in range(3)] == places


def test_follower_keeps_to_an_action_that_is_renamed(engine: sa.Engine):
    """Until its own document names another one."""
    uid = add(engine, "nightly", uid="n-1")
    mail = add(engine, "mail", "nightly", uid="m-1")
    post(engine, replace_it=True, uid=uid, name="nocturnal", operations=HOOK)

    add(engine, "letter", "nightly", uid=mail, replace_it=True)
    kept = fetch_action(engine, mail).follows
    hourly = add(engine, "hourly")
    add(engine, "letter", "hourly", uid=mail, replace_it=True)

    assert "n-1" == kept
    assert hourly == fetch_action(engine, mail).follows


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 4) | st.none()),
        min_size=1,
        max_size=12,
    )
)
def test_no_sequence_of_edits_makes_a_circle(
    engine: sa.Engine, edits: list[tuple[int, int | None]]
):
    """An edit is refused exactly if a walk over what is stored comes back to it."""
    plain = {"when": {"cron_rule": "0 7 * * *"}}
    post_all(engine, *({"name": f"n{n}", "uid": f"n{n}", **plain} for n in range(5)))
    edges: dict[int, int | None] = dict.fromkeys(range(5))
    for number, former in edits:
        at = former
        while at is not None and at != number:
            at = edges[at]
        asked = plain if former is None else {"when": {"after_action": f"n{former}"}}
        try:
            post_all(engine, {"name": f"n{number}", "uid": f"n{number}", **asked})
        except InvalidDocumentError:
            assert at == number
        else:
            assert at is None
            edges[number] = former
