"""Where tasks of users' own may go, and what is said of where they may not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from models.door.documents import (
    ReadContext,
    action_document,
    read_action,
    read_actions,
)
from models.errors import InvalidDocumentError, Problem
from models.fields.task_rules import ConnectionRules, TaskRules
from tests.unit.models.documents import action, steps

RULES = TaskRules("minutehand", connections=("shop", "crm"))


def make(**task: object) -> str:
    """Return an action that sends a task."""
    return steps(run_task={"name": "shop.report", **task})


def refuse(text: str, rules: TaskRules = RULES) -> Problem:
    """Return why the door refuses *text*."""
    with pytest.raises(InvalidDocumentError) as caught:
        read_action(text, ReadContext(task_rules=rules))
    (problem,) = caught.value.problems
    return problem


def read_task(text: str, rules: TaskRules | None = RULES) -> Any:
    """Return the task as it is stored."""
    stored: Any = action_document(read_action(text, ReadContext(task_rules=rules)))
    return stored["operations"]["run_task"]


def test_task_without_a_queue_is_refused():
    """Any worker might take it from the default queue, and drop it."""
    problem = refuse(make())

    assert "/operations/run_task/queue" == problem.pointer
    assert '"queue": "reports"' in problem.hint


def test_queue_of_the_settings_is_written_down():
    """What is stored says where its task goes, whatever the settings are by then."""
    rules = replace(RULES, default_queue="reports")

    assert "reports" == read_task(make(), rules)["queue"]
    assert "other" == read_task(make(queue="other"), rules)["queue"]


@pytest.mark.parametrize(
    "queue", ["minutehand.quick", "minutehand.heavy", "minutehand", "minutehand.x"]
)
@pytest.mark.parametrize("connection", [None, "shop"])
def test_queue_of_ours_is_refused(queue: str, connection: str | None):
    """
    Our workers do not know the task; another connection may lead to the same broker.
    """
    problem = refuse(make(queue=queue, connection=connection))

    assert "/operations/run_task/queue" == problem.pointer
    assert f"'{queue}'" in problem.message


@pytest.mark.parametrize("queue", ["celery", "quick", "heavy", "minutehander.quick"])
def test_queue_that_only_sounds_like_ours_is_accepted(queue: str):
    """
    On the broker ours have other names, and celery is that of half of all projects.
    """
    assert queue == read_task(make(queue=queue))["queue"]


@pytest.mark.parametrize("queue", ["celery", "quick", "heavy"])
def test_without_a_prefix_our_words_are_the_names(queue: str):
    """An installation whose queues have no prefix consumes what is called so."""
    rules = replace(RULES, own_prefix="")

    assert f"'{queue}'" in refuse(make(queue=queue), rules).message
    assert "reports" == read_task(make(queue="reports"), rules)["queue"]


@pytest.mark.parametrize(
    "queue",
    [
        *("_kombu.binding.celery", "celery@host.celery.pidbox", "unacked_index"),
        *("1f2e.reply.celery.pidbox", "amq.gen-x", "minutehand", "minutehand.heavy"),
        "crm.answers.0b7c2f5e-8a3d-4b8e-9d52-3f0f2a1b4c5d",
    ],
)
def test_queue_of_a_transport_or_of_others_is_refused(queue: str):
    """A task there would be taken for something else, whatever our own prefix is."""
    problem = refuse(make(queue=queue), replace(RULES, own_prefix="ours"))

    assert "/operations/run_task/queue" == problem.pointer
    assert f"'{queue}'" in problem.message
    assert "workers take" in problem.hint


LISTED = replace(
    RULES,
    with_exchanges=frozenset({"shop"}),
    by_connection={"shop": ConnectionRules(["shop"], ["reports", "mail.*"])},
)


@pytest.mark.parametrize(
    ("app", "task", "pointer", "word"),
    [
        ("crm", {"queue": "reports"}, "connection", "Write one of: crm."),
        ("shop", {"queue": "mails"}, "queue", "Write one of: reports, mail.*."),
        ("shop", {"exchange": "mail.x"}, "exchange", "An exchange is not among"),
    ],
)
def test_what_a_connection_does_not_list_is_refused(
    app: str, task: dict[str, object], pointer: str, word: str
):
    """Small apps, and queues; an exchange may lead to any."""
    problem = refuse(make(connection="shop", **task), LISTED.of(app))

    assert f"/operations/run_task/{pointer}" == problem.pointer
    assert word in f"{problem.message} {problem.hint}"


def test_refusal_does_not_tell_that_others_have_a_connection():
    """Who may post for one small app could guess the names of all."""
    theirs, unknown = (
        refuse(make(queue="reports", connection=name), LISTED.of("crm"))
        for name in ("shop", "shed")
    )

    assert theirs.message.replace("shop", "shed") == unknown.message
    assert "Write one of: crm." == theirs.hint == unknown.hint


@pytest.mark.parametrize("app", ["shop", None])
def test_what_a_connection_lists_is_accepted(app: str | None):
    """
    A queue by its name or a pattern; without an app, whose it would be does not matter.
    """
    asked = make(connection="shop", queue="mail.daily")

    assert "mail.daily" == read_task(asked, LISTED.of(app))["queue"]


@pytest.mark.parametrize("key", ["args", "kwargs"])
def test_arguments_are_bounded_together(key: str):
    """A message goes through a broker that holds it in memory."""
    much: dict[str, object] = {"args": ["a" * 900], "kwargs": {"b": "b" * 200}}
    if key == "args":
        much = {"args": ["a" * 1_100]}
    rules = replace(RULES, most_bytes=1_000)

    problem = refuse(make(queue="reports", **much), rules)

    assert f"/operations/run_task/{key}" == problem.pointer
    assert "of at most 1,000" in problem.message


def test_connection_that_is_not_known_is_refused_with_those_that_are():
    """A typo is told from what was meant."""
    problem = refuse(make(queue="reports", connection="shpo"))

    assert "/operations/run_task/connection" == problem.pointer
    assert "'shpo'" in problem.message
    assert "Did you mean 'shop'? Write one of: shop, crm." == problem.hint


def test_connection_where_there_is_none_names_the_setting():
    """Only an operator can help."""
    problem = refuse(make(queue="reports", connection="shop"), TaskRules("minutehand"))

    assert "MINUTEHAND_TASK_CONNECTIONS" in problem.hint


def test_broker_in_memory_reaches_nobody():
    """
    A task that no worker could ever take is refused, unless it names a connection.
    """
    rules = replace(RULES, has_broker=False)

    assert "memory://" in refuse(make(queue="reports"), rules).message
    assert "shop" == read_task(make(queue="q", connection="shop"), rules)["connection"]


def test_exchange_takes_the_place_of_the_queue():
    """No default queue is written down beside it."""
    rules = replace(RULES, default_queue="q", with_exchanges=frozenset({"shop"}))

    stored = read_task(
        make(exchange="reports", routing_key="a.b", connection="shop"), rules
    )

    assert ("reports", "a.b") == (stored["exchange"], stored["routing_key"])
    assert "queue" not in stored


@pytest.mark.parametrize(
    ("task", "pointer", "word"),
    [
        ({"exchange": "minutehand.x", "connection": "shop"}, "exchange", "own"),
        ({"exchange": "minutehand", "connection": "shop"}, "exchange", "own"),
        ({"exchange": "reports", "connection": "crm"}, "connection", "not RabbitMQ"),
        ({"exchange": "reports"}, "connection", "not RabbitMQ"),
        ({"exchange": "reports", "queue": "q", "connection": "shop"}, "queue", "both"),
    ],
)
def test_exchange_that_cannot_be_is_refused(
    task: dict[str, str], pointer: str, word: str
):
    """Those of ours, beside a queue, and on brokers that have none."""
    rules = replace(RULES, with_exchanges=frozenset({"shop"}))

    problem = refuse(make(**task), rules)

    assert f"/operations/run_task/{pointer}" == problem.pointer
    assert word in problem.message


def test_what_is_stored_is_read_without_rules():
    """
    Settings may have changed since; what is stored can still be shown and decided.
    """
    stored = read_task(make(queue="minutehand.quick", connection="gone"), None)

    assert ("minutehand.quick", "gone") == (stored["queue"], stored["connection"])


def test_rules_hold_for_each_of_many():
    """A list is refused as one action is, with the number of the entry."""
    with pytest.raises(InvalidDocumentError) as caught:
        read_actions(f"[{action()}, {make()}]", ReadContext(task_rules=RULES))

    assert ["/1/operations/run_task/queue"] == [
        problem.pointer for problem in caught.value.problems
    ]
