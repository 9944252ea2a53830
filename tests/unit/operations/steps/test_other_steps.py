"""call_webhook, run_task, maintenance and send_execsum, on fakes."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from models.errors import AwaitedError, StepError
from models.operation import CallWebhookModel, OperationModel, RecipientFilterModel
from models.run_task import RunTaskModel
from operations.domains import Domain, Fingerprint, Version
from operations.foreign_tasks import make_task_id
from operations.mail.message import Fate, Sending, compute_message_id
from operations.mail.summary.content import Former
from operations.ports import Retention
from operations.recipients import User
from operations.steps import STEPS
from operations.steps.call_webhook import call_webhook
from operations.steps.maintenance import BATCH, maintenance
from operations.steps.run_task import run_task
from operations.steps.send_mails import send_execsum
from tests.unit.operations.fakes import NOW, OPERATION, World

#: What the document of a step without arguments holds.
YES: Literal[True] = True
HOOK = CallWebhookModel(url="https://hooks.example.org/x")
TASK = RunTaskModel(
    name="my.report", args=(1,), kwargs={"a": "b"}, queue="mine", connection="shop"
)


def test_every_step_of_the_document_is_in_the_table():
    """STEPS has each field of OperationModel, in the order they run."""
    assert list(OperationModel.model_fields) == list(STEPS)


def test_webhook_carries_the_operation(world: World):
    """The id is the operation's, so that the receiver does nothing twice."""
    result = call_webhook(world.make_context(), HOOK)

    url, message_id, body = world.webhooks.posts[0]
    assert (HOOK.url, str(OPERATION)) == (url, message_id)
    assert {
        "type": "operation.step",
        "data": {
            "operation_id": str(OPERATION),
            "app": "demo",
            "action": {"uid": "weekly", "name": "weekly update"},
            "occurrence": "2026-11-23 06:00:00+00:00",
            "user": None,
            "trigger": "schedule",
            "event": None,
        },
    } == json.loads(body)
    assert {"webhook_id": str(OPERATION), "answer": "200 OK"} == result


def test_webhook_body_is_the_same_in_each_attempt(world: World):
    """A later attempt sends the same bytes."""
    call_webhook(world.make_context(), HOOK)
    call_webhook(world.make_context(attempt=2, now=NOW + timedelta(hours=1)), HOOK)

    bodies = {body for _url, _id, body in world.webhooks.posts}
    assert 1 == len(bodies)


@pytest.mark.parametrize(
    ("outcome", "permanent"),
    [(Fate.REFUSED, True), (Fate.DEFERRED, False), (Fate.UNREACHABLE, False)],
)
def test_webhook_failure_says_whether_to_retry(
    world: World, outcome: Fate, *, permanent: bool
):
    """Only a refusal is final."""
    world.webhooks.answer = Sending(outcome, "because")

    with pytest.raises(StepError, match="because") as caught:
        call_webhook(world.make_context(), HOOK)

    assert permanent == caught.value.permanent


def test_task_is_sent_as_asked_under_a_derived_id(world: World):
    """All but the id is the document's; the id is the same each time."""
    result = run_task(world.make_context(), TASK)
    run_task(world.make_context(attempt=2), TASK)

    first, second = world.tasks.sent
    assert ("my.report", (1,), {"a": "b"}) == (first.name, first.args, first.kwargs)
    assert ("shop", "mine") == (first.connection, first.queue)
    assert make_task_id(OPERATION) == first.id == second.id
    assert {
        "task_id": make_task_id(OPERATION),
        "name": "my.report",
        "queue": "mine",
        "connection": "shop",
    } == result


def test_task_that_is_waited_for_carries_what_its_answer_must_bring(world: World):
    """Where it was sent is known meanwhile; a stored document does not wait."""
    asked = RunTaskModel(name="my.report", queue="mine", wait=True, within="PT5M")

    with pytest.raises(AwaitedError, match=r"my\.report") as caught:
        run_task(world.make_context(attempt=2), asked)
    run_task(world.make_context(), TASK)

    first, second = world.tasks.sent
    assert ("the token of attempt 2", None) == (first.token, second.token)
    assert timedelta(minutes=5) == caught.value.within
    assert "mine" == caught.value.result["queue"]


def test_task_id_is_a_published_value():
    """The derivation is a contract: users may compute it."""
    assert "f9618ba1-93ff-5c61-953f-6cfef56c171f" == make_task_id(OPERATION)


