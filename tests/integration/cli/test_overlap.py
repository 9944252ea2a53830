"""What people ask for by hand keeps to ``overlap``."""

from __future__ import annotations

import pytest

from tests.integration.cli.calling import WEEKLY, Call


@pytest.fixture
def weekly(call: Call, shop: object) -> Call:
    """Give the command line, with an action that skips what overlaps."""
    del shop
    assert call("actions", "post", str(WEEKLY), "--app", "shop").code == 0
    return call


def test_retry_beside_another_run_is_a_conflict_that_names_it(weekly: Call):
    """Exit 5; when the other is over, the retry is let through."""
    old = weekly("actions", "run", "weekly update").out.strip()
    weekly("operations", "cancel", old)
    new = weekly("actions", "run", "weekly update").out.strip()

    refused = weekly("operations", "retry", old)
    weekly("operations", "cancel", new)
    retried = weekly("operations", "retry", old)

    assert (5, 0) == (refused.code, retried.code)
    assert f"operation {new} of the same action is under way" in refused.err
