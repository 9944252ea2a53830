"""``actions post``: what is stored, refused, or only tried."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from tests.integration.cli.calling import WEEKLY, Call, write_action


@pytest.mark.usefixtures("shop")
def test_example_is_posted_in_the_zone_it_names(call: Call):
    """The answer to a post has uid, revision and the next occurrences in UTC."""
    answer = call("actions", "post", str(WEEKLY), "--app", "shop", "--json")

    assert 0 == answer.code
    assert 1 == answer.data["revision"]
    following = [datetime.fromisoformat(at) for at in answer.data["next"]]
    assert [0] * 5 == [at.weekday() for at in following]
    assert all(text.endswith(":00:00Z") for text in answer.data["next"])


def test_name_or_uid_that_is_taken_is_a_conflict(call: Call, shop: Path):
    """Exit code 5; --replace makes a new revision of the name, and none of the uid."""
    post = ("actions", "post", write_action(shop), "--app", "shop", "--json")
    call(*post)

    again = call(*post)
    replaced = call(*post, "--replace")
    write_action(shop, name="new")
    other = call(*post)

    assert (5, "") == (again.code, again.out)
    assert "--replace" in again.err
    assert (0, 2) == (replaced.code, replaced.data["revision"])
    assert (5, "") == (other.code, other.out)
    assert "already has an action with uid 'hello', named 'hello'" in other.err
    assert "Choose another uid" in other.err


def test_bad_document_names_each_problem(call: Call, shop: Path):
    path = write_action(shop, when={"cron_rule": "61 * * * *"}, colour="red")

    answer = call("actions", "post", path, "--app", "shop")

    assert (3, "") == (answer.code, answer.out)
    text = Path(path).read_text()
    columns = [text.index(each) + 1 for each in ('"61 ', '"colour"')]
    assert [
        f"error: {path}:1:{columns[0]} /when/cron_rule:",
        f"error: {path}:1:{columns[1]} /colour:",
    ] == [" ".join(line.split()[:3]) for line in answer.err.splitlines()]


def test_many_actions_are_posted_at_once(call: Call, shop: Path):
    documents = [json.loads(Path(write_action(shop)).read_text()) for _ in range(2)]
    documents[1] |= {"uid": "bye", "name": "bye"}
    lines = shop / "actions.jsonl"
    lines.write_text("\n".join(json.dumps(each) for each in documents))

    tried = call("actions", "post", str(lines), "--app", "shop", "--dry-run")
    assert "Would post 2 and replace 0." in tried.out
    assert [] == call("actions", "list", "--json").data
    posted = call("actions", "post", str(lines), "--app", "shop", "--json")
    again = call("actions", "post", str(lines), "--app", "shop", "--replace")
    documents[1]["when"] = {"cron_rule": "61 * * * *"}
    lines.write_text(json.dumps(documents))
    refused = call("actions", "post", str(lines), "--app", "shop", "--replace")

    assert ["hello", "bye"] == [each["uid"] for each in posted.data]
    assert [1, 1] == [len(each["next"]) for each in posted.data]
    assert "Posted 0 and replaced 2." in again.out
    assert 3 == refused.code
    assert "/1/when/cron_rule" in refused.err
    assert 2 == call("actions", "show", "hello", "--json").data["revision"]


def test_dry_run_shows_what_would_change_and_stores_nothing(call: Call, shop: Path):
    """A first post adds; an edit is compared with what is stored."""
    post = ("actions", "post", write_action(shop), "--app", "shop")
    first = call(*post, "--dry-run")
    assert 4 == call("actions", "show", "hello").code
    call(*post)
    write_action(shop, when={"cron_rule": "0 8 * * *"})

    answer = call(*post, "--replace", "--dry-run", "--json")

    assert (0, 0) == (first.code, answer.code)
    assert "and 20 more added" in first.out or "and 21 more added" in first.out
    assert 29 <= len(answer.data["moved"]) <= 31
    # between the two hours, one of either end has nothing to move to
    assert len(answer.data["added"]) <= 1
    assert len(answer.data["removed"]) <= 1
    assert 1 == call("actions", "show", "hello", "--json").data["revision"]


@pytest.mark.parametrize("named", ["nightly", "7f3a"], ids=["name", "uid"])
def test_what_it_follows_is_told_by_its_present_name(
    call: Call, shop: Path, named: str
):
    """Whichever its document has, by a dry run as by the post itself."""
    first = {"name": "nightly", "uid": "7f3a"}
    call("actions", "post", write_action(shop, **first), "--app", "shop")
    after = {"name": "after", "uid": "after", "when": {"after_action": named}}
    post = ("actions", "post", write_action(shop, **after), "--app", "shop")
    assert "After 'nightly' succeeded" in call(*post, "--dry-run").out
    assert "After 'nightly' succeeded" in call(*post).out

    write_action(shop, **{**first, "name": "at night"})
    call(*post, "--replace")
    write_action(shop, **after)

    assert "After 'at night' succeeded" in call(*post, "--replace", "--dry-run").out
    assert "After 'at night' succeeded" in call(*post, "--replace").out
