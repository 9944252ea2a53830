"""The commands as people and programs call them, on both databases."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pytest
import sqlalchemy as sa

from actions.leader import Leader
from actions.maintenance import MAINTENANCE_UID
from cli.connection import get_engine
from models.database import db_now, writing
from models.occurrence import make_operation_id
from models.tables import operations
from tests.integration.cli.calling import Call, write_action

WEEKLY = Path(__file__).parents[3] / "cli" / "examples" / "weekly-update.json"
MINUTE = timedelta(minutes=1)
NEVER = "2026-01-01T00:00:00Z"

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


def test_app_is_listed_and_shown(call: Call, shop: Path):
    """
    What was applied is listed; sources are named with whole paths.
    """
    listed, shown = (
        call("apps", "list", "--json"),
        call("apps", "show", "shop", "--json"),
    )

    assert [("shop", 1, 1, 0)] == [
        (app["uid"], app["users"], app["domains"], app["actions"])
        for app in listed.data
    ]
    assert {"file": f"{shop}/a.csv"} == shown.data["domains"][0]["source"]
    assert "Europe/Paris" in call("apps", "show", "shop").out
    assert "shop" in call("apps", "list").out


def test_keys_of_a_source_are_not_shown(call: Call, tmp_path: Path):
    """
    Neither people nor programs see the values of a query.
    """
    url = "https://example.com/rates.csv?token=hunter2&hunter2#hunter2"
    document = {"uid": "shop", "domains": [{"name": "a", "source": {"url": url}}]}
    (tmp_path / "app.json").write_text(json.dumps(document))
    assert 0 == call("apps", "apply", str(tmp_path)).code

    shown = call("apps", "show", "shop", "--json")

    hidden = "https://example.com/rates.csv?token=***&***"
    assert {"url": hidden} == shown.data["domains"][0]["source"]
    assert "hunter2" not in call("apps", "show", "shop").out


@pytest.mark.usefixtures("shop")
def test_example_is_posted_in_the_zone_it_names(call: Call):
    """
    The answer to a post has uid, revision and the next occurrences in UTC.
    """
    answer = call("actions", "post", str(WEEKLY), "--app", "shop", "--json")

    assert 0 == answer.code
    assert 1 == answer.data["revision"]
    following = [datetime.fromisoformat(at) for at in answer.data["next"]]
    assert [0] * 5 == [at.weekday() for at in following]
    assert all(text.endswith(":00:00Z") for text in answer.data["next"])


def test_zone_of_the_app_is_the_default(call: Call, shop: Path):
    """
    A rule without a zone is read in that of its small app.
    """
    call("actions", "post", write_action(shop), "--app", "shop")

    shown = call("actions", "show", "hello", "--json")

    assert "Europe/Paris" == shown.data["document"]["when"]["timezone"]


def test_name_that_is_taken_is_a_conflict(call: Call, shop: Path):
    """
    Posting an existing name exits with 5; --replace makes it a new revision.
    """
    path = write_action(shop)
    call("actions", "post", path, "--app", "shop")

    again = call("actions", "post", path, "--app", "shop", "--json")
    replaced = call("actions", "post", path, "--app", "shop", "--json", "--replace")

    assert (5, "") == (again.code, again.out)
    assert "--replace" in again.err
    assert (0, 2) == (replaced.code, replaced.data["revision"])


def test_bad_document_names_each_problem(call: Call, shop: Path):
    """
    Every problem is one line on standard error: pointer, message, hint.
    """
    path = write_action(shop, when={"cron_rule": "61 * * * *"}, colour="red")

    answer = call("actions", "post", path, "--app", "shop")

    assert (3, "") == (answer.code, answer.out)
    lines = answer.err.splitlines()
    assert ["error: /when/cron_rule:", "error: /colour:"] == [
        " ".join(line.split()[:2]) for line in lines
    ]


def test_many_actions_are_posted_at_once(call: Call, shop: Path):
    """
    A list or lines: all are stored, or, for a trial or one that is wrong, none.
    """
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
    """
    An edit is compared with what is stored: moved occurrences, and no revision.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    edited = write_action(shop, when={"cron_rule": "0 8 * * *"})

    answer = call(
        *("actions", "post", edited, "--app", "shop"),
        *("--replace", "--dry-run", "--json"),
    )

    assert 0 == answer.code
    assert 29 <= len(answer.data["moved"]) <= 31
    # between the two hours, one of today's occurrences is still to come
    assert len(answer.data["added"]) + len(answer.data["removed"]) <= 1
    assert 1 == call("actions", "show", "hello", "--json").data["revision"]


