"""The original names (docs/origin.md) still work, spelled as they were."""

from __future__ import annotations

from actions import occurrences
from actions.when import cron


def test_misspelled_look_back_of_actions_is_the_same_function() -> None:
    """``get_scheduled_action_last_occurence`` is the look-back of an action."""
    assert (
        occurrences.get_scheduled_action_last_occurrence
        is occurrences.get_scheduled_action_last_occurence
    )


def test_misspelled_look_back_of_cron_rules_is_the_same_function() -> None:
    """``get_cron_last_occurence`` is the look-back of a cron rule."""
    assert cron.get_cron_last_occurrence is cron.get_cron_last_occurence
