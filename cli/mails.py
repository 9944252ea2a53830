"""``mails list``, ``confirm`` and ``resend``."""

from __future__ import annotations

from typing import Annotated, Any
from uuid import UUID

import sqlalchemy as sa
import typer

from actions.listing import fetch_app, find_action
from cli.confirming import LOOK_FIRST, DryRunOption, YesOption, confirm
from cli.connection import get_actor, get_engine, read_database, write_database
from cli.options import AppOption, JsonOption, read_operation_id, read_period
from cli.output import format_both, out, print_json, print_note, print_table
from models.errors import ConflictError, UsageError
from operations.mail.uncertain import (
    MailSelection,
    confirm_mails,
    count_mails,
    fetch_mails,
    resend_mails,
    resolve_mails,
)
from operations.ports import DeliveryState

_OptionalId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Of one operation; else give filters."),
]
_Recipients = Annotated[
    list[str] | None,
    typer.Argument(metavar="[RECIPIENT]...", help="Ids of users; all if left out."),
]
_ActionOption = Annotated[
    str | None,
    typer.Option("--action", metavar="ACTION", help="Uid of an action, or its name."),
]
_FromOption = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Changed from here on.")
]
_UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Changed before this.")
]
_AllOption = Annotated[
    bool, typer.Option("--all", help="All there are; instead of filters.")
]

_KEYS = ("operation_id", "app", "action_uid", "step", "recipient", "state", "error")
_MORE_KEYS = ("updated_at", "resolved_by", "resolved_at", "occurrence")


def list_mails(  # noqa: PLR0913 - the options of the command
    *,
    app: AppOption = None,
    action: _ActionOption = None,
    operation: Annotated[
        str | None, typer.Option("--operation", metavar="ID", help="Of one operation.")
    ] = None,
    state: Annotated[
        DeliveryState | None, typer.Option("--state", help="Only those in this state.")
    ] = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=100_000, help="At most so many.")
    ] = 50,
    json: JsonOption = False,
) -> None:
    """
    List mails, to whom, and what became of them.

    The latest change comes first. An uncertain one may or may not have arrived, and is
    not sent again until somebody decides: see mails confirm and mails resend.
    """
    operation_id = None if operation is None else read_operation_id(operation)
    wanted = _select(
        app, action, operation_id, (), from_=from_, until=until, state=state
    )
    with read_database() as connection:
        rows = fetch_mails(connection, wanted, limit=limit)
        counts = count_mails(connection, wanted)
    if json:
        keys = (*_KEYS, *_MORE_KEYS)
        print_json([{key: getattr(row, key) for key in keys} for row in rows])
        return
    print_table(
        ("operation", "app", "step", "recipient", "state", "changed", "what"),
        (
            [
                str(row.operation_id),
                row.app,
                row.step,
                row.recipient,
                row.state,
                format_both(row.updated_at),
                _describe(row),
            ]
            for row in rows
        ),
        empty="No mails.",
    )
    if rows:
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
        print_note(f"In all: {told}.")


def _describe(row: sa.Row[Any]) -> str:
    if row.error is not None:
        return str(row.error)
    return "" if row.resolved_by is None else f"decided by {row.resolved_by}"


def confirm_arrival(  # noqa: PLR0913 - the options of the command
    operation: _OptionalId = None,
    recipients: _Recipients = None,
    *,
    app: AppOption = None,
    action: _ActionOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: _AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Say that uncertain mails have arrived.

    They count as sent from then on; who said so is kept. Many are counted first, and
    asked about.
    """
    wanted = _select(
        app,
        action,
        None if operation is None else read_operation_id(operation),
        recipients or (),
        from_=from_,
        until=until,
    )
    _resolve(
        wanted, resend=False, everything=everything, dry_run=dry_run, yes=yes, json=json
    )


def resend(  # noqa: PLR0913 - the options of the command
    operation: _OptionalId = None,
    recipients: _Recipients = None,
    *,
    app: AppOption = None,
    action: _ActionOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: _AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Send uncertain mails again.

    Under the same operation, to these recipients alone; whoever has got theirs after
    all gets a second one. Many are counted first, and asked about.
    """
    wanted = _select(
        app,
        action,
        None if operation is None else read_operation_id(operation),
        recipients or (),
        from_=from_,
        until=until,
    )
    _resolve(
        wanted, resend=True, everything=everything, dry_run=dry_run, yes=yes, json=json
    )


def _select(  # noqa: PLR0913 - the filters of the commands
    app: str | None,
    action: str | None,
    operation_id: UUID | None,
    recipients: list[str] | tuple[()],
    *,
    from_: str | None,
    until: str | None,
    state: DeliveryState | None = DeliveryState.UNCERTAIN,
) -> MailSelection:
    since, end = read_period(from_, until)
    uid = None
    if app is not None or action is not None:
        with read_database() as connection:
            if app is not None:
                fetch_app(connection, app)
            if action is not None:
                uid = find_action(connection, action, app=app).uid
    return MailSelection(
        app=app,
        action_uid=uid,
        operation_id=operation_id,
        recipients=frozenset(recipients),
        state=state,
        since=since,
        until=end,
    )


def _resolve(
    wanted: MailSelection,
    *,
    resend: bool,
    everything: bool,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    is_open = wanted == MailSelection()
    if is_open is not everything:
        msg = (
            "say which: the ID of an operation, or filters such as --app and --from;"
            " or --all alone, for all that are uncertain"
        )
        raise UsageError(msg)
    if wanted.operation_id is not None and not dry_run:
        _resolve_one(wanted, wanted.operation_id, resend=resend, json=json)
        return
    with read_database() as connection:
        total = sum(count_mails(connection, wanted).values())
    if dry_run or not total:
        _print(total, 0, {}, dry_run=dry_run, resend=resend, json=json)
        return
    many = "mail" if total == 1 else "mails"
    verb = f"Send {total:,} uncertain {many} again"
    if not resend:
        verb = f"Take it that {total:,} uncertain {many} arrived"
    if not confirm(verb, yes=yes, look=LOOK_FIRST):
        print_note("Nothing was changed.")
        raise typer.Exit(1)
    resolved = resolve_mails(get_engine(), wanted, resend=resend, by=get_actor())
    refused = {str(id_): text for id_, text in resolved.refused.items()}
    _print(total, resolved.done, refused, dry_run=False, resend=resend, json=json)
    if refused and not resolved.done:
        raise typer.Exit(ConflictError.exit_code)


def _resolve_one(
    wanted: MailSelection, operation_id: UUID, *, resend: bool, json: bool
) -> None:
    decide = resend_mails if resend else confirm_mails
    with write_database() as connection:
        done = decide(
            connection, operation_id, recipients=wanted.recipients, by=get_actor()
        )
    _print(done, done, {}, dry_run=False, resend=resend, json=json)


def _print(
    total: int,
    done: int,
    refused: dict[str, str],
    *,
    dry_run: bool,
    resend: bool,
    json: bool,
) -> None:
    if json:
        print_json(
            {"matched": total, "changed": done, "refused": refused, "dry_run": dry_run}
        )
        return
    if not total:
        out().print("No uncertain mail matches.")
        return
    if dry_run:
        out().print(f"Matched {total:,} uncertain.")
        return
    verb = "Sent again soon:" if resend else "Taken as arrived:"
    out().print(f"{verb} {done:,} of {total:,}.")
    for text in refused.values():
        out().print(f"  left as it was: {text}", markup=False)