def test_dry_run_of_a_new_action_adds(call: Call, shop: Path):
    """
    A first post only adds, and makes no action.
    """
    answer = call("actions", "post", write_action(shop), "--app", "shop", "--dry-run")

    assert 0 == answer.code
    assert "and 20 more added" in answer.out or "and 21 more added" in answer.out
    assert 4 == call("actions", "show", "hello").code


def test_action_is_paused_resumed_and_deleted(call: Call, shop: Path):
    """
    Each state is seen by list and show; a deleted uid is found, not listed.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    seen = []
    for command in ("pause", "resume", "delete"):
        answer = call("actions", command, "hello", "--json")
        seen.append((answer.code, answer.data["state"], len(answer.data["next"])))

    assert [(0, "paused", 0), (0, "active", 1), (0, "deleted", 0)] == seen
    assert [] == call("actions", "list", "--json").data
    assert "deleted" == call("actions", "show", "hello", "--json").data["state"]
    assert 4 == call("actions", "delete", "hello").code


@pytest.mark.parametrize(
    "arguments",
    [
        ("apps", "show", "nope"),
        ("actions", "show", "nope"),
        ("actions", "run", "nope"),
        ("actions", "list", "--app", "nope"),
        ("actions", "post", str(WEEKLY), "--app", "nope"),
        ("operations", "show", "nope"),
        ("operations", "show", "6b0d4f2e-3a51-5c7e-9d8a-4f1f0c9b7e21"),
        ("operations", "cancel", "6b0d4f2e-3a51-5c7e-9d8a-4f1f0c9b7e21"),
        ("operations", "list", "--action", "nope"),
        ("events", "send", "--app", "nope", "--event", "app.x", "--user", "u"),
    ],
)
def test_unknown_thing_is_not_found(call: Call, arguments: tuple[str, ...]):
    """
    What is not there exits with 4, and no data is printed.
    """
    answer = call(*arguments)

    assert (4, "") == (answer.code, answer.out)
    assert answer.err.startswith("error: ")


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
    assert ("pending", "manual", "heavy") == (
        shown["state"],
        shown["trigger"],
        shown["queue"],
    )
    assert 'Scheduled action "weekly update"' == shown["triggerrer"]
    assert ["refresh", "publish", "send_execsum"] == [s["name"] for s in shown["steps"]]
    assert all(STEP_KEYS == set(step) for step in shown["steps"])
    assert {"pending"} == {step["state"] for step in shown["steps"]}
    assert shown["id"] in call("operations", "show", shown["id"]).out


@pytest.mark.usefixtures("shop")
def test_same_key_is_the_same_run(call: Call):
    """
    A key makes a manual run idempotent; another key collides with it: exit 5.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")

    first, second, other = (
        call("actions", "run", "weekly update", "--key", key) for key in "aab"
    )

    assert (0, 0, 5) == (first.code, second.code, other.code)
    assert first.out == second.out


@pytest.mark.usefixtures("shop")
def test_operation_is_canceled_and_retried(call: Call):
    """
    Cancel and retry change the state; what is final cannot be canceled: exit 5.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")
    operation_id = call("actions", "run", "weekly update").out.strip()

    canceled = call("operations", "cancel", operation_id, "--json")
    again = call("operations", "cancel", operation_id)
    retried = call("operations", "retry", operation_id, "--json")
    once_more = call("operations", "retry", operation_id)

    assert ("canceled", "pending") == (canceled.data["state"], retried.data["state"])
    assert (0, 5, 0, 5) == (canceled.code, again.code, retried.code, once_more.code)


@pytest.mark.usefixtures("shop")
def test_cancel_and_retry_tell_of_a_worker_that_is_still_at_it(call: Call):
    """
    Canceled is final at once; its worker stops a little later, and a retry waits.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")
    operation_id = call("actions", "run", "weekly update").out.strip()
    with writing(get_engine()) as connection:
        connection.execute(
            sa.update(operations).values(
                state="running", claim_token=uuid4(), lease_expires_at=db_now(MINUTE)
            )
        )

    canceled = call("operations", "cancel", operation_id)
    retried = call("operations", "retry", operation_id)

    assert "Its worker stops" in canceled.err
    assert "it waits for that" in retried.err


