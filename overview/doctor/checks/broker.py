"""The broker: whether it answers, what is not ours there, who takes users' tasks."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import sqlalchemy as sa

from actions.lookup import SYSTEM_APP
from actions.stored_task_queues import fetch_task_queues
from models.database.tables import small_apps
from models.errors import BrokerUnreachableError
from operations.fleet.strangers import fetch_strangers
from overview.doctor.finding import Finding, Health, View
from settings import Settings

#: Small apps that share what nobody has given to one of them.
_SEVERAL = 2


def look_at_broker(view: View) -> Iterator[Finding]:
    """Ask the broker that this process's settings name; declare missing queues."""
    settings = view.settings
    if settings.broker_url.startswith("memory"):
        yield Finding("broker", Health.GOOD, "in the memory of minutehand up")
        return
    # Celery takes half a second to import.
    app = import_module("celery_app.app").make_app(settings)
    sender = import_module("celery_app.operation_sender").CelerySender(
        app, timeout=settings.broker_timeout
    )
    try:
        sender.find_empty_queues()
    except BrokerUnreachableError as error:
        found = str(error).removesuffix(".")
        detail = f"{found}. Start it, or correct its URL."
        yield Finding("broker", Health.BAD, detail, "the broker does not answer")
    else:
        yield Finding("broker", Health.GOOD, "it answers and has all queues")
        yield from _look_aside(settings)
    finally:
        sender.close()


def _look_aside(settings: Settings) -> Iterator[Finding]:
    try:
        with import_module("celery_app.aside").open_aside(settings) as aside:
            count = aside.count()
    except BrokerUnreachableError as error:
        yield Finding("aside", Health.DOUBTFUL, str(error))
        return
    if count:
        yield Finding(
            "aside",
            Health.DOUBTFUL,
            f"{count:,} from our queues could not be read, and lie aside. To see what"
            " they are, and find out who sends them: minutehand queues aside. To delete"
            " them: minutehand queues aside --empty",
        )


def look_at_strangers(view: View) -> Iterator[Finding]:
    """Report who else uses our queues, and what to do."""
    for each in fetch_strangers(view.connection):
        title = "strangers use our queues"
        yield Finding(f"queue {each.queue}", Health.BAD, each.hint, title)


def look_at_tasks(view: View) -> Iterator[Finding]:
    """Ask the brokers of the queues that ``run_task`` names."""
    queues = fetch_task_queues(view.connection)
    yield from _look_at_sharing(view, any(each.connection is None for each in queues))
    if not queues:
        return
    # Celery takes half a second to import.
    look = import_module("celery_app.foreign_queues").look_at_task_queues
    for found in look(queues, view.settings):
        bad = Health.DOUBTFUL if found.is_reachable else Health.BAD
        health = Health.GOOD if found.is_well else bad
        title = "" if found.is_well else "tasks of users' own cannot run"
        yield Finding(found.subject, health, found.detail, title)


def _look_at_sharing(view: View, is_ours_used: bool) -> Iterator[Finding]:  # noqa: FBT001 - one fact
    """Look for connections that nobody has given to some of the small apps."""
    settings = view.settings
    named = (
        ["", *settings.task_connections] if is_ours_used else settings.task_connections
    )
    rules = settings.task_rules
    shared = [name for name in named if name not in rules or rules[name].apps is None]
    kept = small_apps.c
    count = sa.select(sa.func.count()).where(
        kept.uid != SYSTEM_APP, kept.deleted_at.is_(None)
    )
    if not shared or view.connection.execute(count).scalar_one() < _SEVERAL:
        return
    over = ", ".join(name or "Minutehand's own broker" for name in shared)
    detail = (
        f"each small app may send any task over {over}. List those that may, as"
        ' "apps", in MINUTEHAND_TASK_RULES; "*" is all'
    )
    yield Finding("connections", Health.DOUBTFUL, detail)
