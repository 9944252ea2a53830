"""What a small app has, by name."""

from __future__ import annotations

import sqlalchemy as sa

from actions.small_apps.export import fetch_group_names
from models.database.engine import reading
from tests.integration.actions.small_apps.shop import apply


def test_each_group_is_named_once(engine: sa.Engine):
    """However many members it has, and none of another app's."""
    users = [
        {"id": "a", "groups": ["staff", "all of us"]},
        {"id": "b", "groups": ["staff"]},
        {"id": "c", "groups": ["Zoë's"]},
    ]
    apply(engine, {"users": users})
    apply(engine, {"uid": "other", "users": [{"id": "a", "groups": ["theirs"]}]})
    apply(engine, {"uid": "empty", "users": [{"id": "a"}]})

    with reading(engine) as connection:
        found = {
            app: fetch_group_names(connection, app)
            for app in ("shop", "other", "empty", "unknown")
        }

    assert ["Zoë's", "all of us", "staff"] == sorted(found["shop"])
    assert (["theirs"], [], []) == (found["other"], found["empty"], found["unknown"])
