"""
``import``: the entries of other schedulers become actions.

A function for each origin reads its entries; ``_as_command`` gives all of them the same
options and shows what became of each entry.
"""

from __future__ import annotations

import json
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from actions.importing.origins.apscheduler import APSCHEDULER
from actions.importing.origins.celery_schedules import CELERY_BEAT, DJANGO_CELERY_BEAT
from actions.importing.origins.crontab import CRONTAB, read_crontab
from actions.importing.origins.imported import (
    Defaults,
    Imported,
    ImportVerdict,
    Report,
    import_each,
    make_report,
)
from actions.importing.origins.kubernetes import KUBERNETES, read_cron_jobs
from actions.importing.origins.redbeat import REDBEAT
from actions.importing.readers.celery_module import read_beat_schedule
from actions.importing.readers.databases import (
    read_jobs,
    read_periodic_tasks,
    read_redbeat,
)
from cli.connection import get_settings
from cli.options import (
    argument,
    flag,
    naming,
    option,
    read_file,
    takes,
    takes_json,
    value,
)
from cli.output import err, out
from models.database.engine import read_host_clock
from models.errors import ConflictError, UsageError
from models.fields.zone import load_zone
from models.units import format_count

#: Celery's own name of its default queue.
_CELERY_QUEUE = "celery"

_WORDS = {
    ImportVerdict.EXACT: ("exact", "green"),
    ImportVerdict.DIFFERS: ("differs", "yellow"),
    ImportVerdict.CANNOT_BE: ("cannot be", "red"),
}

#: Letters before a name and its notes: those of the longest verdict, and two spaces.
_INDENT = 11

#: Columns of text; longer lines are hard to read, however wide the terminal is.
_WIDEST = 100

UrlArgument = Annotated[str, argument("URL", "Where it keeps them.")]
FileArgument = Annotated[str, argument("FILE|-", "The file; - is standard input.")]


def _make_defaults(
    *,
    timezone: str | None = value(
        "--timezone ZONE",
        "Zone of entries that name none; default: MINUTEHAND_TIMEZONE.",
    ),
    queue: str | None = value(
        "--queue QUEUE",
        "Queue of tasks that name none; default: MINUTEHAND_TASK_QUEUE or celery.",
    ),
    connection: str | None = value(
        "--connection NAME", "Broker of the tasks, one of MINUTEHAND_TASK_CONNECTIONS."
    ),
) -> Defaults:
    """
    Return what the options of a command leave to entries.

    Raises:
        UsageError: If there is no such zone or connection.
    """
    settings = get_settings()
    if timezone is not None:
        with naming("--timezone"):
            load_zone(timezone)
    if connection is not None:
        with naming("--connection"):
            settings.make_task_rules().check_connection(connection)
    return Defaults(
        now=read_host_clock(),
        timezone=timezone or settings.timezone,
        queue=queue or settings.task_queue or _CELERY_QUEUE,
        connection=connection,
    )


def _as_command(read: Callable[..., Report]) -> Callable[..., None]:
    """
    Return the command that shows what *read* returns; end with 1 if an entry cannot be.

    Args:
        read: Takes the arguments and options of its own origin, and the defaults; its
            docstring is the help.
    """

    @takes_json
    @takes("report", takes("defaults", _make_defaults)(read))
    def run(
        report: Report,
        *,
        folder: str | None = value(
            "--out DIR",
            "Write one file for each action there; else JSON on standard output.",
        ),
        overwrite: bool = flag("--overwrite", "Replace files that are there."),
    ) -> None:
        written = None
        if folder is not None:
            written = write_files(Path(folder), report.entries, overwrite=overwrite)
        if not out().gave_json(report):
            if folder is None:
                out().json(report.documents)
            _print(report, err() if folder is None else out())
        if written is not None:
            many = format_count(written, "document", "documents")
            err().say(f"Wrote {many} to {folder}.")
        for obstacle in report.find_obstacles(get_settings().make_task_rules()):
            err().warn(obstacle)
        if not report.entries:
            err().warn(f"Nothing was found to import. {report.if_empty}".rstrip())
        if report.cannot_be:
            raise typer.Exit(1)

    run.__name__, run.__doc__ = read.__name__, read.__doc__
    return run