def test_task_is_told_what_it_runs_for(world: World):
    """A text that is one placeholder keeps its type; in a longer one it is text."""
    world.user_id = "u1"
    world.directory.users = (User(id="u1", email="ann@example.org"),)
    asked = RunTaskModel.model_validate(
        {
            "name": "my.report",
            "args": ("{{ occurrence }}", "for {{user.email}}, {{ '{{' }}", 7),
            "kwargs": {"deep": [{"id": "{{ operation.id }}", "at": "{{ event.at }}"}]},
            "headers": {"tenant": "{{ app.name }}", "none": "{{ event.at }}"},
        }
    )

    run_task(world.make_context(), asked)

    (sent,) = world.tasks.sent
    due = "2026-11-23T06:00:00+00:00"
    assert [due, "for ann@example.org, {{", 7] == sent.args
    assert {"deep": [{"id": str(OPERATION), "at": None}]} == sent.kwargs
    assert {
        "tenant": "Demo",
        "minutehand-occurrence": due,
        "minutehand-scheduled-for": due,
        "minutehand-operation-id": str(OPERATION),
        "minutehand-attempt": 1,
        "minutehand-operation-trigger": "event",
        "minutehand-action-uid": "weekly",
        "minutehand-action-name": "weekly update",
        "minutehand-app-uid": "demo",
        "minutehand-user-id": "u1",
        "minutehand-event-name": "instance.user.last_seen",
    } == sent.headers


def test_placeholder_without_a_value_is_no_empty_text(world: World):
    """The step fails for good, and says which."""
    asked = RunTaskModel(name="my.report", args=("at {{ event.at }}",))

    with pytest.raises(StepError, match=r"event\.at }} has no value") as caught:
        run_task(world.make_context(), asked)

    assert caught.value.permanent
    assert [] == world.tasks.sent


def test_maintenance_removes_everything_old_in_batches(world: World):
    """Each kind is pruned until a batch comes back short; the result counts all."""
    world.prune.operations, world.prune.events, world.prune.leases = 2 * BATCH, 7, 1
    world.workspace.old_versions, world.workspace.stray_files = 3, 2
    world.prune.answers, world.prune.sign_ins = BATCH + 4, 5
    world.prune.bulk_changes, world.prune.backfills = 3, 12
    world.prune.mails = 5

    result = maintenance(world.make_context(), YES)

    assert {
        "removed": {
            "operations": 2 * BATCH,
            "operations_below_minute": 0,
            "revisions": 0,
            "mails": 5,
            "events": 7,
            "versions": 3,
            "files": 2,
            "answers": BATCH + 4,
            "sign_ins": 5,
            "bulk_changes": 3,
            "backfills": 12,
            "leases": 1,
        }
    } == result
    assert [BATCH, BATCH, 0] == world.prune.batches["operations"]


def test_maintenance_keeps_what_the_settings_say(world: World):
    """Counted back from the database's clock; answers are asked for within a day."""
    world.retention = Retention(
        operations=timedelta(days=7), events=timedelta(days=9), versions=2
    )

    maintenance(world.make_context(), YES)

    assert NOW - timedelta(days=7) == world.prune.cutoffs["operations"]
    assert NOW - timedelta(days=9) == world.prune.cutoffs["events"]
    assert NOW - timedelta(days=1) == world.prune.cutoffs["answers"]
    assert NOW == world.prune.cutoffs["sign_ins"]
    assert (12, 12, "") == world.progress.points[-1]


@pytest.fixture
def readers(world: World) -> World:
    """Give a live domain, one that was never published, and two readers."""
    version = Version(
        4,
        world.root / "4.parquet",
        1234,
        99,
        NOW - timedelta(hours=3),
        Fingerprint(source="s"),
    )
    world.workspace.domains["sales"] = Domain("sales", {}, version, version)
    world.workspace.domains["later"] = Domain("later", {})
    long_ago = datetime(2020, 1, 1, tzinfo=UTC)
    world.directory.users = tuple(
        User(letter, f"{letter}@x.org", activated_at=long_ago) for letter in "ab"
    )
    world.recipients = RecipientFilterModel(groups=("all",))
    return world


def change_sales(world: World, **changes: Any) -> None:
    """Change the live domain."""
    domains = world.workspace.domains
    domains["sales"] = replace(domains["sales"], **changes)


