"""Pauses from the command line: who, since when, until when, and why."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from cli.connection import get_engine
from models.database.engine import read_clock
from models.fields.instants import format_instant
from tests.database import read_by
from tests.integration.cli.calling import Call, Configure, Post, write_action


@pytest.fixture(autouse=True)
def _posted(post: Post, configure: Configure) -> None:
    """Give every test an action, and somebody who changes it."""
    configure(ACTOR="ada@example.com")
    assert 0 == post().code


def make_until(hours: int = 24) -> str:
    later = read_by(get_engine(), read_clock) + timedelta(hours=hours)
    return format_instant(later.replace(microsecond=0))


def test_pause_is_shown_with_who_when_and_why(call: Call):
    """By list, show, status and why; to undo it, a command is named."""
    until = make_until()

    answer = call(
        "actions", "pause", "hello", "--note", "the shop moves", "--until", until
    )

    assert 0 == answer.code
    assert "To undo: minutehand actions resume hello" in answer.err
    assert "catch_up does not run them" in answer.err
    shown = call("actions", "show", "hello").out
    for word in ("by ada@example.com", "the shop moves"):
        assert word in shown
    pause = call("actions", "show", "hello", "--json").data["pause"]
    by = {"by": "ada@example.com", "note": "the shop moves"}
    assert {"until": until, "scope": "action", **by}.items() <= pause.items()
    (listed,) = call("actions", "list", "--json").data
    assert ("paused", pause) == (listed["state"], listed["pause"])
    assert listed["next"][0] >= until
    assert 1 == call("status", "--json").data["paused"]["actions"]


def test_app_is_paused_and_resumed(call: Call):
    assert 0 == call("apps", "pause", "shop", "--note", "deploy").code

    assert "deploy" in call("apps", "list").out
    assert "by ada@example.com: deploy" in call("apps", "show", "shop").out
    assert "app shop since" in call("status").out
    assert "with its app" in call("actions", "show", "hello").out
    assert 5 == call("actions", "resume", "hello").code
    resumed = call("apps", "resume", "shop")
    assert (0, "Resumed small app shop: 1 action.\n") == (resumed.code, resumed.out)
    assert 5 == call("apps", "resume", "shop").code
    (listed,) = call("actions", "list", "--json").data
    assert ("active", None) == (listed["state"], listed["pause"])


def test_all_is_paused_and_resumed(call: Call):
    call("actions", "pause", "hello")

    paused = call("apps", "pause", "--all", "--json").data
    resumed = call("apps", "resume", "--all")

    assert {"app": None, "actions": 0}.items() <= paused.items()
    assert "installation" == paused["pause"]["scope"]
    assert "Resumed all small apps: 0 actions." in resumed.out
    assert "1 action stays paused" in resumed.err


def test_action_that_ends_its_pause_runs_in_the_tick(call: Call):
    """Also in a tick of another time."""
    until = make_until()
    call("apps", "pause", "shop", "--until", until)

    assert 0 == call("tick", "--at", make_until(48)).code

    (listed,) = call("actions", "list", "--app", "shop", "--json").data
    assert ("active", until) == (listed["state"], listed["effective_from"])


def test_status_and_list_show_one_instant_of_one_run(call: Call, post: Post):
    """Its occurrence; with jitter also when it is sent."""
    post("--replace", jitter="PT30M")

    (listed,) = call("actions", "list", "--json").data
    (following,) = call("status", "--json").data["next_due"]

    assert listed["next"][0] == following["occurrence"]
    if following["next_due_at"] != following["occurrence"]:
        assert ", sent " in call("actions", "show", "hello").out
        assert ", sent " in call("status").out


def test_event_driven_action_is_not_run_for_all_by_mistake(call: Call, shop: Path):
    """It says how to run it for one user; --yes means all its recipients."""
    document = write_action(
        shop, name="welcome", uid="welcome", when={"on": "instance.user.created"}
    )
    assert 0 == call("actions", "post", document, "--app", "shop").code

    refused = call("actions", "run", "welcome")

    assert 2 == refused.code
    assert "--user ID runs it for one user" in refused.err
    assert [] == call("operations", "list", "--json").data
    assert 0 == call("actions", "run", "welcome", "--yes").code
    one = ("--user", "ada@example.com")
    assert 0 == call("actions", "run", "welcome", *one).code
