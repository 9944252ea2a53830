"""Names, files and refusals of what is imported."""

from __future__ import annotations

import pytest

from actions.importing.origins.imported import (
    ActionDraft,
    CannotBeError,
    Entry,
    Imported,
    ImportVerdict,
    import_each,
)
from actions.importing.origins.tasks import run_task
from tests.unit.actions.importing.documents import DEFAULTS, get_document

WHEN = {"cron_rule": "0 7 * * *"}


def fill(draft: ActionDraft, kind: str | None) -> None:
    if kind == "refused":
        raise CannotBeError("It cannot be. Leave it out.")
    if kind == "broken":
        raise KeyError(kind)
    zone = {"timezone": "Mars/Base"} if kind == "zone" else {}
    draft.document["when"] = {**WHEN, **zone}
    if kind == "ended":
        draft.document["ends_at"] = "2026-01-01T00:00:00Z"
    run_task(draft, "" if kind == "no task" else "proj.task")


def import_all(*names: str, kind: str | None = None) -> tuple[Imported, ...]:
    entries = [Entry(name, {"kind": kind}) for name in names]
    return import_each(entries, {"kind": fill}, DEFAULTS)


@pytest.mark.parametrize(
    ("names", "named", "files"),
    [
        (
            ("daily", "daily", "Daily"),
            ["daily", "daily (2)", "Daily (3)"],
            ["daily.json", "daily-2.json", "daily-3.json"],
        ),
        # one line of at most 200 letters; the number takes the place of the last
        (("x" * 300,) * 2, ["x" * 200, "x" * 196 + " (2)"], None),
        (("a\nb\tc", ""), ["a b c", "unnamed"], ["a-b-c.json", "unnamed.json"]),
        (("Bücher/../etc/päsß",), ["Bücher/../etc/päsß"], ["bucher-etc-pas.json"]),
    ],
)
def test_names_are_given_once(
    names: tuple[str, ...], named: list[str], files: list[str] | None
):
    """Whatever the origin allowed, the door takes; a file has it in plain letters."""
    found = import_all(*names)

    assert named == [get_document(each)["name"] for each in found]
    assert files is None or files == [each.file for each in found]


def test_another_name_is_told():
    """It is not the one that people look for."""
    first, second = import_all("daily", "daily")
    (cut,) = import_all("x" * 300)

    assert (first.notes, "another entry" in second.notes[0]) == ((), True)
    assert "one line" in cut.notes[0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("refused", "Leave it out"),
        ("broken", "KeyError"),
        ("zone", "Mars/Base"),
        ("no task", "/operations/run_task/name"),
        ("ended", "It is over"),
    ],
)
def test_one_that_cannot_be_stops_no_other(kind: str, words: str):
    """Each is reported with what was found, and takes no name from the others."""
    entries = [Entry("it", {"kind": kind}), Entry("it"), Entry("it", problem="No.")]
    bad, good, unread = import_each(entries, {"kind": fill}, DEFAULTS)

    assert (bad.verdict, bad.document) == (ImportVerdict.CANNOT_BE, None)
    assert words in bad.notes[0]
    assert (good.verdict, good.file) == (ImportVerdict.EXACT, "it.json")
    assert unread.notes == ("No.",)
