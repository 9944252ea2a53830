"""``events send``."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.cli.calling import Call

NEVER = "2026-01-01T00:00:00Z"


def test_events_are_sent_by_options_and_by_file(call: Call, shop: Path):
    seen = datetime.now(UTC).replace(microsecond=0).isoformat()
    name = "instance.user.last_seen"
    path = shop / "events.jsonl"
    line = json.dumps({"event": name, "user": "ada@example.com", "at": seen})
    path.write_text(f"{line}\n{line}\n")
    options = ("--event", name, "--user", "ada@example.com", "--at", seen)

    by_options = call("events", "send", "--app", "shop", *options, "--json")
    by_file = call("events", "send", str(path), "--app", "shop", "--json")
    wrong = call(
        *("events", "send", "--app", "shop", "--event", "seen"),
        *("--user", "ada@example.com"),
    )

    assert {"received": 1, "recorded": 1} == by_options.data
    assert {"received": 2, "recorded": 0} == by_file.data
    assert (3, "") == (wrong.code, wrong.out)


def test_event_that_is_yet_to_come_is_taken_and_told(call: Call, shop: Path):
    """A date of next year is probably a mistake, which --correct undoes."""
    later = (datetime.now(UTC) + timedelta(days=400)).replace(microsecond=0)
    name, user = "instance.user.last_seen", "ada@example.com"
    path = shop / "events.json"
    path.write_text(
        json.dumps(
            [
                {"event": name, "user": user, "at": NEVER},
                {"event": name, "user": user, "at": later.isoformat()},
            ]
        )
    )

    wrong = call("events", "send", str(path), "--app", "shop", "--json")
    right = call(
        *("events", "send", "--app", "shop", "--event", name, "--user", user),
        *("--at", NEVER, "--correct", "--json"),
    )

    assert {"received": 2, "recorded": 1} == wrong.data
    assert wrong.err.startswith(f"warning: /1/at: {later:%Y-%m-%dT%H:%M:%SZ} is ")
    assert "--correct" in wrong.err
    assert ({"received": 1, "recorded": 1}, "") == (right.data, right.err)


@pytest.mark.usefixtures("shop")
def test_time_of_an_event_is_typed_as_any_other(call: Call):
    """A distance from the present, too; nonsense is told as everywhere."""
    options = ("--event", "instance.user.last_seen", "--user", "ada@example.com")

    for at in ("-1h", "now"):
        sent = call("events", "send", "--app", "shop", *options, "--at", at, "--json")
        assert {"received": 1, "recorded": 1} == sent.data
    wrong = call("events", "send", "--app", "shop", *options, "--at", "soon")

    assert 2 == wrong.code
    assert "--at: 'soon' is not a time. Write now" in " ".join(wrong.err.split())


def test_file_may_have_cloud_events(call: Call, shop: Path):
    """The same source and id are the same event; what is yet to come is named."""
    path = shop / "events.json"
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "app.x",
        "subject": "ada@example.com",
    }
    late = {**event, "id": "2", "time": "2099-01-01T00:00:00Z"}
    path.write_text(json.dumps([event, late]))

    first = call("events", "send", str(path), "--app", "shop", "--json")
    again = call("events", "send", str(path), "--app", "shop", "--json")

    assert {"received": 2, "recorded": 2} == first.data
    assert {"received": 2, "recorded": 0} == again.data
    assert "/1/time" in first.err
