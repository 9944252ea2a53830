"""``why``, ``audit`` and ``tick --at`` when something is wrong, or about to be."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import sqlalchemy as sa

from actions.lease import Leader, record_send_failure
from cli.connection import get_engine
from models.database.tables import events, operations, scheduled_action_revisions
from tests.database import execute, write_by
from tests.integration.cli.calling import Call, Post, write_action
from tests.scheduling import edit, edit_action, get_now


def test_error_of_the_scheduler_is_told_to_who_asks(
    call: Call, shop: Path, tmp_path: Path
):
    """The broker may answer here: what the scheduler heard counts."""
    del shop
    engine = get_engine()
    assert 0 == call("actions", "post", write_action(tmp_path), "--app", "shop").code
    ran = call("actions", "run", "hello", "--json")
    (row,) = call("operations", "list", "--json").data
    edit(engine, ran.data["id"], send_at=get_now(engine) - timedelta(minutes=2))
    leader = Leader(engine)
    assert leader.hold()
    assert call("status", "--json").data["send_failure"] is None
    write_by(engine, record_send_failure, "NOAUTH Authentication required")

    asked = call("why", "hello", "--at", row["occurrence"], "--json")
    found = call("status", "--json").data["send_failure"]
    shown = call("status").out
    leader.release()

    assert "the scheduler has failed to send since" in asked.data[0]["text"]
    assert "NOAUTH Authentication required" in asked.data[0]["text"]
    assert "NOAUTH Authentication required" == found["error"]
    assert "NOAUTH Authentication required" in shown


def test_a_tick_of_the_future_warns_and_is_explained(call: Call, post: Post):
    """It works; but what it decided will not be decided again when its time comes."""
    assert 0 == post(when={"cron_rule": "0 * * * *"}).code
    now = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    told = now + timedelta(days=2)

    past = call("tick", "--at", (now - timedelta(minutes=1)).isoformat())
    ticked = call("tick", "--at", told.isoformat(), "--json")
    passed = call("why", "hello", "--at", (now + timedelta(days=1)).isoformat())
    ran = call("why", "hello", "--at", told.isoformat())
    later = call("why", "hello", "--at", (told + timedelta(hours=1)).isoformat())

    assert (0, False) == (past.code, "in the future" in past.err)
    assert (0, 2) == (ticked.code, ticked.data["recorded"])
    assert "is decided now and will not be due again" in " ".join(ticked.err.split())
    told_so = "tick for a later instant (minutehand tick --at)"
    assert told_so in " ".join(passed.out.split())
    assert told_so in " ".join(ran.out.split())
    assert "will run" in later.out


def test_audit_finds_an_event_that_was_forgotten(call: Call, post: Post):
    """The user was to get a mail, and the operation is gone."""
    assert 0 == post(when={"on": "app.hello"}, recipients=None).code
    hour_ago = get_now(get_engine()) - timedelta(hours=1)
    edit_action(get_engine(), "hello", effective_from=hour_ago, next_due_at=hour_ago)
    event = ["--event", "app.hello", "--user", "ada@example.com"]
    at = get_now(get_engine()) - timedelta(minutes=10)
    sent = call("events", "send", "--app", "shop", *event, "--at", at.isoformat())
    assert 0 == sent.code
    then = dict.fromkeys(("effective_from", "recorded_at"), hour_ago)
    execute(get_engine(), sa.update(events).values(recorded_at=at))
    execute(get_engine(), sa.update(scheduled_action_revisions).values(then))
    assert 0 == call("tick").code
    assert (0, []) == ((audited := call("audit", "--json")).code, audited.data)

    execute(get_engine(), sa.delete(operations))
    found = call("audit", "--json")

    assert 1 == found.code
    assert ["miss"] == [each["fault"] for each in found.data]
    assert "ada@example.com" in found.data[0]["detail"]


def break_rule() -> None:
    """Leave the action hello with a rule that no version reads."""
    rule = '{"when": [{"cron_rule": "61 * * * *", "timezone": "UTC"}]}'
    edit_action(get_engine(), "hello", timing=rule)
    execute(
        get_engine(),
        sa.update(scheduled_action_revisions)
        .where(scheduled_action_revisions.c.uid == "hello")
        .values(timing=rule),
    )


def test_unreadable_rule_is_not_resumed_but_replaced(call: Call, shop: Path):
    """The refusal (exit code 3) names the way out, which works."""
    post = ("actions", "post", write_action(shop), "--app", "shop")
    call(*post)
    call("actions", "pause", "hello")
    break_rule()

    refused = call("actions", "resume", "hello")
    tried = call(*post, "--replace", "--dry-run")
    done = call(*post, "--replace")

    assert (3, "") == (refused.code, refused.out)
    assert "minute 61" in refused.err
    assert "--replace" in refused.err
    assert (0, 0) == (tried.code, done.code)
    assert 0 == call("actions", "resume", "hello").code


def test_unreadable_rule_is_told_and_hides_nobody(call: Call, post: Post):
    """In its line; what reads many actions goes on with the others."""
    post()
    post(name="good", uid="good")
    call("tick")
    break_rule()

    listed = {
        each["uid"]: each
        for each in call("actions", "list", "--app", "shop", "--json").data
    }
    told = call("actions", "list", "--app", "shop")
    shown = call("actions", "show", "hello")
    found = call("audit", "--json")
    (answer,) = call("why", "hello", "--at", "2099-01-01T07:00Z", "--json").data

    assert [] == listed["hello"]["next"]
    assert "minute 61" in listed["hello"]["problem"]
    assert (1, None) == (len(listed["good"]["next"]), listed["good"]["problem"])
    assert (0, 0) == (told.code, shown.code)
    assert "good" in told.out
    assert "cannot be read" in told.out
    assert "minute 61" in shown.out
    assert (1, [("unreadable", "hello")]) == (
        found.code,
        [(each["fault"], each["action_uid"]) for each in found.data],
    )
    assert "unreadable" == answer["verdict"]
    assert "minute 61" in answer["text"]
