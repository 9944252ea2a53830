"""Users and groups of a small app are read part by part."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from actions.small_apps.export import (
    KnownGroup,
    UserFilter,
    fetch_group_names,
    fetch_group_part,
    fetch_user_part,
)
from models.database.engine import reading
from models.paging import Page
from tests.database import read_by, turn_pages
from tests.integration.actions.small_apps.shop import apply

DONE = "2026-01-01T00:00:00Z"
USERS = [
    {"id": "a", "name": "Ann 100%", "activated_at": DONE, "groups": ["x", "y"]},
    {"id": "b", "email": "bob@example.com", "disabled": True, "groups": ["x"]},
    {"id": "c", "expires_at": DONE, "activated_at": DONE},
    {"id": "d", "expires_at": "2100-01-01T00:00:00Z", "name": "Zoë"},
    {"id": "e_100", "groups": ["y"]},
]


@pytest.fixture(autouse=True)
def _app(engine: sa.Engine) -> None:
    apply(engine, {"users": USERS})
    apply(engine, {"uid": "other", "users": USERS})


def _find(engine: sa.Engine, wanted: UserFilter, limit: int = 50) -> str:
    """Return the ids of all parts in a row, with a space between two parts."""
    parts = turn_pages(
        lambda page: read_by(engine, fetch_user_part, "shop", wanted, page), limit
    )
    return " ".join("".join(each.id[0] for each in part) for part in parts)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (UserFilter(), "abcde"),
        (UserFilter(group="x"), "ab"),
        (UserFilter(group="all"), ""),
        (UserFilter(text="ANN"), "a"),
        (UserFilter(text="example.com"), "b"),
        (UserFilter(text="0%"), "a"),
        (UserFilter(text="_"), "e"),
        (UserFilter(inactive=True), "bc"),
        (UserFilter(inactive=False), "ade"),
        (UserFilter(inactivated=True), "bde"),
        (UserFilter(inactivated=False), "ac"),
        (UserFilter(group="x", inactive=True, inactivated=True), "b"),
    ],
)
def test_filters(engine: sa.Engine, wanted: UserFilter, found: str):
    """All that is given must hold; text is text, and no pattern."""
    assert found == _find(engine, wanted)


@pytest.mark.parametrize(
    ("limit", "found"), [(1, "a b c d e"), (2, "ab cd e"), (5, "abcde")]
)
def test_parts_are_the_whole(engine: sa.Engine, limit: int, found: str):
    assert found == _find(engine, UserFilter(), limit)


def test_part_ends_where_enough_was_looked_at(engine: sa.Engine):
    """It may be empty, and says where the list goes on."""
    wanted = UserFilter(text="zo")

    with reading(engine) as connection:
        first = fetch_user_part(connection, "shop", wanted, Page(), most=3)
        page = Page(after=first.following)
        second = fetch_user_part(connection, "shop", wanted, page, most=3)

    assert ([], ("c",)) == (first.entries, first.following)
    assert ["d"] == [each.id for each in second.entries]
    assert second.following is None


def test_groups_are_counted(engine: sa.Engine):
    parts = turn_pages(lambda page: read_by(engine, fetch_group_part, "shop", page), 1)

    assert [[KnownGroup("x", 2)], [KnownGroup("y", 2)]] == parts


def test_each_group_is_named_once(engine: sa.Engine):
    """However many members it has, and none of another app's."""
    apply(engine, {"uid": "third", "users": [{"id": "a", "groups": ["Zoë's", "all"]}]})
    apply(engine, {"uid": "empty", "users": [{"id": "a"}]})

    with reading(engine) as connection:
        found = {
            app: sorted(fetch_group_names(connection, app))
            for app in ("shop", "third", "empty", "unknown")
        }

    assert {"shop": ["x", "y"], "third": ["Zoë's", "all"]}.items() <= found.items()
    assert ([], []) == (found["empty"], found["unknown"])
