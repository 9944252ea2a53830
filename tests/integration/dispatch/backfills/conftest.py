"""What most tests of backfills have: the daily action, and who records a backfill."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from dispatch.backfills.progress import Backfiller
from tests.integration.dispatch.backfills.backfilling import make_backfiller, post_daily


@pytest.fixture
def uid(engine: sa.Engine) -> str:
    """Give the uid of the daily action."""
    return post_daily(engine)


@pytest.fixture
def backfiller(engine: sa.Engine) -> Backfiller:
    """Give the one of a leader."""
    return make_backfiller(engine)