@_as_command
def import_apscheduler(
    url: UrlArgument,
    *,
    table: str = value("--table NAME", "Of the job store.", default="apscheduler_jobs"),
    defaults: Defaults,
) -> Report:
    """
    Turn the jobs of APScheduler 3 into actions.

    URL is that of its SQLAlchemyJobStore; it is only read, and no job is unpickled.
    """
    found = import_each(read_jobs(url, table=table), APSCHEDULER, defaults)
    note = (
        "Each function becomes a task of its own name, with a dot for the colon:"
        " register it in your Celery application (docs/coming-from-apscheduler.md)."
    )
    return make_report("APScheduler", found, note)


@_as_command
def import_celery_beat(
    module: Annotated[
        str, argument("MODULE", "The application, as for celery -A: proj.celery.")
    ],
    *,
    python: str | None = value(
        "--python PATH",
        "Python of the project's environment; default: Minutehand's own.",
    ),
    defaults: Defaults,
) -> Report:
    """
    Turn the beat_schedule of a Celery application into actions.

    The module is imported in a process of its own, from the working directory.
    """
    entries = read_beat_schedule(module, python=python)
    return make_report("celery beat", import_each(entries, CELERY_BEAT, defaults))


@_as_command
def import_crontab(
    file: FileArgument,
    *,
    system: bool = flag(
        "--system", "Lines have a user, as in /etc/crontab; else: found out."
    ),
    personal: bool = flag("--personal", "Lines have no user; else: found out."),
    task: Annotated[str, option("--task TASK", "What runs a command.")] = "run_command",
    defaults: Defaults,
) -> Report:
    """
    Turn the lines of a crontab file into actions.

    FILE is what crontab -l prints, /etc/crontab, or a file of /etc/cron.d.
    """
    text = read_file(file).decode("utf-8-sig", errors="replace")
    if system and personal:
        raise UsageError("--system and --personal: lines have a user, or have none.")
    has_user = system if system or personal else None
    lines, readings = read_crontab(text, has_user=has_user)
    found = import_each(lines, CRONTAB, replace(defaults, task=task))
    note = (
        f"Each action sends the task {task!r} with the command as an argument:"
        " docs/coming-from-crontab.md has a task that runs it. Lines without CRON_TZ"
        f" are read in {defaults.timezone}; cron reads them in the zone of its host"
        " (--timezone)."
    )
    return make_report("crontab", found, note, *readings)


@_as_command
def import_django_celery_beat(url: UrlArgument, *, defaults: Defaults) -> Report:
    """
    Turn the periodic tasks of django-celery-beat into actions.

    URL is that of the project's database; it is only read, without Django.
    """
    found = import_each(read_periodic_tasks(url), DJANGO_CELERY_BEAT, defaults)
    return make_report("django-celery-beat", found, _tell_queue(defaults))


@_as_command
def import_k8s(
    file: FileArgument,
    *,
    task: Annotated[str, option("--task TASK", "What makes a Job.")] = "run_cron_job",
    defaults: Defaults,
) -> Report:
    """
    Turn the CronJobs of Kubernetes into actions.

    FILE is YAML or JSON, such as kubectl get cronjobs -o yaml prints.
    """
    jobs = read_cron_jobs(read_file(file))
    found = import_each(jobs, KUBERNETES, replace(defaults, task=task))
    note = (
        f"Each action sends the task {task!r} with name and namespace of its CronJob,"
        " which stays, suspended: docs/coming-from-kubernetes.md has a task that makes"
        " a Job."
    )
    return make_report("Kubernetes", found, note)


