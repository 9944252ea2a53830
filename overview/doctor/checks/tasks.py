"""Whether any worker takes the tasks that ``run_task`` sends to other queues."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from actions.stored_task_queues import fetch_task_queues
from overview.doctor.finding import Finding, Health, View


def look_at_tasks(view: View) -> Iterator[Finding]:
    """Ask the brokers of the queues that ``run_task`` names."""
    queues = fetch_task_queues(view.connection)
    if not queues:
        return
    # Celery takes half a second to import.
    look = import_module("celery_app.foreign_queues").look_at_task_queues
    for found in look(queues, view.settings):
        bad = Health.DOUBTFUL if found.is_reachable else Health.BAD
        health = Health.GOOD if found.is_well else bad
        title = "" if found.is_well else "tasks of users' own cannot run"
        yield Finding(found.subject, health, found.detail, title)
