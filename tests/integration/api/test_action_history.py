"""When an action runs, and why or why not, over HTTP."""

from __future__ import annotations

from tests.integration.api.conftest import Web
from tests.integration.api.test_actions import create


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


def test_occurrences_are_of_a_period(web: Web):
    """By default those of the next days."""
    path = f"/actions/{create(web)}/occurrences"
    period = "from=2036-01-01T00:00:00Z&until=2036-01-03T00:00:00Z"

    coming, asked = (web.get(f"{path}{query}").json() for query in ("", f"?{period}"))

    assert (7, 2) == (len(coming["items"]), len(asked["items"]))
    assert 400 == web.get(f"{path}?{period.replace('2036', '2026', 1)}").status_code
