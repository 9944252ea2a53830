"""``restored``: after a backup was put back, nothing of it runs by itself."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa

from actions.decide import decide
from actions.lease import Leader
from actions.pausing.pause_state import write_target
from actions.user_events import NewEvent, record_events
from dispatch.due_pauses import end_due_pauses
from models.database.tables import (
    deliveries,
    domain_versions,
    domains,
    leases,
    scheduled_action_revisions,
)
from models.decision import Decision
from operations.claiming.claim import claim_operation
from tests.database import execute, fetch_rows, write_by
from tests.integration.cli.calling import Call
from tests.presence import give_sign, make_worker
from tests.scheduling import (
    add_app,
    add_mails,
    add_steps,
    edit,
    edit_action,
    fetch_action,
    fetch_all,
    get,
    get_now,
    make_dispatcher,
    make_operation,
    post,
    record_all,
    tick,
)

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)
EACH_MINUTE = {"cron_rule": "* * * * *"}


@pytest.fixture
def made_at(engine: sa.Engine) -> datetime:
    """Give the moment at which the backup was made: an hour ago."""
    add_app(engine, ids=["ada"])
    return get_now(engine) - HOUR


def post_before(engine: sa.Engine, made_at: datetime, **changes: Any) -> str:
    """Post an action that was in effect, and due at once, when the backup was made."""
    uid = post(engine, **changes).uid
    before = made_at - HOUR
    edit_action(engine, uid, effective_from=before, next_due_at=made_at)
    then = dict.fromkeys(("effective_from", "recorded_at"), before)
    execute(engine, sa.update(scheduled_action_revisions).values(then))
    return uid


def restore(call: Call, made_at: datetime, *options: str) -> dict[str, object]:
    answer = call("restored", "--as-of", made_at.isoformat(), "--json", *options)
    assert 0 == answer.code, answer.err
    data: dict[str, object] = answer.data
    return data


def add_live(engine: sa.Engine, made_at: datetime) -> list[UUID]:
    """Add what was pending, queued and running in the backup; return the ids."""
    live = [make_operation(number) for number in range(3)]
    record_all(engine, *live)
    ids = [each.id for each in live]
    for each in ids:
        edit(engine, each, recorded_at=made_at - SECOND)
    edit(engine, ids[1], state="queued", sent_at=made_at - SECOND)
    claim = {"claim_token": uuid4(), "lease_expires_at": made_at}
    edit(engine, ids[2], state="running", attempt=1, **claim)
    add_steps(engine, ids[2], {"name": "send_email", "state": "running"})
    add_mails(engine, ids[2], {"ada": "sending", "bob": "sent"}, at=made_at)
    return ids


def test_what_was_live_waits_for_an_operator(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """
    Canceled, with a reason that says so; no worker takes it, and a retry runs it, which
    sends mails that were on their way to nobody again.
    """
    post_before(engine, made_at, uid="daily")
    ids = add_live(engine, made_at)

    data = restore(call, made_at)

    rows = [get(engine, each) for each in ids]
    query = sa.select(deliveries.c.recipient, deliveries.c.state)
    mails = {*fetch_rows(engine, query)}
    assert 1 == data["uncertain_mails"]
    assert {("ada", "uncertain"), ("bob", "sent")} == mails
    assert {"pending": 1, "queued": 1, "running": 1} == data["canceled"]
    assert {"canceled"} == {row.state for row in rows}
    assert all(row.reason.startswith("restored: as of 20") for row in rows)
    assert all("operations retry" in row.error for row in rows)
    assert [None] * 3 == [claim_operation(engine, each, worker="w") for each in ids]
    assert 0 == call("operations", "retry", str(ids[2])).code
    edit(engine, ids[2], send_at=made_at)
    assert claim_operation(engine, ids[2], worker="w") is not None


def test_rules_that_cannot_be_read_hold_up_no_other(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """However many they are, what is due since is missed; theirs is the next tick's."""
    for uid in ("bad", "worse", "worst", "good"):
        post_before(engine, made_at, uid=uid, name=uid, when=EACH_MINUTE)
        if uid != "good":
            edit_action(engine, uid, timing="?", next_due_at=made_at - SECOND)

    data = restore(call, made_at)

    assert 1 == data["missed_actions"]
    assert ["good"] == [row.action_uid for row in fetch_all(engine)]
    tick(make_dispatcher(engine), get_now(engine))
    assert fetch_action(engine, "worst").quarantined_at is not None


