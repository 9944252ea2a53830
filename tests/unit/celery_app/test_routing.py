"""What is ours on a broker, and that nothing else is consumed."""

from __future__ import annotations

from typing import Any

import pytest
from celery import Celery

from celery_app.app import make_app
from celery_app.consumer import Consumer
from celery_app.routing import find_broker_names
from models.operation_state import LANES, WORKER_QUEUES, Queue
from tests.scheduling import make_settings

OURS = {
    name for queue in WORKER_QUEUES for name in find_broker_names(queue, "minutehand")
}


def make(prefix: str = "minutehand", broker_url: str = "redis://x/0") -> Celery:
    """Return an application whose names begin with *prefix*."""
    return make_app(make_settings(BROKER_URL=broker_url, QUEUE_PREFIX=prefix))


def find_names(app: Celery) -> set[str]:
    """Return every name that a worker or a sender brings to the broker."""
    queues: Any = app.amqp.queues
    mailbox = app.control.mailbox
    return {
        *(queue.name for queue in queues.values()),
        *(queue.exchange.name for queue in queues.values()),
        *(queue.routing_key for queue in queues.values()),
        app.amqp.default_queue.name,
        app.amqp.default_exchange.name,
        mailbox.exchange.name.removesuffix(".pidbox"),
        mailbox.reply_exchange.name.removesuffix(".pidbox").removeprefix("reply."),
        app.conf.event_exchange,
        app.conf.event_queue_prefix,
    }


@pytest.mark.parametrize("broker_url", ["redis://x/0", "amqp://x//"])
def test_all_names_begin_with_the_prefix(broker_url: str):
    """Queues, exchanges, bindings, remote control, monitoring: others may be there."""
    names = find_names(make("shop", broker_url))

    assert {"shop"} == {name.partition(".")[0] for name in names}


def test_without_a_prefix_the_names_are_those_of_celery():
    """For whoever has a broker for this alone."""
    names = find_names(make("none"))

    behind = {f"quick.behind-{lane}" for lane in range(1, 5)}
    assert {"quick", "heavy", "celery", "celeryev"} | behind == names


@pytest.mark.parametrize("prefix", ["minutehand", "none"])
def test_words_and_names_select_the_same(prefix: str):
    """People write -Q quick; what the broker shows works, too, and takes all lanes."""
    found = []
    for word in ("quick", make(prefix).amqp.queues["quick"].name):
        queues = make(prefix).amqp.queues
        queues.select([word])
        found.append(list(queues.consume_from))

    assert found[0] == found[1]
    assert len(found[0]) == LANES[Queue.QUICK]


@pytest.mark.parametrize("word", ["celeri", "shop.quick", "minutehand"])
def test_queue_of_somebody_else_is_not_selected(word: str):
    """Celery would make up one of that name, and consume it."""
    queues = make().amqp.queues

    with pytest.raises(KeyError):
        queues.select(["quick", word])
    assert word not in queues.consume_from


def test_worker_without_a_choice_takes_all_of_ours():
    """And none other can be sent to, lest it be made up."""
    queues = make().amqp.queues
    with pytest.raises(KeyError):
        queues["theirs"]

    assert OURS == set(queues.consume_from)


def test_excluded_queue_is_named_as_people_call_it():
    """As -X does."""
    queues = make().amqp.queues
    queues.deselect(["heavy", "celery"])

    assert list(find_broker_names(Queue.QUICK, "minutehand")) == list(
        queues.consume_from
    )


def test_no_worker_greets_the_others_or_declares_queues_for_countdowns():
    """
    They would take it for a stranger's command, and Celery declares 28 queues where
    there is a quorum queue; a step that needs another brings it in.
    """
    blueprint = Consumer.Blueprint()
    blueprint.steps = blueprint.claim_steps()
    order = [step.name for step in blueprint._finalize_steps(blueprint.steps)]

    left_out = (".Mingle", ".Gossip", ".DelayedDelivery")
    assert not [name for name in order if name.endswith(left_out)]
    places = [
        next(n for n, name in enumerate(order) if name.endswith(f".{each}"))
        for each in ("Connection", "Events", "Tasks", "Control", "Evloop")
    ]
    assert places == sorted(places)
