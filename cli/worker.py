"""``worker``: a Celery worker with the options that Minutehand needs."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from celery_app.worker_start import check_worker, read_queues
from cli.connection import get_engine, get_settings
from models.errors import UsageError
from models.operation_state import WORKER_QUEUES


def worker(
    *,
    queues: Annotated[
        str,
        typer.Option(
            "--queues", "-Q", metavar="LIST", help="Queues, separated by commas."
        ),
    ] = ",".join(WORKER_QUEUES),
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            "-c",
            min=1,
            help="Operations at the same time; by default 2, or the number of cores"
            " if the worker takes only the quick queue.",
        ),
    ] = None,
    pool: Annotated[
        str,
        typer.Option(
            "--pool", "-P", help="Celery pool; only prefork enforces time limits."
        ),
    ] = "prefork",
    name: Annotated[
        str | None,
        typer.Option("--name", "-n", help="Node name; %h stands for the host."),
    ] = None,
    celery: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- OPTIONS", help="More options, passed to Celery."),
    ] = None,
) -> None:
    """
    Run a Celery worker.

    One worker that takes all queues is enough to begin with, but two long refreshes
    then keep quick operations waiting. In production, run one worker with -Q quick and
    another with -Q heavy,celery.
    """
    settings = get_settings()
    check_worker(settings)
    get_engine().dispose()  # creates the embedded database if it is missing
    command = [
        *(sys.executable, "-m", "celery", "--app", "celery_app", "--quiet", "worker"),
        *("--queues", _read_queues(queues, settings.queue_prefix), "--pool", pool),
        *("--loglevel", settings.log_level.upper()),
        *("--prefetch-multiplier", "1"),
    ]
    if concurrency is not None:
        command += ["--concurrency", str(concurrency)]
    if name is not None:
        command += ["--hostname", name]
    # Replace this process, so that signals reach Celery itself.
    os.execv(sys.executable, [*command, *(celery or [])])  # noqa: S606 - a list


def _read_queues(text: str, prefix: str) -> str:
    try:
        return ",".join(read_queues(text.split(","), prefix))
    except UsageError as error:
        raise typer.BadParameter(str(error), param_hint="--queues") from None
