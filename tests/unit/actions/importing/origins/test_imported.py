"""Names, files and refusals of what is imported."""

from __future__ import annotations

from actions.importing.origins.imported import (
    ActionDraft,
    CannotBeError,
    Defaults,
    ImportVerdict,
    import_each,
)
from actions.importing.origins.tasks import Task, run_task
from tests.unit.actions.importing.documents import DEFAULTS, NOW


def fill(draft: ActionDraft, entry: str, defaults: Defaults) -> None:
    if entry == "refused":
        raise CannotBeError("It cannot be. Leave it out.")
    if entry == "broken":
        raise KeyError(entry)
    draft.document["when"] = {"cron_rule": "0 7 * * *"}
    if entry == "unknown zone":
        draft.document["when"] = {"cron_rule": "0 7 * * *", "timezone": "Mars/Base"}
    run_task(draft, Task("" if entry == "no task" else "proj.task"), defaults)


def import_all(*entries: str):
    return import_each(entries, lambda entry: entry, fill, DEFAULTS)


def test_names_are_given_once():
    """
    A name that is taken gets a number, and so does its file, whatever the case.
    """
    first, second, third = import_all("daily", "daily", "Daily")

    assert [each.file for each in (first, second, third)] == [
        "daily.json",
        "daily-2.json",
        "daily-3.json",
    ]
    assert (first.notes, second.document and second.document["name"]) == (
        (),
        "daily (2)",
    )
    assert "another entry" in second.notes[0]
    assert third.document is not None
    assert third.document["name"] == "Daily (3)"


def test_names_become_one_line_of_two_hundred_letters():
    """
    Whatever the origin allowed, the door takes it; file names are plain.
    """
    long, lines, foreign, empty = import_all(
        "x" * 300, "a\nb\tc", "Bücher/../etc/päsß", ""
    )
    assert long.document is not None
    assert lines.document is not None
    assert empty.document is not None

    assert long.document["name"] == "x" * 200
    assert lines.document["name"] == "a b c"
    assert foreign.file == "bucher-etc-pas.json"
    assert (empty.document["name"], empty.file) == ("unnamed", "unnamed.json")


def test_long_names_that_collide_stay_within_their_length():
    """
    The number takes the place of the last letters.
    """
    _, second = import_all("x" * 300, "x" * 300)
    assert second.document is not None

    assert len(str(second.document["name"])) == 200
    assert str(second.document["name"]).endswith(" (2)")


def test_one_that_cannot_be_stops_no_other():
    """
    Each is reported with what was found, and takes no name from the others.
    """
    found = import_all("refused", "broken", "unknown zone", "no task", "good")

    assert [each.verdict for each in found] == [
        *[ImportVerdict.CANNOT_BE] * 4,
        ImportVerdict.EXACT,
    ]
    assert "Leave it out" in found[0].notes[0]
    assert "KeyError" in found[1].notes[0]
    assert "Mars/Base" in found[2].notes[0]
    assert "/operations/run_task/name" in found[3].notes[0]


def test_what_is_over_is_told():
    """
    The door has no clock, so an end that has passed is refused here.
    """

    def fill_ended(draft: ActionDraft, entry: str, defaults: Defaults) -> None:
        fill(draft, entry, defaults)
        draft.document["ends_at"] = "2026-01-01T00:00:00Z"

    (found,) = import_each(["it"], str, fill_ended, DEFAULTS)

    assert NOW.year == 2026
    assert "It is over" in found.notes[0]