@pytest.mark.usefixtures("shop")
def test_watch_ends_with_the_operation(call: Call):
    """
    Watching what is final says how it ended, with exit code 1 unless it succeeded.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")
    operation_id = call("actions", "run", "weekly update").out.strip()
    call("operations", "cancel", operation_id)

    answer = call("operations", "watch", operation_id, "--json")

    assert (1, "canceled") == (answer.code, answer.data["state"])
    assert "canceled" in answer.err


def test_tick_records_what_is_due_and_only_once(call: Call, shop: Path):
    """
    A tick of another time records each occurrence once, under its own id.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    at = call("actions", "show", "hello", "--json").data["next"][0]
    foreseen = call("tick", "--at", at, "--dry-run", "--json").data

    first = call("tick", "--at", at, "--json")
    second = call("tick", "--at", at, "--json")

    listed = call("operations", "list", "--action", "hello", "--json").data
    expected = str(make_operation_id("hello", datetime.fromisoformat(at)))
    assert [expected] == [each["id"] for each in foreseen]
    assert [expected] == [each["id"] for each in listed]
    assert (1, 0) == (first.data["recorded"], second.data["recorded"])
    assert [(at, "pending")] == [(e["occurrence"], e["state"]) for e in listed]


def test_tick_looks_after_the_daily_maintenance(embedded: Call):
    """
    In an empty home it is due at four, once, though no scheduler has ever started;
    what was due before it was made is not.
    """
    now = datetime.now(UTC)
    four = now.replace(hour=4, minute=0, second=0, microsecond=0)
    four += timedelta(days=four <= now)

    before = embedded("tick", "--at", (now - timedelta(days=1)).isoformat(), "--json")
    ticks = [embedded("tick", "--at", four.isoformat(), "--json") for _ in range(2)]

    listed = embedded("operations", "list", "--json").data
    assert 0 == before.data["due"]
    assert [1, 0] == [each.data["recorded"] for each in ticks]
    assert [MAINTENANCE_UID] == [each["action_uid"] for each in listed]
    assert [four] == [datetime.fromisoformat(each["occurrence"]) for each in listed]


@pytest.mark.usefixtures("shop")
def test_second_leader_is_a_conflict(call: Call):
    """
    A tick that will not wait for the lease names who holds it.
    """
    engine = get_engine()

    leader = Leader(engine)
    assert leader.hold()

    answer = call("tick", "--no-wait")

    assert 5 == answer.code
    assert "leads since" in answer.err


