"""The original names (docs/origin.md) still work, spelled as they were."""

from __future__ import annotations

from actions import occurrences
from actions.when import cron


def test_misspelled_look_backs_are_the_same_functions() -> None:
    """That of an action, and that of a cron rule."""
    assert (
        occurrences.get_scheduled_action_last_occurrence
        is occurrences.get_scheduled_action_last_occurence
    )
    assert cron.get_cron_last_occurrence is cron.get_cron_last_occurence
