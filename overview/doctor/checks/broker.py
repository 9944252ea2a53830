"""Whether the broker answers."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

from models.errors import BrokerUnreachableError
from overview.doctor.finding import Finding, Health, View
from settings import Settings


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
