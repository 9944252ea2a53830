"""Revisions, occurrences and reasons of an action over HTTP."""

from __future__ import annotations

from tests.integration.api.conftest import Web
from tests.integration.api.test_actions import create
from tests.scheduling import make_document


def test_revisions_are_listed_with_their_documents(web: Web):
    """The latest first; the document of each can be read."""
    uid = create(web)
    path = f"/actions/{uid}"
    web.put(path, make_document(name="renamed"))

    first = web.get(f"{path}/revisions?limit=1").json()
    rest = web.get(f"{path}/revisions?limit=1&cursor={first['next_cursor']}").json()

    assert [2, 1] == [first["items"][0]["revision"], rest["items"][0]["revision"]]
    assert "daily" == web.get(f"{path}/revisions/1").json()["document"]["name"]
    assert 404 == web.get(f"{path}/revisions/9").status_code
    assert 404 == web.get(f"{path}/revisions/99999999999999").status_code


def test_occurrences_are_past_and_planned(web: Web):
    """By default those of the next days; each with zone, offset and decision."""
    uid = create(web)

    part = web.get(f"/actions/{uid}/occurrences?limit=2").json()
    rest = web.get(
        f"/actions/{uid}/occurrences?limit=200&cursor={part['next_cursor']}"
    ).json()

    assert (2, 5, None) == (len(part["items"]), len(rest["items"]), rest["next_cursor"])
    (first, _second) = part["items"]
    assert ("will run", None, "UTC", "+00:00") == (
        first["verdict"],
        first["operation"],
        first["occurrence"]["zone"],
        first["occurrence"]["offset"],
    )
    bad = web.get(f"/actions/{uid}/occurrences?from=yesterday")
    assert (422, "from") == (bad.status_code, bad.json()["errors"][0]["parameter"])
    far = "from=2026-01-01T00:00:00Z&until=2036-01-01T00:00:00Z"
    assert 400 == web.get(f"/actions/{uid}/occurrences?{far}").status_code


def test_why_has_an_answer_for_every_minute(web: Web):
    """Before the action was posted, and in years."""
    uid = create(web)

    def ask(at: str) -> str:
        (answer,) = web.get(f"/actions/{uid}/why?at={at}").json()["items"]
        verdict: str = answer["verdict"]
        return verdict

    assert "not effective yet" == ask("2020-01-01T07:00:00Z")
    assert "will run" == ask("2035-01-01T07:00:00Z")
    assert "not due" == ask("2035-01-01T07:01:00Z")
    assert "will run" == ask("2035-01-01T07:00")  # by the clock of the rule
    assert ["will run"] == [
        each["verdict"] for each in web.get(f"/actions/{uid}/why").json()["items"]
    ]
    bad = web.get(f"/actions/{uid}/why?at=soon")
    assert (422, "at") == (bad.status_code, bad.json()["errors"][0]["parameter"])
