"""What an entry ran, as ``run_task``."""

from __future__ import annotations

from typing import Any

import pytest

from actions.importing.origins.imported import (
    ActionDraft,
    Defaults,
    Imported,
    ImportVerdict,
)
from actions.importing.origins.tasks import UNREADABLE, Task, run_task
from tests.unit.actions.importing.documents import DEFAULTS, get_step, import_one


def fill(draft: ActionDraft, task: Task, defaults: Defaults) -> None:
    draft.document["when"] = {"cron_rule": "0 7 * * *"}
    run_task(draft, task, defaults)


def send(**options: Any) -> Imported:
    return import_one(Task("proj.task", options=options), fill)


def test_queue_is_that_of_the_entry():
    """
    Else it is the default; a queue counts more than an exchange, as in Celery.
    """
    assert get_step(send())["queue"] == DEFAULTS.queue
    assert get_step(send(queue="mails"))["queue"] == "mails"
    assert get_step(send(queue="mails", exchange="x"))["queue"] == "mails"


def test_routing_key_alone_is_a_queue():
    """
    And that is said, for Celery would ask its default exchange.
    """
    found = send(routing_key="mails")

    assert get_step(found)["queue"] == "mails"
    assert "routing key" in found.notes[0]
    assert ImportVerdict.DIFFERS is found.verdict


@pytest.mark.parametrize("empty", [None, "", {}, []])
def test_options_without_a_value_are_none(empty: Any):
    """
    Tables and keys have them all, mostly empty.
    """
    assert (
        ImportVerdict.EXACT is send(priority=empty, headers=empty, link=empty).verdict
    )


def test_options_that_are_not_kept_are_told():
    """
    Each is one difference.
    """
    found = send(countdown=5, serializer="pickle")

    assert ["countdown" in found.notes[0], "serializer" in found.notes[1]] == [True] * 2


def test_what_json_has_not_is_named_wherever_it_is():
    """
    In lists and objects, too.
    """
    hidden = [{"deep": [{UNREADABLE: "datetime(2026, 1, 1)"}]}]
    found = import_one(Task("proj.task", kwargs={"all": hidden}), fill)

    assert "datetime(2026, 1, 1)" in found.notes[0]


def test_number_that_json_has_not_is_refused_by_the_door():
    """
    Python would write NaN.
    """
    found = import_one(Task("proj.task", [float("nan")]), fill)

    assert ImportVerdict.CANNOT_BE is found.verdict
