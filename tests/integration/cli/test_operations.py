"""Operations: run by hand, shown, watched, canceled and retried."""

from __future__ import annotations

import json
import re
import signal
import sys
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID, uuid4

import pytest
import sqlalchemy as sa
from structlog.testing import capture_logs

from cli import operations_watch
from cli.connection import get_engine
from cli.main import INTERRUPTED
from models.database.engine import db_now
from models.database.tables import operation_log
from models.errors import StepError
from operations import state
from operations.operation_log import LogLevel
from operations.ports import StepContext, StepResult
from operations.running.attempt import Attempt
from tests.database import execute
from tests.integration.cli.calling import WEEKLY, Call, Post
from tests.scheduling import MINUTE, edit, must_claim
from tests.servers import PATIENCE_S, run_process, wait_until
from tests.unit.operations.fakes import World

#: What others read; these names are contracts.
OPERATION_KEYS = [
    *("id", "action_uid", "app", "occurrence", "user", "trigger", "triggerrer"),
    *("queue", "state", "reason", "attempt", "recorded_at", "sent_at"),
    *("started_at", "finished_at", "worker", "progress", "steps", "error"),
]
STEP_KEYS = {
    *("name", "state", "attempt", "started_at", "finished_at"),
    *("progress", "result", "error"),
}


@pytest.fixture
def weekly(call: Call, shop: Path) -> str:
    """Give the id of a run of an example that waits."""
    assert shop.exists()
    call("actions", "post", str(WEEKLY), "--app", "shop")
    return call("actions", "run", "weekly update").out.strip()


