"""``import django-celery-beat``: the periodic tasks of a Django project."""

from __future__ import annotations

from actions.importing.origins.django_celery_beat import fill_from_django
from actions.importing.origins.imported import import_each
from actions.importing.readers.django_tables import read_periodic_tasks
from actions.importing.report import Report
from cli.imports.showing import (
    ConnectionOption,
    OutOption,
    OverwriteOption,
    QueueOption,
    TimezoneOption,
    UrlArgument,
    make_defaults,
    show,
)
from cli.options import JsonOption


def import_django_celery_beat(  # noqa: PLR0913 - the options of the command
    url: UrlArgument,
    *,
    folder: OutOption = None,
    overwrite: OverwriteOption = False,
    timezone: TimezoneOption = None,
    queue: QueueOption = None,
    connection: ConnectionOption = None,
    json: JsonOption = False,
) -> None:
    """
    Turn the periodic tasks of django-celery-beat into actions.

    URL is that of the project's database; it is only read, without Django.
    """
    defaults = make_defaults(timezone, queue, connection)
    rows = read_periodic_tasks(url)
    found = import_each(rows, lambda row: row.title, fill_from_django, defaults)
    report = Report("django-celery-beat", found)
    show(report, folder=folder, overwrite=overwrite, json=json)
