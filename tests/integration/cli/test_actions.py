"""Actions, once they are posted: shown, paused, resumed, deleted."""

from __future__ import annotations

from pathlib import Path

import jsonschema

from tests.integration.cli.calling import Call, Post, write_action


def test_action_is_paused_resumed_and_deleted(call: Call, post: Post):
    post()
    seen = []
    for command in (["pause"], ["resume"], ["delete", "--yes"]):
        answer = call("actions", *command, "hello", "--json")
        seen.append((answer.code, answer.data["state"], len(answer.data["next"])))

    assert [(0, "paused", 0), (0, "active", 1), (0, "deleted", 0)] == seen
    assert "No scheduled actions." in call("actions", "list").err
    assert "deleted" in call("actions", "list", "--deleted").out
    assert "deleted" == call("actions", "show", "hello", "--json").data["state"]
    assert 4 == call("actions", "delete", "hello").code


def test_live_action_hides_a_deleted_one_whose_uid_is_its_name(call: Call, post: Post):
    """Of a deleted one nothing is run; who names it reads that it is gone."""
    post()
    call("actions", "delete", "hello", "--yes")
    gone = call("actions", "run", "hello")
    posted = post("--json", uid=None)

    shown = call("actions", "show", "hello", "--json")
    codes = [
        call("actions", command, "hello", *app).code
        for app in ([], ["--app", "shop"])
        for command in ("run", "pause", "resume")
    ]
    deleted = call("actions", "delete", "hello", "--yes", "--json")

    assert 4 == gone.code
    assert "there is no scheduled action 'hello': it was deleted" in gone.err
    assert posted.data["uid"] == shown.data["uid"] == deleted.data["uid"] != "hello"
    assert [0] * 6 == codes
    assert "deleted" == deleted.data["state"]


def test_deleting_asks_and_takes_several(call: Call, post: Post):
    """Without a terminal ``--yes`` decides; of several, all go or none."""
    for uid in ("one", "two", "three"):
        post(uid=uid, name=uid)

    asked = call("actions", "delete", "one")
    unknown = call("actions", "delete", "one", "nothing", "--yes")
    tried = call("actions", "delete", "one", "two", "--dry-run")
    done = call("actions", "delete", "one", "two", "one", "--yes", "--json")
    rest = call("actions", "delete", "--all", "--app", "shop", "--yes")
    every = call("actions", "delete", "--all", "--yes")

    assert 2 == asked.code
    assert "Delete 'one' of 'shop', whose uid 'one' can never be used" in asked.err
    assert "--yes" in asked.err
    assert 4 == unknown.code
    assert "Would delete one" in tried.out
    assert ["one", "two"] == [each["uid"] for each in done.data]
    assert "Deleted three (uid three).\n" == rest.out
    assert 2 == every.code
    assert [] == call("actions", "list", "--json").data


def test_mails_to_nobody_are_told_where_one_looks_first(call: Call, shop: Path):
    """By the post, the list and the run."""
    path = write_action(shop, recipients={})

    told = [
        call("actions", "post", path, "--app", "shop"),
        call("actions", "list"),
        call("actions", "list", "--json"),
        call("actions", "run", "hello"),
    ]

    for answer in told:
        assert 0 == answer.code
        assert "nobody is named, so send_email reaches nobody" in " ".join(
            answer.err.split()
        )


def test_resuming_what_is_inactive_says_what_else_to_do(call: Call, post: Post):
    """It is not paused any more, and still nothing runs."""
    post(active=False)
    call("actions", "pause", "hello")

    answer = call("actions", "resume", "hello")

    assert (0, "Resumed hello (uid hello).\n") == (answer.code, answer.out)
    assert "The action is inactive" in answer.err
    assert '"active": true' in answer.err


def test_document_that_is_shown_is_one_of_the_schema(call: Call, post: Post):
    """It can be saved as a file, and an editor marks nothing in it."""
    post(active="yes", operations={"refresh": "all"})

    shown = call("actions", "show", "hello", "--json").data["document"]

    schema = call("schema").data
    jsonschema.Draft202012Validator(schema).validate(shown)
