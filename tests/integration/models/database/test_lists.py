"""What is asked for by its keys is found by them, and nothing else is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from actions.read_actions import fetch_documents
from actions.read_rules import fetch_zones
from tests.database import note_walks, read_by


@pytest.mark.parametrize("fetch", [fetch_documents, fetch_zones])
def test_sqlite_finds_revisions_by_their_keys(
    sqlite_engine: sa.Engine, fetch: Callable[..., Any]
):
    """Each page that has some operations read all revisions that there are."""
    walked = note_walks(sqlite_engine)

    read_by(sqlite_engine, fetch, [("daily", 1), ("weekly", 2)])

    assert set() == walked
