"""``worker``: a Celery worker with the options that Minutehand needs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from cli.connection import get_engine, get_settings
from cli.scheduler import refuse_memory_broker
from models.errors import UsageError
from models.operation_state import Queue


def worker(
    *,
    queues: Annotated[
        str,
        typer.Option(
            "--queues", "-Q", metavar="LIST", help="Queues, with commas between them."
        ),
    ] = ",".join(Queue),
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", "-c", min=1, help="Operations at the same time."),
    ] = None,
    pool: Annotated[
        str,
        typer.Option("--pool", "-P", help="prefork has time limits; others do not."),
    ] = "prefork",
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="Node name; %h is the host."),
    ] = None,
    celery: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- OPTIONS]", help="More options, for Celery."),
    ] = None,
) -> None:
    """
    Run a Celery worker.

    One that takes all queues is enough to begin with. Heavy operations are best
    taken by workers of their own: -Q heavy, and -Q quick,celery.
    """
    settings = get_settings()
    refuse_memory_broker(settings)
    # Celery would start all the same, and fail at each operation.
    get_engine().dispose()
    _prepare_workspace(settings.workspace)
    command = [
        *(sys.executable, "-m", "celery", "--app", "celery_app", "--quiet", "worker"),
        *("--queues", _read_queues(queues), "--pool", pool),
        *("--loglevel", settings.log_level.upper()),
        # These talk to other workers about things that our table knows better.
        *("--without-gossip", "--without-mingle"),
        *("--prefetch-multiplier", "1"),
    ]
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    if name is not None:
        command += ["--hostname", name]
    # The same process from here on, so that signals reach Celery itself.
    os.execv(sys.executable, [*command, *(celery or [])])  # noqa: S606 - a list


def _prepare_workspace(folder: Path) -> None:
    """Make the folder of the data versions, or refuse one that cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = error.strerror
    else:
        if os.access(folder, os.W_OK | os.X_OK):
            return
        reason = "nothing can be written to it"
    msg = (
        f"{folder} cannot be the workspace: {reason}. Set MINUTEHAND_WORKSPACE (or "
        "MINUTEHAND_HOME) to a folder that may be written to."
    )
    raise UsageError(msg)


def _read_queues(text: str) -> str:
    names = [each.strip() for each in text.split(",") if each.strip()]
    unknown = [name for name in names if name not in set(Queue)]
    if unknown or not names:
        msg = f"{text!r} is no list of queues. Write some of {', '.join(Queue)}."
        raise typer.BadParameter(msg, param_hint="--queues")
    return ",".join(names)
