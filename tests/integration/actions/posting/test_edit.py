"""Actions edited as somebody wrote them: replaced, patched, rolled back, deleted."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from actions.pausing.pause_and_resume import pause_action
from actions.posting.edit import (
    PostedAction,
    Terms,
    patch_text,
    post_all_with_outcomes,
    post_text,
    read_all_text,
    replace_text,
    roll_back,
)
from actions.posting.post import Posting, SeenAction, delete_action
from actions.posting.revisions import fetch_document_revisions
from models.database.engine import Author, writing
from models.database.tables import changes, scheduled_action_revisions
from models.errors import ConflictError, InvalidDocumentError, NotFoundError, StaleError
from tests.database import execute, fetch_rows, read_by, wait_for_lock, write_by
from tests.scheduling import fetch_action, make_document, post

TERMS = Terms(by="ann", note="because")


pytestmark = pytest.mark.usefixtures("small_app", "other_app")


def replace(
    engine: sa.Engine,
    uid: str,
    *,
    app: str | None = None,
    expected: int | None = None,
    **document: Any,
) -> PostedAction:
    return write_by(
        engine,
        replace_text,
        SeenAction(uid, app, expected),
        json.dumps(make_document(**document)),
        terms=TERMS,
    )


def patch(
    engine: sa.Engine, uid: str, given: Any, *, expected: int | None = None
) -> PostedAction:
    return write_by(
        engine,
        patch_text,
        SeenAction(uid, None, expected),
        json.dumps(given),
        terms=TERMS,
    )


def get_tag(engine: sa.Engine, uid: str) -> int:
    return read_by(engine, fetch_document_revisions, [uid])[uid]


def pause(engine: sa.Engine, uid: str) -> None:
    write_by(engine, pause_action, uid)


def test_pause_does_not_make_an_edit_stale(engine: sa.Engine):
    """Only what changes the document does."""
    uid = post(engine).uid
    tag = get_tag(engine, uid)
    pause(engine, uid)

    replace(engine, uid, expected=tag, name="renamed")

    assert (3, 3) == (fetch_action(engine, uid).revision, get_tag(engine, uid))
    with pytest.raises(StaleError, match="is 3, not 1") as caught:
        replace(engine, uid, expected=tag)
    assert 3 == caught.value.current


def delete(engine: sa.Engine, uid: str, *, expected: int | None = None) -> None:
    write_by(engine, delete_action, uid, expected_revision=expected)


def go_back(engine: sa.Engine, uid: str, *, expected: int | None = None) -> None:
    write_by(engine, roll_back, SeenAction(uid, "app", expected), 1, terms=TERMS)


@pytest.mark.parametrize(
    "change",
    [
        replace,
        lambda engine, uid, expected: patch(engine, uid, {}, expected=expected),
        delete,
        go_back,
    ],
)
def test_stale_change_changes_nothing(engine: sa.Engine, change: Callable[..., object]):
    uid = post(engine).uid
    replace(engine, uid, name="second")
    before = fetch_action(engine, uid)

    with pytest.raises(StaleError):
        change(engine, uid, expected=1)

    assert before == fetch_action(engine, uid)


def test_tag_survives_the_pruning_of_its_revision(engine: sa.Engine):
    """The oldest revision that is left stands for it."""
    uid = post(engine).uid
    pause(engine, uid)
    kept = scheduled_action_revisions.c
    execute(engine, sa.delete(scheduled_action_revisions).where(kept.revision == 1))

    replace(engine, uid, expected=get_tag(engine, uid), name="renamed")

    assert 3 == get_tag(engine, uid)


def test_of_two_editors_one_wins(postgres_engine: sa.Engine):
    uid = post(postgres_engine).uid
    refused: list[StaleError] = []

    def edit() -> None:
        try:
            replace(postgres_engine, uid, expected=1, name="second")
        except StaleError as error:
            refused.append(error)

    with writing(postgres_engine) as connection:
        replace_text(
            connection,
            SeenAction(uid, None, 1),
            json.dumps(make_document(name="first")),
            terms=TERMS,
        )
        thread = threading.Thread(target=edit)
        thread.start()
        wait_for_lock(postgres_engine)
    thread.join(60)

    assert [2] == [error.current for error in refused]
    assert "first" == fetch_action(postgres_engine, uid).name


def test_patch_merges_into_what_is_stored(engine: sa.Engine):
    uid = post(engine, jitter="PT5M", when={"cron_rule": "0 7 * * *"}).uid

    patch(engine, uid, {"jitter": None, "when": {"timezone": "Europe/Paris"}})

    document = fetch_action(engine, uid).document
    assert "jitter" not in document
    assert {"cron_rule": "0 7 * * *", "timezone": "Europe/Paris"} == document["when"]


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ([], ""),
        ({"when": {"cron_rule": "61 * * * *"}}, "/when/cron_rule"),
        ({"operations": None}, "/operations"),
        ({"label": "x"}, "/label"),
        ({"uid": "other"}, "/uid"),
        ({"when": {"due_date": "2030-01-01T00:00:00"}}, "/when"),
    ],
)
def test_bad_patch_changes_nothing(engine: sa.Engine, given: Any, pointer: str):
    uid = post(engine).uid
    before = fetch_action(engine, uid)

    with pytest.raises(InvalidDocumentError) as caught:
        patch(engine, uid, given)

    assert pointer == caught.value.problems[0].pointer
    assert before == fetch_action(engine, uid)


def test_rolling_back_is_a_new_revision(engine: sa.Engine):
    """It says to which one, and why; the document is the former one again."""
    uid = post(engine).uid
    replace(engine, uid, name="renamed", when={"cron_rule": "0 9 * * *"})

    go_back(engine, uid, expected=2)

    row = fetch_action(engine, uid)
    kept = scheduled_action_revisions.c
    query = sa.select(kept.change, kept.changed_by, kept.note).where(kept.revision == 3)
    assert ("daily", 3, 3) == (row.name, row.revision, get_tag(engine, uid))
    assert [("rolled back", "ann", "to revision 1; because")] == [
        tuple(each) for each in fetch_rows(engine, query)
    ]


def test_rolling_back_to_what_never_was_is_refused(engine: sa.Engine):
    """So is a revision of somebody else's action."""
    uid = post(engine).uid

    for app, revision in (("app", 7), ("other", 1)):
        with writing(engine) as connection, pytest.raises(NotFoundError):
            roll_back(connection, SeenAction(uid, app), revision, terms=TERMS)