def test_operations_are_filtered(call: Call, shop: Path):
    """
    By occurrence (from inclusive, until exclusive), state and number.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    at = call("actions", "show", "hello", "--json").data["next"][0]
    call("tick", "--at", at)
    later = datetime.fromisoformat(at) + timedelta(seconds=1)

    def count(*arguments: str) -> int:
        found = call("operations", "list", "--app", "shop", "--json", *arguments)
        return len(found.data)

    assert 1 == count("--from", at)
    assert 0 == count("--until", at)
    assert 1 == count("--until", later.isoformat(), "--limit", "1")
    assert 0 == count("--from", later.isoformat())
    assert (1, 0) == (count("--state", "pending"), count("--state", "failed"))


def test_events_are_sent_by_options_and_by_file(call: Call, shop: Path):
    """
    The same event twice is recorded once, however it comes.
    """
    seen = datetime.now(UTC).replace(microsecond=0).isoformat()
    name = "instance.user.last_seen"
    path = shop / "events.jsonl"
    line = json.dumps({"event": name, "user": "ada@example.com", "at": seen})
    path.write_text(f"{line}\n{line}\n")
    options = ("--event", name, "--user", "ada@example.com", "--at", seen)

    by_options = call("events", "send", "--app", "shop", *options, "--json")
    by_file = call("events", "send", str(path), "--app", "shop", "--json")
    wrong = call(
        *("events", "send", "--app", "shop", "--event", "seen"),
        *("--user", "ada@example.com"),
    )

    assert {"received": 1, "recorded": 1} == by_options.data
    assert {"received": 2, "recorded": 0} == by_file.data
    assert (3, "") == (wrong.code, wrong.out)


def test_event_that_is_yet_to_come_is_taken_and_told(call: Call, shop: Path):
    """
    A date of next year is probably a mistake, which --correct undoes.
    """
    later = (datetime.now(UTC) + timedelta(days=400)).replace(microsecond=0)
    name, user = "instance.user.last_seen", "ada@example.com"
    path = shop / "events.json"
    path.write_text(
        json.dumps(
            [
                {"event": name, "user": user, "at": NEVER},
                {"event": name, "user": user, "at": later.isoformat()},
            ]
        )
    )

    wrong = call("events", "send", str(path), "--app", "shop", "--json")
    right = call(
        *("events", "send", "--app", "shop", "--event", name, "--user", user),
        *("--at", NEVER, "--correct", "--json"),
    )

    assert {"received": 2, "recorded": 1} == wrong.data
    assert wrong.err.startswith(f"warning: /1/at: {later:%Y-%m-%dT%H:%M:%SZ} is ")
    assert "--correct" in wrong.err
    assert ({"received": 1, "recorded": 1}, "") == (right.data, right.err)


def test_preview_needs_no_database(call: Call):
    """
    The example is due on Mondays at seven in Paris, whatever is stored.
    """
    answer = call(
        *("preview", str(WEEKLY), "--from", "2026-11-21T00:00:00Z"),
        *("--count", "2", "--json"),
    )

    assert ["2026-11-23T06:00:00Z", "2026-11-30T06:00:00Z"] == [
        each["utc"] for each in answer.data["occurrences"]
    ]


def test_batch_answers_line_for_line(call: Call, tmp_path: Path):
    """
    Each line has one answer; a bad line does not end the others.
    """
    lines = [
        {
            "id": 1,
            "action": json.loads(WEEKLY.read_text()),
            "from": "2026-11-23T00:00:00Z",
            "until": "2026-11-24T00:00:00Z",
        },
        {"id": 2, "action": {}, "from": NEVER, "until": NEVER},
    ]
    path = tmp_path / "lines.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    answer = call("preview", "--batch", str(path))

    good, bad = map(json.loads, answer.out.splitlines())
    assert {"id": 1, "occurrences": ["2026-11-23T06:00:00Z"]} == good
    assert (2, ["error", "id"]) == (bad["id"], sorted(bad))


@pytest.mark.parametrize(
    "command", [("audit",), ("operations", "list"), ("preview", str(WEEKLY))]
)
@pytest.mark.parametrize(
    ("since", "until", "said"),
    [
        ("2026-11-23T07:00+01:00", "2026-11-23T05:00Z", "later than --until"),
        ("2026-11-23T07:00+01:00", "2026-11-23T06:00Z", "the same instant"),
    ],
)
def test_period_without_an_instant_is_refused(
    call: Call, command: tuple[str, ...], since: str, until: str, said: str
):
    """
    Nothing lies between bounds that are swapped or equal, whatever their zones.
    """
    answer = call(*command, "--from", since, "--until", until)

    assert (2, "") == (answer.code, answer.out)
    assert said in answer.err
    assert "2026-11-23T06:00:00Z" in answer.err


@pytest.mark.usefixtures("shop")
def test_audit_of_what_is_not_decided_says_so(call: Call):
    """
    A period after the last tick has no faults, and no decisions either.
    """
    answer = call("audit", "--from", "2999-01-01T00:00Z", "--json")

    assert (0, []) == (answer.code, answer.data)
    assert "Nothing is decided after" in answer.err


@pytest.mark.usefixtures("shop")
def test_status_names_leader_backlog_and_next(call: Call):
    """
    Without a scheduler there is no leader; what waits is counted.
    """
    call("actions", "post", str(WEEKLY), "--app", "shop")
    call("actions", "run", "weekly update")

    answer = call("status", "--json")

    assert answer.data["leader"] is None
    assert {"pending": 1, "queued": 0, "running": 0} == answer.data["backlog"]["heavy"]
    assert ["weekly update"] == [each["name"] for each in answer.data["next_due"]]
    assert "nobody" in call("status").out


def test_missed_range_tells_how_many(call: Call, shop: Path):
    """
    A missed row is shown with its reason and its range, and steps that never ran.
    """
    call("actions", "post", write_action(shop), "--app", "shop")
    at = datetime.fromisoformat(
        call("actions", "show", "hello", "--json").data["next"][0]
    )
    call("tick", "--at", (at + timedelta(days=3, hours=1)).isoformat())

    missed = call("operations", "list", "--state", "missed", "--json").data

    assert [("outage", 4)] == [(e["reason"], e["details"]["count"]) for e in missed]
    assert {"skipped"} == {step["state"] for step in missed[0]["steps"]}
    assert "4, " in call("operations", "show", missed[0]["id"]).out
    assert "outage: 4, " in call("operations", "list").out


def test_migrate_says_where_the_database_is(call: Call):
    """
    Migrating twice changes nothing the second time.
    """
    answer = call("migrate", "--json")

    assert 0 == answer.code
    assert answer.data["before"] == answer.data["after"]
