"""What previews and ``actions show`` say of how runs go."""

from __future__ import annotations

import pytest

from actions.previews.sentences import describe_terms


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({}, ""),
        ({"retries": 0}, "No retries: what fails once has failed."),
        ({"retries": 1}, "At most 1 retry."),
        ({"retries": 1, "retry_after": "PT1H"}, "At most 1 retry, after 1 hour."),
        ({"retries": 5}, "Up to 5 retries."),
        (
            {"retries": 5, "retry_after": "PT5M"},
            "Up to 5 retries, the first after 5 minutes, then twice that, up to a day.",
        ),
        (
            {"retry_after": "PT1M"},
            "Of its retries, the first after 1 minute, then twice that, up to a day.",
        ),
        (
            {"if": {"refreshed": True}},
            "The steps after refresh run only if it brought something new.",
        ),
        (
            {"expect": {"within": "PT30M", "takes": "PT10M"}},
            (
                "Expected to end within 30 minutes of its time and to take at most 10"
                " minutes; else a notice tells."
            ),
        ),
        ({"rest_after": 1}, "Paused as soon as a run fails."),
        ({"rest_after": 3}, "Paused after 3 failures in a row."),
        (
            {"ping": "https://hc-ping.com/secret"},
            "hc-ping.com is told when a run starts, and how it ended.",
        ),
    ],
)
def test_what_departs_from_the_usual_is_said(members: dict[str, object], said: str):
    """One sentence for each thing; nothing for an action that says nothing of it."""
    found = describe_terms({"name": "daily", **members})

    assert ([said] if said else []) == list(found)
