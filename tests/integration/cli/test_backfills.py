"""Backfills from the command line: listed, started, followed and canceled."""

from __future__ import annotations

import pytest

from actions.lease import Leader
from cli.connection import get_engine
from dispatch.backfills.progress import Backfiller
from tests.integration.cli.calling import Call, Configure, Post

WEEK = ("--from", "2026-01-05T00:00Z", "--until", "2026-01-12T00:00Z")


@pytest.fixture(autouse=True)
def _posted(post: Post, configure: Configure) -> None:
    """Give every test an action, and somebody who changes it."""
    configure(ACTOR="ada@example.com")
    assert 0 == post().code


def start(call: Call, *options: str) -> str:
    answer = call("actions", "backfill", "hello", *WEEK, "--yes", "--json", *options)
    assert 0 == answer.code
    return str(answer.data["id"])


def test_dry_run_lists_and_stores_nothing(call: Call):
    """Nor does a call that nobody can be asked about."""
    answer = call("actions", "backfill", "hello", *WEEK, "--dry-run")
    asked = call("actions", "backfill", "hello", *WEEK)

    assert 0 == answer.code
    assert 7 == answer.out.count("would run\n")
    assert "7 of 7 (7 nothing) would run" in answer.out
    assert [] == call("backfills", "list", "--json").data
    data = call("actions", "backfill", "hello", *WEEK, "--dry-run", "--json").data
    assert (7, {"nothing": 7}) == (data["total"], data["by_recorded"])
    assert "2026-01-05T06:00:00Z" == data["occurrences"][0]["occurrence"]
    assert 2 == asked.code
    assert "Run 7 occurrences of 'hello'? There is no terminal" in asked.err
    assert "would run" in asked.out


def test_progress_is_shown_until_the_end(call: Call):
    backfill = start(call, "--note", "the outage", "--at-once", "2")
    leader = Leader(get_engine())
    leader.hold()
    Backfiller(get_engine(), leader).look()

    shown = call("backfills", "show", backfill)
    data = call("backfills", "show", backfill, "--json").data

    for word in ("by ada@example.com", "the outage", "2 pending, 5 waiting"):
        assert word in shown.out
    assert ("running", {"pending": 2, "waiting": 5}) == (
        data["state"],
        data["progress"],
    )
    outcomes = [each["outcome"] for each in data["occurrences"]]
    assert ["recorded", "recorded", *["waiting"] * 5] == outcomes
    assert "other work" not in shown.out
    call("actions", "pause", "hello")
    assert "the action is paused" in call("backfills", "show", backfill).out
    first = data["occurrences"][0]["operation"]
    assert "backfill" == call("operations", "show", first, "--json").data["trigger"]


def test_cancel_says_what_was_canceled(call: Call):
    backfill = start(call)

    answer = call("backfills", "cancel", backfill)
    again = call("backfills", "cancel", backfill)

    assert (0, 5) == (answer.code, again.code)
    assert "0 waiting operations" in answer.out
    assert "is already canceled" in again.err
    (listed,) = call("backfills", "list", "--json").data
    assert ("stopping", "ada@example.com") == (listed["state"], listed["canceled_by"])
    assert "stopping" in call("backfills", "list", "--action", "hello").out


def test_nothing_to_run_is_no_error(call: Call):
    answer = call(
        *("actions", "backfill", "hello", "--from", "2026-01-05T08:00Z"),
        *("--until", "2026-01-05T09:00Z"),
    )

    assert 0 == answer.code
    assert "The rule is not due" in answer.out
