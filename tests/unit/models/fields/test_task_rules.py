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
from models.errors import Problem
from models.fields.task_rules import ConnectionRules, TaskRules
from tests.unit.models.documents import action, find_problems, steps

RULES = TaskRules("minutehand", connections=("shop", "crm"))


def make(**task: object) -> str:
    """Return an action that sends a task."""
    return steps(run_task={"name": "shop.report", **task})


def refuse(text: str, rules: TaskRules = RULES) -> Problem:
    """Return why the door refuses *text*."""
    (problem,) = find_problems(read_action, text, ReadContext(task_rules=rules))
    return problem


def read_task(text: str, rules: TaskRules | None = RULES) -> Any:
    """Return the task as it is stored."""
    stored: Any = action_document(read_action(text, ReadContext(task_rules=rules)))
    return stored["operations"]["run_task"]


OURS = "minutehand.quick"
WITH_EXCHANGES = replace(RULES, with_exchanges=frozenset({"shop"}))
LISTED = replace(
    WITH_EXCHANGES,
    by_connection={"shop": ConnectionRules(["shop"], ["reports", "mail.*"])},
)
BOUNDED = replace(RULES, most_bytes=1_000)
SHOP: dict[str, object] = {"connection": "shop"}
REPORTS: dict[str, object] = {"queue": "reports"}


@pytest.mark.parametrize(
    ("rules", "task", "key", "words"),
    [
        # any worker might take it from the default queue, and drop it
        (RULES, {}, "queue", '"queue": "reports"'),
        # our workers do not know it; another connection may lead to the same broker
        *(
            (RULES, {"queue": queue, **connection}, "queue", f"'{queue}'")
            for queue in (OURS, "minutehand.heavy", "minutehand", "minutehand.x")
            for connection in ({}, SHOP)
        ),
        # of a transport, or of others, whatever our own prefix is
        *(
            (replace(RULES, own_prefix="ours"), {"queue": queue}, "queue", f"'{queue}'")
            for queue in (
                *(
                    "_kombu.binding.celery",
                    "celery@host.celery.pidbox",
                    "unacked_index",
                ),
                *("1f2e.reply.celery.pidbox", "amq.gen-x", "minutehand", OURS),
                "crm.answers.0b7c2f5e-8a3d-4b8e-9d52-3f0f2a1b4c5d",
            )
        ),
        (RULES, {"queue": "unacked_index"}, "queue", "workers take"),
        # without a prefix our words are the names
        *(
            (replace(RULES, own_prefix=""), {"queue": queue}, "queue", f"'{queue}'")
            for queue in ("celery", "quick", "heavy")
        ),
        # what a connection does not list: small apps, and queues
        (LISTED.of("crm"), {**REPORTS, **SHOP}, "connection", "Write one of: crm."),
        (LISTED.of("shop"), {"queue": "mails", **SHOP}, "queue", "reports, mail.*."),
        # an exchange may lead to any
        (LISTED.of("shop"), {"exchange": "mail.x", **SHOP}, "exchange", "not among"),
        (RULES, {**REPORTS, "connection": "shpo"}, "connection", "'shpo'"),
        (
            *(RULES, {**REPORTS, "connection": "shpo"}, "connection"),
            "Did you mean 'shop'? Write one of: shop, crm.",
        ),
        # only an operator can help
        (
            *(TaskRules("minutehand"), {**REPORTS, **SHOP}),
            *("connection", "MINUTEHAND_TASK_CONNECTIONS"),
        ),
        # a task that no worker could ever take
        (replace(RULES, has_broker=False), REPORTS, "connection", "memory://"),
        # a message goes through a broker that holds it in memory
        (BOUNDED, {**REPORTS, "args": ["a" * 1_100]}, "args", "of at most 1,000"),
        (
            BOUNDED,
            {**REPORTS, "args": ["a" * 900], "kwargs": {"b": "b" * 200}},
            *("kwargs", "of at most 1,000"),
        ),
        # exchanges of ours, beside a queue, and on brokers that have none
        (WITH_EXCHANGES, {"exchange": "minutehand.x", **SHOP}, "exchange", "own"),
        (WITH_EXCHANGES, {"exchange": "minutehand", **SHOP}, "exchange", "own"),
        (
            *(WITH_EXCHANGES, {"exchange": "a", "connection": "crm"}),
            *("connection", "not RabbitMQ"),
        ),
        (WITH_EXCHANGES, {"exchange": "a"}, "connection", "not RabbitMQ"),
        (WITH_EXCHANGES, {"exchange": "a", **REPORTS, **SHOP}, "queue", "both"),
    ],
)
def test_task_that_may_not_go_there_is_refused(
    rules: TaskRules, task: dict[str, object], key: str, words: str
):
    """At the key that is wrong, with what to write."""
    problem = refuse(make(**task), rules)

    assert f"/operations/run_task/{key}" == problem.pointer
    assert words in f"{problem.message} {problem.hint}"


@pytest.mark.parametrize(
    ("rules", "task", "queue"),
    [
        # that of the settings is written down: it is where the task goes for ever
        (replace(RULES, default_queue="reports"), {}, "reports"),
        (replace(RULES, default_queue="reports"), {"queue": "other"}, "other"),
        # ours have other names there, and celery is that of half of all projects
        *(
            (RULES, {"queue": queue}, queue)
            for queue in ("celery", "quick", "heavy", "minutehander.quick")
        ),
        (replace(RULES, own_prefix=""), REPORTS, "reports"),
        # by a pattern; without an app, whose it would be does not matter
        (LISTED.of("shop"), {"queue": "mail.daily", **SHOP}, "mail.daily"),
        (LISTED.of(None), {"queue": "mail.daily", **SHOP}, "mail.daily"),
        (replace(RULES, has_broker=False), {**REPORTS, **SHOP}, "reports"),
    ],
)
def test_task_that_may_go_there_is_stored_with_its_queue(
    rules: TaskRules, task: dict[str, object], queue: str
):
    """Whatever the settings are by then."""
    assert queue == read_task(make(**task), rules)["queue"]


def test_refusal_does_not_tell_that_others_have_a_connection():
    """Who may post for one small app could guess the names of all."""
    theirs, unknown = (
        refuse(make(queue="reports", connection=name), LISTED.of("crm"))
        for name in ("shop", "shed")
    )

    assert theirs.message.replace("shop", "shed") == unknown.message
    assert "Write one of: crm." == theirs.hint == unknown.hint


def test_exchange_takes_the_place_of_the_queue():
    """No default queue is written down beside it."""
    rules = replace(WITH_EXCHANGES, default_queue="q")

    stored = read_task(make(exchange="reports", routing_key="a.b", **SHOP), rules)

    assert ("reports", "a.b") == (stored["exchange"], stored["routing_key"])
    assert "queue" not in stored


def test_what_is_stored_is_read_without_rules():
    """Settings may have changed since; what is stored is still shown and decided."""
    stored = read_task(make(queue=OURS, connection="gone"), None)

    assert (OURS, "gone") == (stored["queue"], stored["connection"])


def test_rules_hold_for_each_of_many():
    """A list is refused as one action is, with the number of the entry."""
    both = f"[{action()}, {make()}]"

    (problem,) = find_problems(read_actions, both, ReadContext(task_rules=RULES))

    assert "/1/operations/run_task/queue" == problem.pointer
