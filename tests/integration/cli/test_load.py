"""The load that is coming, from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.cli.calling import Call, write_action

DAY = ("--from", "2031-01-06T00:00Z", "--until", "2031-01-07T00:00Z")


def test_hot_minutes_are_shown_with_their_actions(call: Call, shop: Path):
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


def test_quiet_windows_are_shown_with_what_another_time_costs(call: Call, shop: Path):
    """The action at 06:00Z is late if the database is away for a few minutes then."""
    assert 0 == call("actions", "post", write_action(shop), "--app", "shop").code
    six = ("--at", "2031-01-06T05:58Z")

    shown = call("load", *DAY, "--quiet", "PT4M", *six).out
    data = call("load", *DAY, "--quiet", "PT20M", *six, "--json").data["quiet"]

    for words in ("1 late, 0 missed", "hello (shop)", "nothing is due from", "6 h"):
        assert words in shown
    assert "hot minute" not in shown
    assert None is data["cheapest"]
    assert [
        {"from": "2031-01-06T00:00:00Z", "until": "2031-01-06T06:00:00Z"},
        {"from": "2031-01-06T06:01:00Z", "until": "2031-01-07T00:00:00Z"},
    ] == data["windows"]
    assert (0, 1) == (data["outage"]["late"], data["outage"]["missed"])


def test_without_a_quiet_window_the_cheapest_time_is_told(call: Call, shop: Path):
    """With whose runs it costs; and a week is looked at if no end is given."""
    often = write_action(shop, when={"cron_rule": "*/10 * * * *"})
    assert 0 == call("actions", "post", often, "--app", "shop").code

    data = call("load", *DAY[:2], "--quiet", "PT20M", "--json").data
    shown = call("load", *DAY[:2], "--quiet", "PT20M").out

    assert "2031-01-13T00:00:00Z" == data["until"]
    cheapest = data["quiet"]["cheapest"]
    # of the runs at 00:10 and 00:20 the second is not too old at 00:21
    assert ("2031-01-06T00:01:00Z", 1, 1) == (
        *(cheapest["from"], cheapest["late"], cheapest["missed"]),
    )
    assert ["hello"] == [each["uid"] for each in cheapest["actions"]]
    assert "never for so long" in shown


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (("--until", "2031-02-06T00:00Z"), "Ask for a shorter period"),
        (("--at", "now"), "needs --quiet"),
        (("--quiet", "20m"), "PT20M"),
        (("--quiet", "PT0S"), "from PT1M"),
        (("--quiet", "P8D"), "from PT1M"),
        (("--quiet", "P1D", "--at", "2031-01-06T01:00Z"), "are not within"),
    ],
)
def test_what_does_not_fit_is_refused(call: Call, asked: tuple[str, ...], told: str):
    answer = call("load", *DAY, *asked)

    assert 2 == answer.code
    assert told in answer.err
