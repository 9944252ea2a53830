"""
The command line ``minutehand``: its commands and its exit codes.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok,
1 ran and failed, 2 usage, 3 invalid input, 4 not found, 5 conflict or already
running, 6 database or broker unreachable, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated, Any

import typer

from cli.lazy import Entry, Group, LazyGroup, importing
from cli.output import out, print_error
from models.errors import InvalidDocumentError, MinutehandError

INTERRUPTED = 130

_EXIT_CODES = (
    "Exit codes: 0 ok, 1 ran and failed, 2 wrong call or setting, 3 invalid input,"
    " 4 not found, 5 conflict, 6 database or broker unreachable, 130 interrupted."
)

_APPS = Group(
    "Small apps (tenants): apply, list, show, export, pause and delete them.",
    {
        "apply": Entry(
            "cli.apps_apply:apply_apps",
            "Create or update a small app from its document.",
        ),
        "list": Entry("cli.apps:list_apps", "List the small apps."),
        "show": Entry("cli.apps:show_app", "Show a small app."),
        "pause": Entry(
            "cli.pausing:pause_apps",
            "Pause a small app, or all small apps.",
        ),
        "resume": Entry(
            "cli.pausing:resume_apps", "Resume a small app, or all small apps."
        ),
        "export": Entry(
            "cli.apps_export:export_app",
            "Print the whole document of a small app, as apps apply takes it.",
        ),
        "delete": Entry(
            "cli.apps_delete:delete_app",
            "Delete a small app: its actions and API keys end; its history is kept.",
        ),
    },
)

_ACTIONS = Group(
    "Scheduled actions: post, apply, list, show, run, pause, resume, backfill, delete.",
    {
        "post": Entry(
            "cli.actions_post:post",
            "Post or replace a scheduled action, or a list of them.",
        ),
        "apply": Entry(
            "cli.actions_apply:apply",
            "Make the actions of a small app what a folder says.",
        ),
        "list": Entry("cli.actions:list_actions", "List scheduled actions."),
        "show": Entry("cli.actions_show:show_action", "Show a scheduled action."),
        "run": Entry("cli.actions_run:run", "Run a scheduled action now."),
        "pause": Entry(
            "cli.pausing:pause_action",
            "Pause a scheduled action.",
        ),
        "resume": Entry("cli.pausing:resume_action", "Resume a scheduled action."),
        "backfill": Entry(
            "cli.backfills:backfill",
            "Run past occurrences of an action after all.",
        ),
        "delete": Entry(
            "cli.actions_delete:delete",
            "Delete scheduled actions; their history is kept.",
        ),
    },
)

_OPERATIONS = Group(
    "Operations: list, show, watch, cancel and retry them; their state and log.",
    {
        "list": Entry("cli.operations:list_operations", "List operations."),
        "show": Entry("cli.operations:show_operation", "Show an operation."),
        "watch": Entry(
            "cli.operations_watch:watch", "Follow an operation until it is final."
        ),
        "state": Entry(
            "cli.operations_state:state",
            "Print the state of an operation, in one word.",
        ),
        "log": Entry(
            "cli.operations_log:log",
            "Show what the steps of an operation said while they ran.",
        ),
        "cancel": Entry(
            "cli.operations_change:cancel_operations",
            "Cancel one operation that is not final, or many.",
        ),
        "retry": Entry(
            "cli.operations_change:retry_operations",
            "Run one failed or canceled operation again, or many.",
        ),
    },
)

_KEYS = Group(
    "API keys: create, list, revoke and rotate them; sign-in links.",
    {
        "create": Entry(
            "cli.keys:create", "Create an API key, and print it this once."
        ),
        "list": Entry(
            "cli.keys:list_keys", "List API keys, also those that have ended."
        ),
        "revoke": Entry(
            "cli.keys:revoke", "Revoke an API key: from now on it is refused."
        ),
        "rotate": Entry(
            "cli.keys:rotate",
            "Replace an API key: print its successor, and let it end after a while.",
        ),
        "link": Entry(
            "cli.keys:link", "Print a link that signs somebody in at the pages, once."
        ),
    },
)

_CHANGES = Group(
    "The record of changes: list, export and verify who changed what.",
    {
        "list": Entry("cli.changes:list_changes", "List who changed what."),
        "export": Entry(
            "cli.changes:export",
            "Export the record of changes, the first change first.",
        ),
        "verify": Entry(
            "cli.changes:verify", "Check that nobody altered the record of changes."
        ),
    },
)

_QUEUES = Group(
    "Queues: list, pause and resume them; what could not be read.",
    {
        "list": Entry(
            "cli.queues:list_queues",
            "List the queues: what waits, how fast it is taken, and what is paused.",
        ),
        "pause": Entry(
            "cli.queues:pause",
            "Pause a queue: nothing more of it is sent or claimed.",
        ),
        "resume": Entry(
            "cli.queues:resume", "Resume a queue: what waits is sent, the oldest first."
        ),
        "aside": Entry(
            "cli.queues:show_aside",
            "Show, or delete, messages that no worker could read.",
        ),
    },
)

_WORKERS = Group(
    "Workers: list, drain and resume them.",
    {
        "list": Entry(
            "cli.workers:list_workers", "List the workers, and what each of them does."
        ),
        "drain": Entry(
            "cli.workers:drain",
            "Drain a worker: it finishes what it runs, and takes nothing new.",
        ),
        "resume": Entry(
            "cli.workers:resume", "Let a drained worker take operations again."
        ),
    },
)

_IMPORT = Group(
    "Turn the schedules of another scheduler into actions.",
    {
        "celery-beat": Entry(
            "cli.imports.celery_beat:import_celery_beat",
            "Turn the beat_schedule of a Celery application into actions.",
        ),
        "django-celery-beat": Entry(
            "cli.imports.django_celery_beat:import_django_celery_beat",
            "Turn the periodic tasks of django-celery-beat into actions.",
        ),
        "redbeat": Entry(
            "cli.imports.redbeat:import_redbeat",
            "Turn the entries of redbeat into actions.",
        ),
        "apscheduler": Entry(
            "cli.imports.apscheduler:import_apscheduler",
            "Turn the jobs of APScheduler 3 into actions.",
        ),
        "crontab": Entry(
            "cli.imports.crontab:import_crontab",
            "Turn the lines of a crontab file into actions.",
        ),
        "k8s": Entry(
            "cli.imports.kubernetes:import_k8s",
            "Turn the CronJobs of Kubernetes into actions.",
        ),
    },
)

COMMANDS = Group(
    "Minutehand: a minute-tick dispatcher for Celery.",
    {
        "up": Entry("cli.up:up", "Run everything in one process."),
        "demo": Entry(
            "cli.demo.demo:demo", "Show what Minutehand does, with real data."
        ),
        "scheduler": Entry("cli.scheduler:scheduler", "Run a scheduler."),
        "worker": Entry("cli.worker:worker", "Run a Celery worker."),
        "web": Entry("cli.web:web", "Serve the HTTP API and the pages."),
        "migrate": Entry(
            "cli.migrate:migrate_database",
            "Migrate the database to the schema of this version.",
        ),
        "restored": Entry(
            "cli.restored:restored",
            "Make sure that nothing runs twice after a backup was restored.",
        ),
        "tick": Entry("cli.tick:tick", "Take the lease, tick once and exit."),
        "import": _IMPORT,
        "preview": Entry("cli.preview:preview", "Show when an action would run."),
        "schema": Entry(
            "cli.schema:schema",
            "Print the JSON Schema of a scheduled action, for editors and programs.",
        ),
        "apps": _APPS,
        "actions": _ACTIONS,
        "events": Group(
            "User events: send them.",
            {"send": Entry("cli.events:send", "Record events that happened to users.")},
        ),
        "operations": _OPERATIONS,
        "backfills": Group(
            "Backfills: list, show and cancel them.",
            {
                "list": Entry(
                    "cli.backfills:list_backfills",
                    "List backfills, the latest first.",
                ),
                "show": Entry(
                    "cli.backfills:show_backfill",
                    "Show a backfill and how far it is.",
                ),
                "cancel": Entry("cli.backfills:cancel", "Cancel a backfill."),
            },
        ),
        "mails": Group(
            "Mails: preview and list them; confirm or resend the uncertain ones.",
            {
                "preview": Entry(
                    "cli.mails_preview:preview_mails",
                    "Show who would get which mails of an action, and send nothing.",
                ),
                "list": Entry(
                    "cli.mails:list_mails",
                    "List mails with their recipients and states.",
                ),
                "confirm": Entry(
                    "cli.mails:confirm_arrival",
                    "Mark uncertain mails as sent.",
                ),
                "resend": Entry(
                    "cli.mails:resend", "Send uncertain mails again, or failed ones."
                ),
                "show": Entry(
                    "cli.mails:show_mail",
                    "Show a mail as it was handed over to the mail server.",
                ),
            },
        ),
        "queues": _QUEUES,
        "workers": _WORKERS,
        "keys": _KEYS,
        "changes": _CHANGES,
        "why": Entry("cli.why:why", "Explain why an action ran, or did not run."),
        "audit": Entry(
            "cli.audit:audit", "Compare the recorded operations with the rules."
        ),
        "load": Entry("cli.load:load", "Show the load that is coming."),
        "doctor": Entry("cli.doctor:doctor", "Check the installation for problems."),
        "support-bundle": Entry(
            "cli.support_bundle:support_bundle",
            "Print a support bundle as JSON, without secrets and data of small apps.",
        ),
        "status": Entry("cli.status:status", "Show who leads and what is waiting."),
    },
)


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command that *arguments* name.

    Args:
        arguments: Without the program's name. None: those of the process.

    Returns:
        The exit code.
    """
    if arguments is None:
        # Whatever this process and its children write holds data of small apps, or
        # secrets: 0600, and folders 0700.
        os.umask(0o077)
        arguments = sys.argv[1:]
    try:
        return _run(list(arguments))
    except MinutehandError as error:
        _print_refusal(error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe, as ``head`` does. Python would complain when it
        # flushes standard output at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: list[str]) -> int:
    with importing():  # Typer imports pydantic when it makes the first option
        options = _make_options()
    command = LazyGroup(
        COMMANDS,
        name="minutehand",
        params=options,
        epilog=_EXIT_CODES,
    )
    try:
        command.main(arguments, prog_name="minutehand")
    except SystemExit as end:
        sys.stdout.flush()
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _print_version(asked: bool) -> None:  # noqa: FBT001 - Typer's signature
    if asked:
        out().print(f"minutehand {version('minutehand')}")
        raise typer.Exit


def _make_options() -> list[Any]:
    """Return the options that come before a command."""
    app = typer.Typer()
    app.callback()(_take_options)
    return typer.main.get_command(app).params


def _take_options(
    *,
    show_version: Annotated[
        bool,
        typer.Option(
            "--version",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    """Accept the options that come before a command."""


def _print_refusal(error: MinutehandError) -> None:
    if isinstance(error, InvalidDocumentError):
        for problem in error.problems:
            print_error(str(problem))
    else:
        print_error(str(error))


if __name__ == "__main__":
    sys.exit(main())