def test_action_that_fails_otherwise_holds_up_no_other(
    call: Call, engine: sa.Engine, made_at: datetime, monkeypatch: pytest.MonkeyPatch
):
    """As in a tick, whatever it is that an action cannot be decided for."""
    for uid in ("bad", "good"):
        post_before(engine, made_at, uid=uid, name=uid, when=EACH_MINUTE)

    def fail(action: Any, *given: Any, **more: Any) -> Decision:
        if action.uid == "bad":
            raise OverflowError("date value out of range")
        return decide(action, *given, **more)

    monkeypatch.setattr("actions.restore_actions.decide", fail)

    assert 1 == restore(call, made_at)["missed_actions"]
    assert ["good"] == [row.action_uid for row in fetch_all(engine)]


def test_want_of_memory_ends_it(
    call: Call, engine: sa.Engine, made_at: datetime, monkeypatch: pytest.MonkeyPatch
):
    """It passes, and the first tick would not record as missed what was due."""
    post_before(engine, made_at, when=EACH_MINUTE)
    monkeypatch.setattr("actions.restore_actions.decide", Mock(side_effect=MemoryError))

    with pytest.raises(MemoryError):
        call("restored", "--as-of", made_at.isoformat())

    assert [] == fetch_all(engine)


@pytest.mark.parametrize("catch_up", ["none", "all"])
def test_what_was_due_since_is_missed_whatever_catch_up_says(
    call: Call, engine: sa.Engine, made_at: datetime, catch_up: str
):
    """One row for each action; the first tick after it runs nothing of that time."""
    caught = {"runs": catch_up, "within": "P1D"}
    uid = post_before(engine, made_at, when=EACH_MINUTE, catch_up=caught)

    data = restore(call, made_at)
    tick(make_dispatcher(engine), get_now(engine))

    (missed, *runs) = fetch_all(engine)
    assert 1 == data["missed_actions"]
    assert 59 <= missed.details["count"] <= 61
    assert ("missed", uid) == (missed.state, missed.action_uid)
    assert missed.reason.startswith("restored")
    # a minute may have begun since
    last = datetime.fromisoformat(missed.details["last"])
    assert [last + 60 * SECOND][: len(runs)] == [row.occurrence for row in runs]


@pytest.mark.parametrize("how", ["ends", "ends with its app", "resumed", "begins"])
def test_what_was_paused_until_before_now_is_missed(
    call: Call, engine: sa.Engine, made_at: datetime, how: str
):
    """From the end of the pause on, even if the backup is of amid a pause or resume."""
    caught = {"runs": "all", "within": "P1D"}
    uid = post_before(engine, made_at, when=EACH_MINUTE, catch_up=caught)
    until = made_at if how == "resumed" else made_at + HOUR / 2
    pause: dict[str, Any] = {"paused_at": made_at - HOUR / 2, "paused_until": until}
    edit_action(engine, uid, created_at=made_at - HOUR)
    change: dict[str, Any] = {"at": made_at.isoformat(), "by": "ada", "until": ""}
    if how != "begins":
        scope = None if how == "ends" else "app"
        edit_action(engine, uid, **pause, pause_scope=scope)
    if how == "ends with its app":
        write_by(engine, write_target, "app", pause)
    elif how == "resumed":
        spread = {"holds": False, "changes": [{**change, "pause": None}]}
        write_by(engine, write_target, "app", {"spread": spread})
    elif how == "begins":
        begun = {"at": change["at"], "until": until.isoformat(), "by": "", "note": None}
        spread = {"holds": True, "changes": [{**change, "pause": begun}]}
        write_by(engine, write_target, "app", {**pause, "spread": spread})

    foreseen = restore(call, made_at, "--dry-run")
    first = restore(call, made_at)
    action = fetch_action(engine, uid)
    second = restore(call, made_at)
    dispatcher = make_dispatcher(engine)
    leader, locked = dispatcher.leader, dispatcher.locked
    end_due_pauses(engine, leader, locked, now=get_now(engine))
    tick(dispatcher, get_now(engine))

    missed, *runs = fetch_all(engine)
    assert "missed" == missed.state
    assert timedelta() <= missed.occurrence - until <= 60 * SECOND
    # a minute may have begun since
    assert all(row.occurrence > action.effective_from for row in runs)
    assert datetime.fromisoformat(missed.details["last"]) <= action.effective_from
    restarted = [each["restarted_actions"] for each in (foreseen, first, second)]
    assert [1, 1, 0] == restarted


