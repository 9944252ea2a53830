"""The load that is coming, from the command line."""

from __future__ import annotations

from pathlib import Path

from tests.integration.cli.calling import Call, write_action

DAY = ("--from", "2031-01-06T00:00Z", "--until", "2031-01-07T00:00Z")


def test_hot_minutes_are_shown_with_their_actions(call: Call, shop: Path):
    """And in full for programs."""
    assert 0 == call("actions", "post", write_action(shop), "--app", "shop").code

    shown = call("load", *DAY)
    data = call("load", *DAY, "--app", "shop", "--json").data

    assert 0 == shown.code
    for words in ("1 (1 quick)", "hello (shop)"):
        assert words in shown.out
    assert (1, {"quick": 1}, False) == (
        data["total"],
        data["by_queue"],
        data["is_partial"],
    )
    assert [{"uid": "hello", "app": "shop", "name": "hello"}] == (
        data["hot"][0]["actions"]
    )


def test_what_is_not_foreseen_is_said(call: Call, shop: Path):
    """Instead of an empty answer that looks complete."""
    event = write_action(shop, when={"on": "app.sold"})
    assert 0 == call("actions", "post", event, "--app", "shop").code

    shown = call("load", *DAY).out

    assert "1 driven by events" in shown
    assert "hot minute" not in shown


def test_period_of_more_than_a_week_is_refused(call: Call):
    """With exit code 2, and what to do."""
    answer = call("load", "--from", "2031-01-06T00:00Z", "--until", "2031-02-06T00:00Z")

    assert 2 == answer.code
    assert "Ask for a shorter period" in answer.err
