"""The load that is coming, from the command line."""

from __future__ import annotations

import pytest

from tests.integration.cli.calling import Call, Post

DAY = ("--from", "2031-01-06T00:00Z", "--until", "2031-01-07T00:00Z")


@pytest.fixture(autouse=True)
def _posted(post: Post) -> None:
    """Give every test an action of a time, and one that is not foreseen."""
    event = {"name": "on sale", "uid": "sale", "when": {"on": "app.sold"}}
    for document in (event, {}):
        assert 0 == post(**document).code


def test_hot_minutes_are_shown_with_their_actions(call: Call):
    """And what is not foreseen, instead of an answer that looks complete."""
    shown = call("load", *DAY)
    data = call("load", *DAY, "--app", "shop", "--json").data

    assert 0 == shown.code
    for words in ("1 (1 quick)", "hello (shop)", "1 driven by events"):
        assert words in shown.out
    expected = {"total": 1, "by_queue": {"quick": 1}, "is_partial": False}
    assert expected.items() <= data.items()
    assert [{"uid": "hello", "app": "shop", "name": "hello"}] == (
        data["hot"][0]["actions"]
    )


def test_quiet_windows_are_shown_with_what_another_time_costs(call: Call):
    """The action at 06:00Z is late if the database is away for a few minutes then."""
    six = ("--at", "2031-01-06T05:58Z")

    shown = call("load", *DAY, "--quiet", "PT4M", *six).out
    data = call("load", *DAY, "--quiet", "PT20M", *six, "--json").data["quiet"]

    for words in ("1 late, 0 missed", "hello (shop)", "nothing is due from", "6 h"):
        assert words in shown
    assert "hot minute" not in shown
    assert None is data["cheapest"]
    assert {"from": "2031-01-06T00:00:00Z", "until": "2031-01-06T06:00:00Z"} == (
        data["windows"][0]
    )
    assert (0, 1) == (data["outage"]["late"], data["outage"]["missed"])


def test_without_a_quiet_window_the_cheapest_time_is_told(call: Call, post: Post):
    """With whose runs it costs; and a week is looked at if no end is given."""
    assert 0 == post("--replace", when={"cron_rule": "*/10 * * * *"}).code

    data = call("load", *DAY[:2], "--quiet", "PT20M", "--json").data
    shown = call("load", *DAY[:2], "--quiet", "PT20M").out

    assert "2031-01-13T00:00:00Z" == data["until"]
    actions = data["quiet"]["cheapest"]["actions"]
    assert ["hello"] == [each["uid"] for each in actions]
    assert "never for so long" in shown