@pytest.mark.usefixtures("shop")
def test_manual_run_shows_the_steps_to_come(call: Call):
    """
    Before a worker has it, an operation has every key of the contract, and its
    steps are those of the document, pending.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")

    answer = call("actions", "run", "weekly update", "--key", "k", "--json")

    shown = call("operations", "show", answer.data["id"], "--json").data
    assert answer.data == shown
    assert set(OPERATION_KEYS) <= set(shown)
    expected = {"state": "pending", "trigger": "manual", "queue": "heavy"}
    expected["triggerrer"] = 'Scheduled action "weekly update"'
    assert expected.items() <= shown.items()
    assert ["refresh", "publish", "send_execsum"] == [s["name"] for s in shown["steps"]]
    assert all(STEP_KEYS <= set(step) for step in shown["steps"])
    assert {"pending"} == {step["state"] for step in shown["steps"]}
    told = call("operations", "show", shown["id"]).out
    assert shown["id"] in told
    assert "recorded; waiting for its time, for the broker," in told
    assert f"why {shown['why']['text'][:20]}" in " ".join(told.split())


def test_operation_is_canceled_and_retried(call: Call, weekly: str):
    """
    What is final cannot be canceled, what is live not retried, and nothing is beside
    another run that it may not overlap: exit 5, and which one that is.
    """
    canceled = call("operations", "cancel", weekly, "--json")
    again = call("operations", "cancel", weekly)
    shown = call("operations", "show", weekly).out
    other = call("actions", "run", "weekly update").out.strip()
    beside = call("operations", "retry", weekly)
    call("operations", "cancel", other)
    retried = call("operations", "retry", weekly, "--json")
    once_more = call("operations", "retry", weekly)

    assert ("canceled", "pending") == (canceled.data["state"], retried.data["state"])
    assert [0, 5, 5, 0, 5] == [
        each.code for each in (canceled, again, beside, retried, once_more)
    ]
    rows = [line.split()[:2] for line in shown.splitlines() if line]
    assert ["state", "canceled"] in rows
    assert ["send_execsum", "skipped"] == rows[-1]
    assert f"operation {other} of the same action is under way" in beside.err


def test_cancel_and_retry_tell_of_a_worker_that_is_still_at_it(call: Call, weekly: str):
    """Canceled is final at once; its worker stops a little later, and a retry waits."""
    claim = {"claim_token": uuid4(), "lease_expires_at": db_now(MINUTE)}
    edit(get_engine(), UUID(weekly), state="running", **claim)

    canceled = call("operations", "cancel", weekly)
    retried = call("operations", "retry", weekly)

    assert "Its worker stops" in canceled.err
    assert "It waits until the worker that ran it has stopped" in retried.err


def test_watch_ends_with_the_operation(call: Call, weekly: str):
    """It says how it ended, with exit code 1 unless it succeeded."""
    call("operations", "cancel", weekly)

    answer = call("operations", "watch", weekly, "--json")

    assert (1, "canceled") == (answer.code, answer.data["state"])
    assert "canceled" in answer.err


def test_who_stops_watching_hears_that_it_goes_on(weekly: str, tmp_path: Path):
    """And how to end it."""
    log = tmp_path / "log"
    command = [sys.executable, "-m", "cli.main", "operations", "watch", weekly]
    with run_process(command, log=log) as watch:
        wait_until(lambda: "pending" in log.read_text(), what="its first line")
        watch.send_signal(signal.SIGINT)
        code = watch.wait(PATIENCE_S)

    assert INTERRUPTED == code
    told = f"It goes on. To end it: minutehand operations cancel {weekly}"
    assert told in log.read_text()


@pytest.mark.parametrize("command", ["watch", "log --follow", "state --wait"])
def test_who_waits_outlasts_a_restart_of_the_database(
    command: str, call: Call, weekly: str, monkeypatch: pytest.MonkeyPatch
):
    """Its second look finds nobody, and the next one that the operation has ended."""
    monkeypatch.setattr(operations_watch, "_EVERY_S", 0)
    monkeypatch.setattr(state, "LOOK_EVERY_S", 0.01)
    engine = get_engine()
    looks = iter([None, sa.exc.OperationalError("SELECT", {}, OSError("away"))])

    @sa.event.listens_for(engine, "engine_connect")
    def restart(connection: sa.Connection) -> None:
        if (error := next(looks, None)) is not None:
            connection.close()
            edit(engine, UUID(weekly), state="succeeded")
            raise error

    assert 0 == call("operations", *command.split(), weekly).code


def test_operations_are_filtered(call: Call, post: Post):
    post()
    at = call("actions", "show", "hello", "--json").data["next"][0]
    call("tick", "--at", at)
    (made,) = call("operations", "list", "--json").data
    later = datetime.fromisoformat(at) + timedelta(seconds=1)

    def count(*arguments: str) -> int:
        found = call("operations", "list", "--app", "shop", "--json", *arguments)
        return len(found.data)

    assert (1, 0) == (count("--from", at), count("--until", at))
    assert 1 == count("--until", later.isoformat(), "--limit", "1")
    assert 0 == count("--from", later.isoformat())
    assert 1 == count("--state", "pending", "--state", "failed")
    assert 0 == count("--state", "canceled", "--state", "failed")
    assert (1, 0) == (count("--queue", "quick"), count("--queue", "heavy"))
    assert (1, 0) == (count("--trigger", "schedule"), count("--trigger", "event"))
    assert 0 == count("--reason", "overlap")
    assert (1, 0) == (count("--text", "HELLO"), count("--text", "bye"))
    assert 1 == count("--text", made["id"])


def test_missed_range_tells_how_many(call: Call, post: Post):
    post()
    at = datetime.fromisoformat(
        call("actions", "show", "hello", "--json").data["next"][0]
    )
    call("tick", "--at", (at + timedelta(days=3, hours=1)).isoformat())

    missed = call("operations", "list", "--state", "missed", "--json").data

    assert [("outage", 4)] == [(e["reason"], e["details"]["count"]) for e in missed]
    assert {"skipped"} == {step["state"] for step in missed[0]["steps"]}
    shown = call("operations", "show", missed[0]["id"]).out
    assert "4, " in shown
    assert "older than the look-back" in " ".join(shown.split())
    assert "outage: 4, " in call("operations", "list").out


@pytest.fixture
def failed(weekly: str) -> str:
    """Give the id of such a run that failed at its second step."""
    claim = must_claim(get_engine(), UUID(weekly))

    def succeed(context: StepContext, _asked: object) -> StepResult:
        context.say("read a")
        context.say("x" * 100, level=LogLevel.WARNING)
        return {}

    def fail(context: StepContext, _asked: object) -> StepResult:
        context.progress(1, 3, "countries")
        raise StepError("nothing is staged", permanent=True)

    steps = {"refresh": succeed, "publish": fail}
    ports = World(Path()).make_context().ports
    with capture_logs():
        Attempt(get_engine(), claim, ports, steps=steps).run()
    return weekly


def test_retry_begins_with_the_step_that_was_named(call: Call, failed: str):
    typo = call("operations", "retry", failed, "--from-step", "refreshed")
    later = call("operations", "retry", failed, "--from-step", "send_execsum")
    done = call("operations", "retry", failed, "--from-step", "refresh", "--json")

    assert (2, 5, 0) == (typo.code, later.code, done.code)
    assert "Did you mean 'refresh'?" in typo.err
    assert "'publish', before 'send_execsum', has not succeeded" in later.err
    assert {"pending"} == {step["state"] for step in done.data["steps"]}


def test_log_is_printed(call: Call, failed: str):
    """
    A line for each line, with its step; as JSON, an array, or objects to follow. Where
    lines are missing, that is said.
    """
    shown = call("operations", "log", failed)
    data = call("operations", "log", failed, "--json").data
    followed = call("operations", "log", failed, "--follow", "--json")
    rest = call("operations", "log", failed, "--after", "2", "--json").data
    nothing = call("operations", "log", failed, "--after", "3")
    execute(get_engine(), sa.delete(operation_log).where(operation_log.c.number == 2))
    gap = call("operations", "log", failed)

    first, second, third = shown.out.splitlines()
    assert first.endswith("refresh  read a")
    assert re.search(r" \+0[12]:00 \(", first)  # by the clock of its rule
    assert second.endswith("x" * 100)
    assert third.endswith("publish  nothing is staged")
    assert [1, 2, 3] == [line["number"] for line in data]
    assert ["info", "warning", "error"] == [line["level"] for line in data]
    assert {"number", "at", "attempt", "step", "level", "text"} == data[0].keys()
    assert data == [json.loads(line) for line in followed.out.splitlines()]
    assert data[2:] == rest
    assert "(1 line was not kept)" in gap.err
    assert "" == nothing.out
    assert f"minutehand operations show {failed}" in nothing.err


def test_state_is_one_word(call: Call, failed: str):
    """
    Whatever it is, the exit code is 0; only an unknown id is an error. Attempts of what
    failed for good that are left over are not made, and nobody should wait for them.
    How far it came is told.
    """
    shown = call("operations", "show", failed).out

    at_once = call("operations", "state", failed)
    waiting = call("operations", "state", failed, "--wait")
    data = call("operations", "state", failed, "--json").data
    call("operations", "retry", failed)
    in_time = call("operations", "state", failed, "--wait", "--timeout", "PT0.1S")

    assert "a step failed; no other attempt will follow" in shown
    assert "if another attempt" not in shown
    assert "1/3 countries; nothing is staged" in shown
    assert ("failed\n", 0) == (at_once.out, at_once.code)
    assert at_once == waiting
    assert {"id": failed, "state": "failed", "is_final": True} == data
    assert ("pending\n", 0) == (in_time.out, in_time.code)
