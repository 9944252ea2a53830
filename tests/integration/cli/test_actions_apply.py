"""``actions apply``: the actions of an app become what a folder says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli.calling import Answer, Call


class Folder:
    """A folder of actions, and the command that applies it."""

    def __init__(self, place: Path, call: Call) -> None:
        place.mkdir()
        self.place = place
        self._call = call

    def write(self, file: str, **document: Any) -> None:
        """Write one document."""
        whole = {
            "name": Path(file).stem,
            "operations": {"publish": {"data": True}},
            "when": {"cron_rule": "0 7 * * *"},
            **document,
        }
        (self.place / file).write_text(json.dumps(whole))

    def remove(self, file: str) -> None:
        """Remove one document."""
        (self.place / file).unlink()

    def apply(self, *options: str) -> Answer:
        """Call the command."""
        return self._call(
            "actions", "apply", str(self.place), "--app", "shop", *options
        )

    def plan(self, *options: str) -> list[tuple[str, str | None, str]]:
        """Call it with ``--json``; return what became of which file and name."""
        answer = self.apply("--json", *options)
        assert 0 == answer.code, answer.err
        items = answer.data["items"]
        return [(each["change"], each["file"], each["name"]) for each in items]


@pytest.fixture
def folder(call: Call, shop: Path) -> Folder:
    made = Folder(shop / "actions", call)
    made.write("daily.json")
    made.write("weekly.json", uid="weekly", when={"cron_rule": "0 7 * * 1"})
    return made


def list_names(call: Call) -> dict[str, str]:
    listed = call("actions", "list", "--app", "shop", "--json").data
    return {each["uid"]: each["name"] for each in listed}


def test_what_does_not_differ_is_left_alone(folder: Folder) -> None:
    """No new revision, no schedule that begins anew."""
    first = folder.plan()
    second = folder.apply("--json").data

    assert [
        ("created", "daily.json", "daily"),
        ("created", "weekly.json", "weekly"),
    ] == first
    assert {"created": 0, "changed": 0, "unchanged": 2, "pruned": 0} == second["counts"]
    assert [1, 1] == [each["revision"] for each in second["items"]]


def test_plan_is_what_happens_and_a_dry_run_stores_nothing(
    folder: Folder, call: Call
) -> None:
    folder.plan()
    folder.write("daily.json", when={"cron_rule": "0 8 * * *"})
    folder.write("new.json")
    folder.remove("weekly.json")
    before = list_names(call)

    planned = folder.plan("--prune", "--dry-run")
    unchanged = list_names(call)
    done = folder.plan("--prune", "--yes")

    assert (
        [
            ("changed", "daily.json", "daily"),
            ("created", "new.json", "new"),
            ("pruned", None, "weekly"),
        ]
        == planned
        == done
    )
    assert before == unchanged
    assert ["daily", "new"] == sorted(list_names(call).values())


def test_uid_renames_and_two_may_swap_their_names(folder: Folder, call: Call) -> None:
    folder.write("daily.json", uid="daily")
    folder.plan()
    folder.write("daily.json", uid="daily", name="weekly")
    folder.write("weekly.json", uid="weekly", name="daily")

    answer = folder.apply("--json").data

    assert {"changed": 2} == {k: n for k, n in answer["counts"].items() if n}
    assert [["/name"], ["/name", "/when/cron_rule"]] == [
        each["pointers"] for each in answer["items"]
    ]
    assert {"daily": "weekly", "weekly": "daily"} == list_names(call)


def test_name_of_a_pruned_action_is_free(folder: Folder, call: Call) -> None:
    folder.plan()
    folder.remove("weekly.json")
    folder.write("other.json", uid="other", name="weekly")

    folder.plan("--prune", "--yes")

    assert "weekly" == list_names(call)["other"]


def test_one_bad_file_stores_nothing(folder: Folder, call: Call) -> None:
    folder.write("new.json", when={"cron_rule": "61 * * * *"})
    (folder.place / "worse.json").write_text('{"name": "x",\n  // why\n}')

    answer = folder.apply()

    assert (3, "") == (answer.code, answer.out)
    said = " ".join(answer.err.split())
    assert "new.json:1:" in said
    assert "/when/cron_rule: '61 * * * *' has minute 61" in said
    assert "worse.json:2:3: JSON has no comments" in said
    assert {} == list_names(call)


def test_two_files_of_one_name_are_refused(folder: Folder) -> None:
    """Nobody could say which of them counts."""
    folder.write("again.json", name="daily")

    answer = folder.apply()

    assert 3 == answer.code
    # not "action 0 in the list", which nobody has seen
    said = "daily.json:1:10 /name: 'daily' is also the name of the action in again.json"
    assert said in " ".join(answer.err.split())


def test_actions_without_a_file_stay_unless_they_are_to_go(
    folder: Folder, call: Call
) -> None:
    folder.plan()
    folder.remove("weekly.json")

    kept = folder.apply("--json")
    refused = folder.apply("--prune")

    assert ["weekly"] == kept.data["unlisted"]
    assert "--prune" in kept.err
    assert 2 == refused.code
    assert "Delete 1 action ('weekly') of 'shop'" in refused.err
    assert "--yes" in refused.err
    assert ["daily", "weekly"] == sorted(list_names(call).values())


def test_wrong_folder_deletes_nothing(folder: Folder, call: Call, shop: Path) -> None:
    folder.plan()

    empty = call("actions", "apply", str(shop), "--app", "shop", "--prune", "--yes")
    absent = call("actions", "apply", "/not/there", "--app", "shop", "--prune")
    call("tick")
    own = call("actions", "apply", str(folder.place), "--app", "minutehand", "--prune")

    assert [2, 2] == [empty.code, absent.code]
    assert own.code in {2, 4}
    assert 2 == len(list_names(call))


def test_uid_that_was_pruned_is_named_with_its_place(folder: Folder) -> None:
    """The question says that it is gone; a new action needs another."""
    folder.apply()
    folder.remove("weekly.json")
    asked = folder.apply("--prune")
    folder.apply("--prune", "--yes")
    folder.write("again.json", name="weekly", uid="weekly")

    refused = folder.apply()

    assert "a uid can never be used again" in asked.err
    assert 5 == refused.code
    assert "again.json:1:106: the action with uid 'weekly'" in refused.err
    assert "was deleted on" in refused.err
    assert "Write another uid, or leave it out" in refused.err


def test_warnings_that_many_share_are_one_line(folder: Folder) -> None:
    """With the first place and their count; programs get each, with its file."""
    for number in range(3):
        step = {"send_email": {"template": "none"}}
        folder.write(f"mail{number}.json", name=f"mail {number}", operations=step)

    answer = folder.apply("--json")

    (told,) = [line for line in answer.err.splitlines() if "'none'" in line]
    assert "mail0.json:1:62 /operations/send_email/template and 2 more: " in told
    files = [each["file"] for each in answer.data["warnings"]]  # nobody is named, too
    assert sorted(2 * [f"mail{number}.json" for number in range(3)]) == sorted(files)


def test_dry_run_counts_what_appears_vanishes_and_moves(folder: Folder) -> None:
    """In the next 30 days, by file; whoever reviews a change need not compute it."""
    folder.apply("--yes")
    folder.write("daily.json", when={"cron_rule": "0 8 * * *"})
    folder.remove("weekly.json")
    folder.write("hourly.json", when={"every": "PT1H"})

    answer = folder.apply("--prune", "--dry-run", "--json")

    counts = {each["name"]: each["runs"]["counts"] for each in answer.data["items"]}
    # Between both times of the day, today's has run, and the other is still to come.
    assert counts["daily"]["moved"] in {29, 30}
    assert counts["hourly"] == {"added": 720, "removed": 0, "moved": 0}
    assert counts["weekly"]["removed"] in {4, 5}
    said = folder.apply("--prune", "--dry-run").out
    assert " moved, the first from" in said
    assert "720 added, from" in said
