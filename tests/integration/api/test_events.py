"""Events over HTTP: sent in each form, listed, and what they led to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from models.role import Role
from tests.integration.api.conftest import APP, Web

EVENTS = f"/apps/{APP}/events"
CLOUD = {
    "specversion": "1.0",
    "id": "1",
    "source": "/shop",
    "type": "app.x",
    "subject": "ada",
}


def _send(web: Web, body: Any, kind: str = "json", **headers: str) -> Any:
    return web.ask(
        "POST",
        EVENTS,
        role=Role.OPERATOR,
        headers={"Content-Type": f"application/{kind}", **headers},
        content=body if isinstance(body, bytes) else json.dumps(body),
    )


def _outcomes(answer: Any) -> list[str]:
    return [each["outcome"] for each in answer.json()["events"]]


def test_the_same_event_in_each_form_is_one(web: Web):
    """Structured, in a batch, and binary with data of any kind."""
    headers = {f"ce-{name}": value for name, value in CLOUD.items()}
    answers = [
        _send(web, CLOUD, "cloudevents+json; charset=utf-8"),
        _send(web, [CLOUD, {**CLOUD, "id": "2"}], "cloudevents-batch+json"),
        _send(web, b'{"any": "data"}', **headers),
        _send(web, b"\xff\x00", "octet-stream", **headers),
        web.ask("POST", EVENTS, headers=headers),
    ]

    assert [202] * 5 == [answer.status_code for answer in answers]
    assert [["recorded"], ["known", "recorded"], ["known"], ["known"], ["known"]] == [
        _outcomes(answer) for answer in answers
    ]
    ids = {answer.json()["events"][0]["id"] for answer in answers}
    assert 1 == len(ids)
    assert (2, 1) == (answers[1].json()["received"], answers[1].json()["recorded"])


def test_our_own_form_is_taken(web: Web):
    """One, a list, or one on each line."""
    one = {"event": "app.x", "user": "ada", "key": "1"}
    lines = "\n".join(json.dumps({**one, "key": key}) for key in "12").encode()

    assert ["recorded"] == _outcomes(_send(web, one))
    assert ["known"] == _outcomes(_send(web, [one]))
    assert ["known", "recorded"] == _outcomes(_send(web, lines))


@pytest.mark.parametrize(
    ("kind", "body", "pointers"),
    [
        ("json", {"event": "app.x", "user": "eve"}, ["/user"]),
        ("json", [{"event": "app.x", "user": "eve"}], ["/0/user"]),
        ("cloudevents+json", {**CLOUD, "subject": "eve"}, ["/subject"]),
        ("cloudevents-batch+json", [CLOUD, {**CLOUD, "type": "x"}], ["/1/type"]),
        ("cloudevents+json", [CLOUD], [""]),
        ("json", [], [""]),
        ("json", b"{", [""]),
    ],
)
def test_refusal_says_where_and_records_nothing(
    web: Web, kind: str, body: Any, pointers: list[str]
):
    """In the names of the form that was sent."""
    refused = _send(web, body, kind)

    assert 422 == refused.status_code
    assert pointers == [each["pointer"] for each in refused.json()["errors"]]
    assert [] == web.get("/events").json()["items"]


def test_too_many_are_refused(web: Web):
    """One sending is one transaction."""
    events = [{"event": "app.x", "user": "ada", "key": str(n)} for n in range(10_001)]

    refused = _send(web, events)

    assert 422 == refused.status_code
    assert "at most 10,000 are accepted. Split it up." in refused.text


def test_facts_about_users_are_not_replayed(web: Web):
    """409, and what to do instead; nor can anybody say that theirs is a replay."""
    seen = {**CLOUD, "type": "instance.user.last_seen"}
    event_id = _send(web, seen, "cloudevents+json").json()["events"][0]["id"]
    source = f"minutehand:replay:{event_id}"
    forged = _send(web, {**CLOUD, "source": source}, "cloudevents+json")

    answer = web.post(f"{EVENTS}/{event_id}/replay", role=Role.OPERATOR)

    assert 409 == answer.status_code
    assert "Run the action for the user instead" in answer.json()["detail"]
    assert 422 == forged.status_code
    assert "/source" == forged.json()["errors"][0]["pointer"]
