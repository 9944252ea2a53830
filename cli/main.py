"""
The command line ``minutehand``: its commands and its exit codes.

Data goes to standard output, everything else to standard error. Exit codes: 0 ok,
1 ran and failed, 2 usage, 3 invalid input, 4 not found, 5 conflict or already
running, 6 database or broker unreachable, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from cli.lazy import Group, LazyGroup, importing
from cli.output import err, out
from models.errors import InvalidDocumentError, MinutehandError, UsageError

INTERRUPTED = 130

_EXIT_CODES = (
    "Exit codes: 0 ok, 1 ran and failed, 2 wrong call or setting, 3 invalid input,"
    " 4 not found, 5 conflict, 6 database or broker unreachable, 130 interrupted."
)

_APPS = Group(
    "Small apps (tenants): apply, list, show, export, pause, delete, and test notices.",
    {
        "apply": "cli.apps_apply:apply_apps",
        "list": "cli.apps:list_apps",
        "show": "cli.apps:show_app",
        "pause": "cli.pausing:pause_apps",
        "resume": "cli.pausing:resume_apps",
        "export": "cli.apps:export_app",
        "test-notice": "cli.apps:send_test",
        "delete": "cli.apps:delete_app",
    },
)

_ACTIONS = Group(
    "Scheduled actions: post, apply, list, show, run, pause, resume, backfill, delete.",
    {
        "post": "cli.actions_post:post",
        "apply": "cli.actions_apply:apply",
        "list": "cli.actions:list_actions",
        "show": "cli.actions_show:show_action",
        "run": "cli.actions_run:run",
        "pause": "cli.pausing:pause_action",
        "resume": "cli.pausing:resume_action",
        "backfill": "cli.backfills:backfill",
        "delete": "cli.actions_apply:delete",
    },
)

_OPERATIONS = Group(
    "Operations: list, show, watch, cancel and retry them; their state and log.",
    {
        "list": "cli.operations:list_operations",
        "show": "cli.operations:show_operation",
        "watch": "cli.operations_watch:watch",
        "state": "cli.operations_watch:state",
        "log": "cli.operations_watch:log",
        "cancel": "cli.operations_change:cancel_operations",
        "retry": "cli.operations_change:retry_operations",
    },
)

_KEYS = Group(
    "API keys: create, list, revoke and rotate them; sign-in links, invitations.",
    {
        "create": "cli.keys:create",
        "list": "cli.keys:list_keys",
        "revoke": "cli.keys:revoke",
        "rotate": "cli.keys:rotate",
        "link": "cli.keys:link",
        "invitations": "cli.keys:invitations",
    },
)

_CHANGES = Group(
    "The record of changes: list, export and verify who changed what.",
    {
        "list": "cli.changes:list_changes",
        "export": "cli.changes:export",
        "verify": "cli.changes:verify",
    },
)

_QUEUES = Group(
    "Queues: list, pause and resume them; what could not be read.",
    {
        "list": "cli.queues:list_queues",
        "pause": "cli.queues:pause",
        "resume": "cli.queues:resume",
        "aside": "cli.queues:show_aside",
    },
)

_WORKERS = Group(
    "Workers: list, drain and resume them.",
    {
        "list": "cli.workers:list_workers",
        "drain": "cli.workers:drain",
        "resume": "cli.workers:resume",
    },
)

_IMPORT = Group(
    "Turn the schedules of another scheduler into actions.",
    {
        "celery-beat": "cli.import_actions:import_celery_beat",
        "django-celery-beat": ("cli.import_actions:import_django_celery_beat"),
        "redbeat": "cli.import_actions:import_redbeat",
        "apscheduler": "cli.import_actions:import_apscheduler",
        "crontab": "cli.import_actions:import_crontab",
        "k8s": "cli.import_actions:import_k8s",
    },
)

COMMANDS = Group(
    "Minutehand: a minute-tick dispatcher for Celery.",
    {
        "up": "cli.up:up",
        "demo": "cli.demo.demo:demo",
        "scheduler": "cli.scheduler:scheduler",
        "worker": "cli.worker:worker",
        "web": "cli.web:web",
        "mcp": "cli.mcp:mcp",
        "migrate": "cli.migrate:migrate_database",
        "restored": "cli.restored:restored",
        "tick": "cli.tick:tick",
        "import": _IMPORT,
        "shadow": "cli.shadow:shadow",
        "preview": "cli.preview:preview",
        "schema": "cli.schema:schema",
        "apps": _APPS,
        "actions": _ACTIONS,
        "events": Group("User events: send them.", {"send": "cli.events:send"}),
        "operations": _OPERATIONS,
        "backfills": Group(
            "Backfills: list, show and cancel them.",
            {
                "list": "cli.backfills:list_backfills",
                "show": "cli.backfills:show_backfill",
                "cancel": "cli.backfills:cancel",
            },
        ),
        "mails": Group(
            "Mails: preview and list them; confirm or resend the uncertain ones.",
            {
                "preview": "cli.mails_preview:preview_mails",
                "list": "cli.mails:list_mails",
                "confirm": "cli.mails:confirm_arrival",
                "resend": "cli.mails:resend",
                "show": "cli.mails:show_mail",
            },
        ),
        "queues": _QUEUES,
        "workers": _WORKERS,
        "keys": _KEYS,
        "changes": _CHANGES,
        "why": "cli.why:why",
        "audit": "cli.audit:audit",
        "load": "cli.load:load",
        "doctor": "cli.status:doctor",
        "support-bundle": "cli.status:support_bundle",
        "status": "cli.status:status",
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
        _make_output_safe()
    try:
        return _run(list(arguments))
    except MinutehandError as error:
        _print_refusal(error)
        return error.exit_code
    except UnicodeEncodeError as error:  # what was typed is in another encoding
        err().refuse(f"{error.object!a} is not in UTF-8")
        return UsageError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        if error.errno not in {errno.EPIPE, errno.ENOSPC}:
            raise
        _drop(sys.stdout)
        if error.errno == errno.EPIPE:  # the reader closed the pipe, as ``head`` does
            return 0
        err().refuse(f"what was to be written is cut short: {error.strerror}")
        return 1
    finally:
        try:
            err().file.flush()
        except OSError:
            _drop(sys.stderr)


def _drop(stream: TextIO) -> None:
    """Lose what could not be written; else Python tries again at exit, and ends so."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _make_output_safe() -> None:
    """Accept an output that the caller closed, or that lacks some of our letters."""
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - till the end
    assert isinstance(sys.stdout, TextIOWrapper)  # nothing has replaced it yet
    sys.stdout.reconfigure(errors="backslashreplace")


def _run(arguments: list[str]) -> int:
    with importing():  # Typer imports pydantic when it makes the first option
        options = _make_options()
    command = LazyGroup(COMMANDS, name="minutehand", params=options, epilog=_EXIT_CODES)
    try:
        command.main(arguments, prog_name="minutehand")
    except (OSError, SystemExit) as end:
        sys.stdout.flush()
        wrong: Any = end
        while wrong is not None and not hasattr(wrong, "format_message"):
            wrong = wrong.__context__
        if wrong is not None:  # a wrong call, also if Typer could tell nobody
            return int(wrong.exit_code)
        if isinstance(end, OSError):
            raise
        if isinstance(end.__context__, BrokenPipeError):  # Rich makes an exit of it
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def _print_version(asked: bool) -> None:  # noqa: FBT001 - Typer's signature
    if asked:
        out().say(f"minutehand {version('minutehand')}")
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
            err().refuse(str(problem))
    else:
        err().refuse(str(error))


if __name__ == "__main__":
    sys.exit(main())
