"""A few letters or digits find an action, an operation or a small app."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from tests.database import read_by
from tests.scheduling import add_app, copy_action, make_operation, post, record_all
from web.search.fetch_search import HitKind, Hits, search

OPERATION = make_operation(0, app="shop", action_uid="weekly-report")


@pytest.fixture(autouse=True)
def _things(engine: sa.Engine) -> None:
    """Give two small apps with actions, and an operation."""
    add_app(engine, "shop")
    add_app(engine, "bookshop")
    post(engine, "shop", name="Weekly report", uid="weekly-report")
    post(engine, "shop", name="Weekly report 100%", uid="other")
    post(engine, "bookshop", name="Daily", uid="daily")
    record_all(engine, OPERATION)


def find(engine: sa.Engine, text: str, **options: Any) -> Hits:
    return read_by(engine, search, text, **options)


def name(hits: Hits) -> list[tuple[HitKind, str]]:
    return [(each.kind, each.id) for each in hits.entries]


def test_part_of_a_name_finds_all_kinds(engine: sa.Engine):
    """The one that is called so comes first, whatever the case."""
    assert [(HitKind.APP, "shop"), (HitKind.APP, "bookshop")] == name(
        find(engine, " SHOP ")
    )
    assert [(HitKind.ACTION, "weekly-report"), (HitKind.ACTION, "other")] == name(
        find(engine, "weekly report")
    )


def test_only_hit_is_where_one_wants_to_go(engine: sa.Engine):
    """The only exact one is it too; several are a choice."""
    only = find(engine, "weekly report").only

    assert only is not None
    assert "weekly-report" == only.id
    assert find(engine, "weekly").only is None
    assert find(engine, "%").only is not None
    assert find(engine, "nothing").only is None


@pytest.mark.parametrize("length", [6, 12, 36])
def test_operation_is_found_by_its_id(engine: sa.Engine, length: int):
    """Or by its beginning."""
    text = str(OPERATION.id)[:length]

    assert [(HitKind.OPERATION, str(OPERATION.id))] == name(find(engine, text))


def test_what_belongs_to_others_is_not_found(engine: sa.Engine):
    """Neither by name nor by id."""
    for text in ("shop", "weekly", "weekly-report", str(OPERATION.id)):
        found = find(engine, text, app="bookshop")
        assert {"bookshop"} >= {each.app for each in found.entries}


def test_blank_finds_nothing(engine: sa.Engine):
    """And what is too much is cut."""
    assert [] == name(find(engine, "  "))
    assert [] == name(find(engine, "x" * 10_000))


def test_bound_is_told(engine: sa.Engine):
    """There may be more."""
    found = find(engine, "weekly", limit=1)

    assert (1, False, None) == (len(found.entries), found.is_whole, found.only)


def test_names_and_uids_are_one_list(engine: sa.Engine):
    """The order is that of the names, wherever the text was found."""
    post(engine, "shop", name="Another weekly", uid="first")
    post(engine, "shop", name="Zebra", uid="weekly-last")
    uids = ["first", "weekly-report", "other", "weekly-last"]

    assert [(HitKind.ACTION, uid) for uid in uids] == name(find(engine, "weekly"))
    part = find(engine, "weekly", limit=2)
    assert (uids[:2], False) == ([each.id for each in part.entries], part.is_whole)


def test_uids_of_very_many(engine: sa.Engine):
    """Those of a part are the first in the order of the list."""
    uids = copy_action(engine, "daily", 1_100, app="bookshop")

    found = find(engine, "copy", limit=5)

    assert not found.is_whole
    assert uids[:5] == [each.id for each in found.entries]
    own = find(engine, "copy", limit=5, app="shop")
    assert ((), True) == (own.entries, own.is_whole)
