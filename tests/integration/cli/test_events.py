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


def test_event_that_is_yet_to_come_is_refused(call: Call, shop: Path):
    """With all that was sent with it; a user whom the app lacks is not found."""
    later = (datetime.now(UTC) + timedelta(days=400)).replace(microsecond=0)
    name, user = "instance.user.last_seen", "ada@example.com"
    sent = [
        {"event": name, "user": user, "at": at} for at in (NEVER, later.isoformat())
    ]
    path = shop / "events.json"
    path.write_text(json.dumps(sent))

    wrong = call("events", "send", str(path), "--app", "shop")
    path.write_text(json.dumps(sent[0]))
    right = call("events", "send", str(path), "--app", "shop", "--json")
    stranger = ("--event", name, "--user", "bob")
    lost = call("events", "send", "--app", "shop", *stranger)

    assert 3 == wrong.code
    assert f"/1/at: {later:%Y-%m-%dT%H:%M:%SZ} is yet to come." in wrong.err
    assert {"received": 1, "recorded": 1} == right.data
    assert 4 == lost.code


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
    """The same source and id are the same event."""
    path = shop / "events.json"
    event = {
        "specversion": "1.0",
        "id": "1",
        "source": "/shop",
        "type": "app.x",
        "subject": "ada@example.com",
    }
    path.write_text(json.dumps([event, {**event, "id": "2"}]))

    first = call("events", "send", str(path), "--app", "shop", "--json")
    again = call("events", "send", str(path), "--app", "shop", "--json")

    assert {"received": 2, "recorded": 2} == first.data
    assert {"received": 2, "recorded": 0} == again.data