def test_actions_of_other_apps_are_unknown(engine: sa.Engine):
    """They are refused in the very words for one that never was."""
    uid = post(engine, app="other").uid
    before = fetch_action(engine, uid)
    told = []

    for each in (uid, "never"):
        with pytest.raises(NotFoundError) as caught:
            replace(engine, each, app="app")
        told.append(str(caught.value).replace(each, "?"))
        with writing(engine) as connection, pytest.raises(NotFoundError) as caught:
            delete_action(connection, each, app="app")
        told.append(str(caught.value).replace(each, "?"))
        with writing(engine) as connection, pytest.raises(NotFoundError) as caught:
            pause_action(connection, each, app="app")
        told.append(str(caught.value).replace(each, "?"))

    assert 1 == len(set(told))
    assert before == fetch_action(engine, uid)


def test_new_name_must_be_free(engine: sa.Engine):
    """An edit does not push another action aside."""
    post(engine, name="taken")
    uid = post(engine).uid

    with pytest.raises(ConflictError, match="Choose another name"):
        replace(engine, uid, name="taken")


def test_every_change_is_noted(engine: sa.Engine):
    """With its author's note; what a dry run would do is not."""
    with writing(engine, author=Author("ann")) as connection:
        text = json.dumps(make_document(uid="x"))
        post_text(connection, "app", text, terms=TERMS)
    replace(engine, "x", name="renamed")
    patch(engine, "x", {"active": False})
    pause(engine, "x")
    write_by(engine, delete_action, "x", note="done")
    text = json.dumps([make_document(name=f"n{i}") for i in range(3)])
    read = read_all_text(engine, "app", text, TERMS)
    write_by(engine, post_all_with_outcomes, "app", read, Posting(), dry_run=True)

    noted = changes.c
    query = sa.select(noted.subject, noted.change, noted.note).order_by(noted.number)
    assert [
        ("x", "posted", "because"),
        ("x", "replaced", "because"),
        ("x", "replaced", "because"),
        ("x", "paused", None),
        ("x", "deleted", "done"),
    ] == [tuple(row) for row in fetch_rows(engine, query)]


def test_record_repeats_no_secret(engine: sa.Engine):
    """Addresses of webhooks and arguments of tasks are in the revisions alone."""
    hook = {"call_webhook": {"url": "https://example.com/?key=s3cret"}}
    uid = post(engine, operations=hook).uid
    patch(
        engine,
        uid,
        {
            "name": "renamed",
            "operations": {
                "call_webhook": {"url": "https://example.com/?key=s3cret2"},
                "run_task": {"name": "t", "queue": "q", "kwargs": {"p": "s3cret"}},
            },
        },
    )

    row = fetch_rows(
        engine, sa.select(changes).order_by(changes.c.number.desc()).limit(1)
    ).one()
    assert "s3cret" not in json.dumps([row.before, row.after])
    assert ("daily", "renamed") == (row.before["/name"], row.after["/name"])
