"""
What comes before a scheduler, a worker or a web process starts, by whichever command.

Without the checks, Celery would start the worker and fail at each operation.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
import structlog
from celery.signals import celeryd_init

from celery_app.routing import find_broker_names
from migrations.schema_revisions import check_schema
from models.database.engine import make_engine
from models.errors import MinutehandError, UnreachableError, UsageError
from models.operation_state import WORKER_QUEUES, Queue
from settings import Settings, read_settings
from telemetry import Event

log = structlog.get_logger()

T = TypeVar("T")

#: Seconds between two looks at a database that was away at the start.
PAUSE_S = 5.0

#: How many operations a worker runs at once if it takes other than quick ones: a
#: refresh may need gigabytes. The original gave its default queue two (docs/origin.md).
HEAVY_CONCURRENCY = 2


#: After so many new objects garbage is looked for among them: some MB.
NEW_OBJECTS = 10_000


def spare_what_stays() -> None:
    """
    Look for garbage among what is made from now on alone, and more rarely.

    What is loaded by now stays. A large tick makes many objects and drops none for a
    while: Python would look at all of them again for every 700 that are new, at a tenth
    of the tick's CPU. To look at all that a web process has loaded takes 200 ms, in
    which nobody else has a turn of the interpreter.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS)


def keep_trying(
    call: Callable[[], T], stop: threading.Event, every_s: float
) -> T | None:
    """
    Call *call* until the database can be reached; None if *stop* is set first.

    A scheduler may start with the machine, before its database, or during a failover;
    the log says what it waits for.
    """
    while True:
        try:
            return call()
        except UnreachableError as error:
            log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
            if stop.wait(every_s):
                return None


def check_worker(settings: Settings) -> None:
    """
    Refuse settings with which a worker could not work.

    Raises:
        UsageError: The broker is in memory, or the folder of the embedded database or
            of the workspace cannot be used.
    """
    refuse_memory_broker(settings)
    make_engine(settings.database_url).dispose()
    prepare_workspace(settings.workspace)


def check_worker_schema(settings: Settings) -> None:
    """
    Refuse a database if this program does not work on its schema.

    A worker outlives outages of the database, so it also starts during one. If the
    schema cannot be checked now, it is checked before the first message is taken
    (consumer.py), and by each process before its first operation.

    Raises:
        UsageError: The program does not work on the schema; says what to do.
    """
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    try:
        check_schema(engine)
    except UnreachableError as error:
        log.warning(Event.DATABASE_UNREACHABLE, error=str(error))
    finally:
        engine.dispose()  # no connection may live on in the processes of a pool


def refuse_memory_broker(settings: Settings) -> None:
    """
    Refuse a broker that exists within one process only.

    Raises:
        UsageError: *settings* name such a broker.
    """
    if settings.is_embedded:
        raise UsageError(
            "MINUTEHAND_BROKER_URL: memory:// carries messages within one process "
            "only. Name a broker (redis://host:6379/0), or run everything in one "
            "process: minutehand up."
        )


def prepare_workspace(folder: Path) -> None:
    """
    Make the workspace folder.

    Raises:
        UsageError: It cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    else:
        if os.access(folder, os.W_OK | os.X_OK):
            return
        reason = "nothing can be written to it"
    raise UsageError(
        f"{folder} cannot be the workspace: {reason}. Set MINUTEHAND_WORKSPACE (or "
        "MINUTEHAND_HOME) to a folder that may be written to."
    )


def is_heavy(queues: Iterable[str]) -> bool:
    """Tell whether a worker of *queues*, as in ``-Q``, takes other than quick ones."""
    # The longer name that a queue has on the broker is accepted, too.
    return any(Queue.QUICK not in queue.split(".") for queue in queues)


@celeryd_init.connect
def _limit_concurrency(
    conf: Any, options: dict[str, Any], **_arguments: object
) -> None:
    """Let a heavy worker run two operations at a time, unless options say otherwise."""
    if options.get("concurrency") or options.get("autoscale"):
        return
    left_out = set(_split(options.get("exclude_queues")))
    taken = set(_split(options.get("queues")) or WORKER_QUEUES) - left_out
    if is_heavy(taken):
        conf.worker_concurrency = HEAVY_CONCURRENCY


@celeryd_init.connect
def _start_again_as_module(**_arguments: object) -> None:
    """Let Celery, which starts again on SIGHUP as ``python sys.argv``, find itself."""
    if Path(sys.argv[0]).name == "__main__.py":  # started as ``python -m celery``
        sys.argv[:1] = ["-m", "celery"]


def _split(queues: str | Iterable[str] | None) -> list[str]:
    """Return the names that Celery was given, separated by commas or as a list."""
    if queues is None:
        return []
    names = queues.split(",") if isinstance(queues, str) else queues
    return [name.strip() for name in names if name.strip()]


def read_queues(words: Iterable[str], prefix: str) -> list[str]:
    """
    Return *words* without spaces; each must be a queue of ours, or its broker name.

    Args:
        words: As written on a command line.
        prefix: Prefix of the names on the broker.

    Raises:
        UsageError: A word is not a queue of ours; foreign queues are not consumed.
    """
    names = [word.strip() for word in words if word.strip()]
    known = {queue.value for queue in WORKER_QUEUES}
    for queue in WORKER_QUEUES:
        known.update(find_broker_names(queue, prefix))
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        given = ", ".join(map(repr, unknown))
        wrong = f"{given} is not a queue of ours" if unknown else "no queue is named"
        raise UsageError(f"{wrong}. Write one or more of {', '.join(WORKER_QUEUES)}.")
    return names


def make_worker_option() -> click.Option:
    """
    Return a hidden option of ``celery worker`` whose callback checks the settings.

    Nobody writes it. Click processes it before all others, because it is eager; later
    ones make Celery read its configuration, whose errors would appear as a traceback.
    """
    return click.Option(
        ["--minutehand"],
        is_flag=True,
        is_eager=True,
        hidden=True,
        expose_value=False,
        callback=_check,
    )


def _check(context: click.Context, _option: click.Parameter, _value: object) -> None:
    if context.resilient_parsing:  # a shell completes what is being typed
        return
    # As ``minutehand`` does: what this process writes is for its user alone.
    os.umask(0o077)
    try:
        settings = read_settings()
        check_worker(settings)
        check_worker_schema(settings)
    except MinutehandError as error:
        click.echo(f"error: {error}", err=True)
        context.exit(error.exit_code)
    # It replaces the output streams of a worker; other commands must not import it.
    import_module("celery_app.logs").configure_worker_logs(settings)
