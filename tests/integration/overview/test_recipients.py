"""Who would get the mails of an action now, and why the others would not."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations, product
from typing import Any

import pytest
import sqlalchemy as sa

from models.database.engine import reading
from models.database.tables import memberships, users
from models.operation import RecipientFilterModel, Standing
from models.paging import Page
from operations.adapters.app_users import count_left_out, fetch_users
from operations.recipients import INSIDE, judge
from overview.recipients import RecipientPart, fetch_recipient_part
from tests.database import execute, read_by
from tests.scheduling import DAY, MONDAY, add_app, get_now, post

FLAGS = (
    "include_inactivated_users",
    "include_inactive_users",
    "only_inactivated_users",
    "only_inactive_users",
)
MAIL = {"send_email": {"template": "t"}}
ALL = Page(200)


@pytest.fixture(autouse=True)
def _users(engine: sa.Engine) -> None:
    """Give every test an app with users of all kinds, and another app."""
    add_app(engine, "other", ids=["a1", "zoe"])
    add_app(engine)
    past = get_now(engine) - DAY
    ends = (None, past, past + 9 * DAY)
    kinds = product((None, MONDAY), (True, False), ends, (None, "g"))
    rows, members = [], []
    for number, (activated_at, disabled, expires_at, group) in enumerate(kinds):
        uid = f"u{number:02}"
        row = {"app": "app", "id": uid, "email": f"{uid}@x", "disabled": disabled}
        rows.append({**row, "activated_at": activated_at, "expires_at": expires_at})
        if group is not None:
            members.append({"app": "app", "user_id": uid, "group_name": group})
    execute(engine, sa.insert(users), rows)
    execute(engine, sa.insert(memberships), members)


def ask(engine: sa.Engine, uid: str, page: Page = ALL, **options: Any) -> RecipientPart:
    return read_by(engine, fetch_recipient_part, uid, page, **options)


@pytest.mark.parametrize("on_event", [True, False])
@pytest.mark.parametrize(
    "named",
    [
        {},
        {"groups": ("all",)},
        {"groups": ("g",)},
        {"groups": ("g", "h")},
        {"users": ("u00", "u13@x", "zoe"), "groups": ("h",)},
    ],
)
def test_count_agrees_with_the_rule(
    engine: sa.Engine, named: dict[str, Any], *, on_event: bool
):
    """What is counted in SQL is what the rule says of each user."""
    now = get_now(engine)
    for flags in chain.from_iterable(combinations(FLAGS, n) for n in range(5)):
        who = RecipientFilterModel(**named, **dict.fromkeys(flags, True))
        with reading(engine) as connection:
            everybody = fetch_users(connection, "app")
            told = count_left_out(connection, "app", who, now=now, on_event=on_event)
        standings = [judge(who, u, now=now, on_event=on_event) for u in everybody]

        left_out = Counter(standings)
        for each in (*INSIDE, Standing.NOT_NAMED):
            left_out.pop(each, None)
        inside = sum(each in INSIDE for each in standings)
        assert (inside, left_out) == told, flags


def test_each_user_has_a_reason(engine: sa.Engine):
    """By id, with the reason in words; how many are in is said beside."""
    uid = post(engine, operations=MAIL, recipients={"users": ["u22"]}).uid

    found = ask(engine, uid)

    reasons = {each.user: each.reason for each in found.part.entries}
    assert 1 == found.count
    assert "named as 'u22'" == reasons["u22"]
    assert "neither the user nor any of their groups is named" == reasons["u23"]
    assert sorted(reasons) == list(reasons)
    assert "zoe" not in reasons


def test_unknown_names_are_told(engine: sa.Engine):
    """A user of another app is as unknown as one that never was."""
    who = {"users": ["zoe"], "groups": ["h"]}
    uid = post(engine, operations=MAIL, recipients=who).uid

    assert ["/recipients/users/0", "/recipients/groups/0"] == [
        each.pointer for each in ask(engine, uid).unknown
    ]


def test_event_driven_action_is_for_whoever_triggers_it(engine: sa.Engine):
    """Without recipients: everybody whose account is active, activated or not."""
    uid = post(engine, operations=MAIL, when={"on": "instance.user.created"}).uid

    found = ask(engine, uid)

    assert found.on_event
    assert sum(each.is_in for each in found.part.entries) == found.count == 8
