"""``import k8s``: CronJobs of Kubernetes."""

from __future__ import annotations

from typing import Annotated

import typer

from actions.importing.origins.imported import import_each
from actions.importing.origins.kubernetes import fill_from_cron_job, read_cron_jobs
from actions.importing.report import Report
from cli.imports.showing import (
    ConnectionOption,
    FileArgument,
    OutOption,
    OverwriteOption,
    QueueOption,
    TimezoneOption,
    make_defaults,
    show,
)
from cli.options import JsonOption, read_file

_NOTE = (
    "Each action sends the task {task!r} with name and namespace of its CronJob, which"
    " stays, suspended: docs/coming-from-kubernetes.md has a task that makes a Job."
)


def import_k8s(  # noqa: PLR0913 - the options of the command
    file: FileArgument,
    *,
    task: Annotated[
        str, typer.Option("--task", metavar="TASK", help="What makes a Job.")
    ] = "run_cron_job",
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the CronJobs of Kubernetes into actions.

    FILE is YAML or JSON, such as kubectl get cronjobs -o yaml prints.
    """
    defaults = make_defaults(timezone, queue, connection, task=task)
    jobs = read_cron_jobs(read_file(file))
    found = import_each(jobs, lambda job: job.title, fill_from_cron_job, defaults)
    report = Report("Kubernetes", found, (_NOTE.format(task=task),))
    show(report, folder=folder, overwrite=overwrite, json=json)
