"""``worker``: a Celery worker with the options that Minutehand needs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from celery_app.worker_start import check_worker, read_queues
from cli.connection import get_engine, get_settings
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
        typer.Option(
            "--concurrency",
            "-c",
            min=1,
            help="Operations at the same time: two, or one a core if all are quick.",
        ),
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

    One that takes all queues is enough to begin with; two long refreshes then keep
    quick operations waiting. In production: -Q quick, and -Q heavy,celery.
    """
    settings = get_settings()
    check_worker(settings)
    get_engine().dispose()  # makes an embedded database that is missing
    command = [
        *(sys.executable, "-m", "celery", "--app", "celery_app", "--quiet", "worker"),
        *("--queues", _read_queues(queues, settings.queue_prefix), "--pool", pool),
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


def _read_queues(text: str, prefix: str) -> str:
    try:
        return ",".join(read_queues(text.split(","), prefix))
    except UsageError as error:
        raise typer.BadParameter(str(error), param_hint="--queues") from None
