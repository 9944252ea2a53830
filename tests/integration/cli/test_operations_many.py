"""Many operations canceled or tried again from the command line: counted first."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from cli.connection import get_engine
from models.database.tables import operations
from tests.database import execute
from tests.integration.cli.calling import Call, Post

COUNT = 3


@pytest.fixture
def runs(call: Call, post: Post) -> list[str]:
    """Give the ids of three manual runs that wait."""
    assert 0 == post().code
    return [
        call("actions", "run", "hello", "--key", str(n), "--json").data["id"]
        for n in range(COUNT)
    ]


def count(call: Call, state: str) -> int:
    return len(call("operations", "list", "--state", state, "--json").data)


def set_all(**values: object) -> None:
    execute(get_engine(), sa.update(operations).values(**values))


@pytest.mark.usefixtures("runs")
def test_many_are_counted_before_they_are_canceled(call: Call):
    """A dry run changes nothing; without anybody to ask, --yes must say so."""
    looked = call("operations", "cancel", "--app", "shop", "--dry-run")
    refused = call("operations", "cancel", "--app", "shop")
    assert (0, 2) == (looked.code, refused.code)
    assert "Matched 3: 3 pending; by app: shop 3." in looked.out
    assert "Cancel 3 operations?" in refused.err
    assert "--yes, or --dry-run" in refused.err
    assert COUNT == count(call, "pending")

    done = call("operations", "cancel", "--app", "shop", "--yes")

    assert (0, "Canceled 3 of 3.\n") == (done.code, done.out)
    assert COUNT == count(call, "canceled")


@pytest.mark.usefixtures("runs")
def test_program_reads_counts_and_refusals(call: Call):
    set_all(state="failed", overlap="skip")

    first = call("operations", "retry", "--all", "--yes", "--json")
    second = call("operations", "retry", "--all", "--yes", "--json")

    assert {
        "matched": 3,
        "by_state": {"failed": 3},
        "by_app": {"shop": 3},
        "changed": 1,
        "refused": {"overlap": 2},
        "dry_run": False,
    } == first.data
    assert (0, 5) == (first.code, second.code)
    assert {"overlap": 2} == second.data["refused"]
    assert (
        "2 left unchanged: overlap"
        in call("operations", "retry", "--state", "failed", "--yes").out
    )


@pytest.mark.usefixtures("shop")
def test_nothing_that_matches_is_no_error(call: Call):
    """A script may ask again."""
    answer = call("operations", "retry", "--all", "--json")

    assert (0, 0) == (answer.code, answer.data["matched"])
    assert "No operation matches" in call("operations", "cancel", "--all").out