def test_events_that_were_due_since_are_missed(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """And those that are due later are not."""
    when = {"after": "instance.user.last_seen", "delay": "PT2H"}
    uid = post_before(engine, made_at, when=when, recipients=None)
    event = NewEvent("app", "instance.user.last_seen", "ada", made_at - HOUR)
    write_by(engine, record_events, [event])
    edit_action(engine, uid, next_due_at=made_at)

    restore(call, made_at)

    (missed,) = fetch_all(engine)
    due_at = (made_at + HOUR).replace(microsecond=0)  # to the second, as all such
    assert ("missed", due_at) == (missed.state, missed.occurrence)


def test_second_time_changes_nothing(call: Call, engine: sa.Engine, made_at: datetime):
    """Neither what a dry run counts, nor what is there."""
    uid = post_before(engine, made_at, when=EACH_MINUTE)
    add_live(engine, made_at)
    foreseen = restore(call, made_at, "--dry-run")
    before = (fetch_all(engine), fetch_action(engine, uid).revision)
    assert 3 == len(before[0])

    first = restore(call, made_at)
    edit_action(engine, uid, next_due_at=get_now(engine) + HOUR)
    rows, revision = fetch_all(engine), fetch_action(engine, uid).revision
    second = restore(call, made_at)

    assert 1 == before[1] == revision - 1
    assert foreseen["canceled"] == first["canceled"]
    assert (4, rows) == (len(rows), fetch_all(engine))
    assert revision == fetch_action(engine, uid).revision
    numbers = ("uncertain_mails", "missed_actions", "restarted_actions")
    assert {"canceled": {}, **dict.fromkeys(numbers, 0)}.items() <= second.items()


def test_audit_and_why_explain_it(call: Call, engine: sa.Engine, made_at: datetime):
    """Nothing is missing, and nothing is put down to an outage."""
    uid = post_before(engine, made_at, when=EACH_MINUTE)
    restore(call, made_at)
    now = get_now(engine)
    tick(make_dispatcher(engine), now)

    period = ("--from", made_at.isoformat(), "--until", now.isoformat())
    audited = call("audit", *period, "--json", "--app", "app")
    why = call("why", uid, "--at", (made_at + HOUR / 2).isoformat())

    assert 0 == audited.code, audited.out
    told = " ".join(why.out.split())
    assert "it was missed: restored: it was live in a backup that was restored" in told


def test_leader_of_what_was_lost_changes_nothing(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """Its fence is far below those that are handed out from now on."""
    leader = Leader(engine)
    assert leader.hold()
    old_fence = leader.fence
    execute(engine, sa.update(leases).values(heartbeat_at=made_at, expires_at=made_at))

    restore(call, made_at)
    newer = Leader(engine)

    assert newer.hold()
    assert old_fence is not None
    assert newer.fence is not None
    assert newer.fence > old_fence + 100


@pytest.mark.parametrize("living", ["leader", "process", "claim"])
def test_refused_while_somebody_lives(
    call: Call, engine: sa.Engine, made_at: datetime, living: str
):
    """Who runs now may be about to finish what would be canceled."""
    if living == "leader":
        assert Leader(engine).hold()
    elif living == "process":
        give_sign(engine, make_worker())
    else:
        post(engine, uid="daily")
        record_all(engine, make_operation())
        assert claim_operation(engine, make_operation().id, worker="w") is not None

    answer = call("restored", "--as-of", made_at.isoformat())

    assert 5 == answer.code
    assert "Stop all" in answer.err


def test_time_at_which_no_backup_can_have_been_made_is_refused(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """
    Later than now, or earlier than what the database knows of.

    A time noted to the second is such a one; the latest that the database knows of is
    none, and can be pasted.
    """
    post_before(engine, made_at, uid="daily")
    record_all(engine, make_operation())

    early = call("restored", "--as-of", made_at.isoformat())
    late = call("restored", "--as-of", (made_at + 3 * HOUR).isoformat())

    assert (2, 2) == (early.code, late.code)
    (named,) = re.findall("rows of (.*), which is later", early.err)
    assert 0 == call("restored", "--as-of", named, "--dry-run").code
    assert "later than now" in late.err


def test_data_without_files_are_listed(
    call: Call, engine: sa.Engine, made_at: datetime
):
    """The workspace is newer: what the backup names may have been pruned."""
    domain = {"app": "app", "name": "a", "source": {}, "live_version": 3}
    execute(engine, sa.insert(domains), domain)
    version = {"app": "app", "domain": "a", "version": 3, "path": "app/a/3.parquet"}
    version |= {"rows": 1, "bytes": 1, "sha256": "0", "created_at": made_at}
    execute(engine, sa.insert(domain_versions), version)

    data = restore(call, made_at)

    lost = {"app": "app", "domain": "a", "use": "live", "version": 3}
    assert [lost] == data["lost_files"]


def test_it_is_told_to_people(call: Call, engine: sa.Engine, made_at: datetime):
    add_live(engine, made_at)

    answer = call("restored", "--as-of", made_at.isoformat())

    assert 0 == answer.code
    assert "3 operations (1 pending, 1 queued, 1 running)" in answer.out
    assert "operations retry" in answer.err