@_as_command
def import_redbeat(
    url: UrlArgument,
    *,
    prefix: str = value(
        "--prefix TEXT", "Of its keys: its redbeat_key_prefix.", default="redbeat:"
    ),
    defaults: Defaults,
) -> Report:
    """
    Turn the entries of redbeat into actions.

    URL is that of the Redis that has them, its redbeat_redis_url; it is only read.
    """
    found = import_each(read_redbeat(url, prefix=prefix), REDBEAT, defaults)
    hint = f"No key begins with {prefix!r}: --prefix is that of the application."
    return make_report("redbeat", found, _tell_queue(defaults), if_empty=hint)


def _tell_queue(defaults: Defaults) -> str:
    return (
        f"What names no queue goes to {defaults.queue!r} (--queue): the routes and the"
        " default queue of your project are not stored with its entries."
    )


def _print(report: Report, console: Console) -> None:
    """Print a block for each entry, as wide as the terminal; what several say, once."""
    width = min(console.width, _WIDEST)
    times = Counter(note for entry in report.entries for note in entry.notes)
    shared = [note for note, entries in times.items() if entries > 1]
    numbers = {note: number for number, note in enumerate(shared, 1)}
    for entry in report.entries:
        _print_entry(entry, numbers, console, width)
    for note, number in numbers.items():
        _print_text(console, f"({number}) {note}", width, indent="")
    for note in report.notes if report.entries else ():
        _print_text(console, note, width, indent="")
    if report.entries:
        console.print()
    counts = [f"{getattr(report, each)} {word}" for each, (word, _) in _WORDS.items()]
    console.print(
        Text(f"{len(report.entries)} of {report.origin}: {', '.join(counts)}.")
    )


def _print_entry(
    entry: Imported, numbers: Mapping[str, int], console: Console, width: int
) -> None:
    word, style = _WORDS[entry.verdict]
    head = Text(f"{word:<{_INDENT}}", style=style)
    console.print(head.append(_cut(entry.entry, width), style="bold"))
    indent = " " * _INDENT
    if entry.rule:
        _print_text(console, entry.rule, width, indent=indent)
    for note in entry.notes:
        said = f"see ({numbers[note]}) below" if note in numbers else note
        _print_text(console, said, width, indent=f"{indent}- ")


def _print_text(console: Console, text: str, width: int, *, indent: str) -> None:
    lines = textwrap.wrap(
        text,
        width,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_on_hyphens=False,  # names of files are pasted
    )
    for line in lines or [""]:
        console.print(Text(line), soft_wrap=True)


def _cut(text: str, width: int) -> str:
    line = " ".join(text.split())
    room = width - _INDENT
    return line if len(line) <= room else line[: room - 1] + "…"


def write_files(
    folder: Path, entries: Iterable[Imported], *, overwrite: bool = False
) -> int:
    """
    Write the document of each of *entries* into *folder*, which is made if missing.

    Args:
        folder: Other files in it are left alone.
        entries: Those without a document are left out.
        overwrite: Whether files of the same names are replaced.

    Returns:
        How many were written.

    Raises:
        ConflictError: If there are files of the same names; nothing was written.
        UsageError: If *folder* cannot be written to; files from before are whole.
    """
    texts = {
        folder / each.file: _write(each)
        for each in entries
        if each.file is not None and each.document is not None
    }
    taken = [path.name for path in texts if os.path.lexists(path)]
    if taken and not overwrite:
        named = ", ".join(taken[:5]) + (", ..." if len(taken) > 5 else "")
        raise ConflictError(
            f"{folder} already has {named}. Nothing was written. Choose another folder,"
            " or add --overwrite to replace them."
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            _replace(path, text)
    except OSError as error:
        msg = f"{error.filename or folder}: {error.strerror or error}"
        raise UsageError(msg) from None
    return len(texts)


def _write(entry: Imported) -> str:
    return json.dumps(entry.document, indent=4, ensure_ascii=False) + "\n"


def _replace(path: Path, text: str) -> None:
    """Write *path* whole or not at all."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