def test_execsum_goes_to_each_recipient_with_a_pdf(readers: World):
    """Every recipient gets text, HTML and PDF of the live versions."""
    result = send_execsum(readers.make_context(), YES)

    mail = readers.mailer.mails[0]
    assert (2, {"sales": 4}) == (result["sent"], result["domains"])
    assert "Executive summary: Demo, November 23, 2026" == mail.subject
    assert "1,234 rows in 1 data set." in (mail.text or "")
    assert "3 hours ago" in (mail.html or "")
    assert "Not published yet: later." in (mail.text or "")
    assert [("Demo-2026-11-23.pdf", b"%PDF-")] == [
        (attachment.name, attachment.content[:5]) for attachment in mail.attachments
    ]


def test_execsum_and_email_have_different_message_ids():
    """A server that is sent the same id again may throw the second mail away."""
    steps = ("send_email", "send_execsum")

    assert 2 == len({compute_message_id(OPERATION, step, "ann") for step in steps})


def test_log_has_what_others_answered(world: World):
    """The webhook's status, and under which id the task was sent to which queue."""
    call_webhook(world.make_context(), HOOK)
    run_task(world.make_context(), TASK)

    answer, sent = (text for _level, text in world.log.lines)
    assert "the request was accepted: 200 OK" == answer
    assert f"task id {make_task_id(OPERATION)}" in sent


def test_execsum_speaks_the_language_of_each_reader(readers: World):
    """That of the user, else that of the app, else English."""
    ann, bob = readers.directory.users
    readers.directory.users = (replace(ann, locale="fr-CH"), replace(bob, locale="xx"))

    send_execsum(readers.make_context(), YES)

    french, english = readers.mailer.mails
    assert french.subject.startswith("Synthèse")
    assert english.subject.startswith("Executive summary")


def test_execsum_speaks_the_language_of_the_app_to_all_others(readers: World):
    """Whoever has no locale reads what app.json says."""
    readers.directory.locale = "fr"

    send_execsum(readers.make_context(), YES)

    assert readers.mailer.mails[0].subject.startswith("Synthèse")


def test_execsum_tells_what_changed_since_the_last_one(readers: World):
    """The first compares nothing; the next one with the first."""
    send_execsum(readers.make_context(), YES)
    sales = readers.workspace.domains["sales"]
    assert sales.live is not None
    change_sales(readers, live=replace(sales.live, rows=1300))
    readers.memo.clear()
    readers.deliveries.marks.clear()

    send_execsum(readers.make_context(now=NOW + timedelta(days=7)), YES)

    first, second = (readers.mailer.mails[number].text or "" for number in (0, 2))
    assert "Since" not in first
    assert "Since Nov 23, 2026" in second
    assert "+66 (+5.3%)" in second


def test_execsum_compares_with_the_same_in_each_attempt(readers: World):
    """What is sent after a retry says what the first mails said."""
    readers.mailer.outcomes["b@x.org"] = [Sending(Fate.DEFERRED, "452 full")]
    change_sales(readers, summarized={"weekly": Former(NOW, 1000, {}).as_json()})
    with pytest.raises(StepError):
        send_execsum(readers.make_context(), YES)
    change_sales(readers, summarized={"weekly": Former(NOW, 1, {}).as_json()})

    send_execsum(readers.make_context(attempt=2), YES)

    assert readers.mailer.mails[0].text == readers.mailer.mails[1].text


def test_execsum_that_reached_nobody_is_not_the_last_one(readers: World):
    """The next one compares with what people have read."""
    readers.recipients = RecipientFilterModel(users=("nobody",))

    send_execsum(readers.make_context(), YES)

    assert {} == readers.workspace.domains["sales"].summarized


def test_execsum_of_an_event_compares_nothing(readers: World):
    """It goes to another person each time."""
    readers.user_id = readers.directory.users[0].id
    former = {"weekly": Former(NOW, 1000, {}).as_json()}
    change_sales(readers, summarized=former)

    send_execsum(readers.make_context(), YES)

    assert "Since" not in (readers.mailer.mails[0].text or "")
    assert former == readers.workspace.domains["sales"].summarized


def test_column_that_is_not_there_is_a_warning(readers: World):
    """A typo in app.json is told in the result."""
    change_sales(readers, labels={"columns": {"amuont": {"unit": "€"}}})

    result = send_execsum(readers.make_context(), YES)

    assert ["Domain 'sales' has no column 'amuont', which the app describes."] == (
        result["warnings"]
    )
