"""The commands ``mails list``, ``show``, ``confirm`` and ``resend``."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from uuid import UUID

import typer

from actions.lookup import find_filtered
from cli.completing import complete_operation
from cli.confirming import DryRunOption, YesOption, confirm_change_of_many
from cli.connection import get_actor, get_engine, read_database, write_database
from cli.ids import read_operation_id, shorten
from cli.options import (
    ActionOption,
    AllOption,
    AppOption,
    JsonOption,
    OptionalOperation,
    read_period,
)
from cli.output import (
    format_both,
    out,
    print_below,
    print_json,
    print_note,
    print_table,
)
from models.database.engine import Author
from models.errors import ConflictError, NotFoundError, UsageError
from models.operation_state import DeliveryState
from models.paging import Page
from operations.mail.count_mails import count_mails
from operations.mail.list_mails import (
    Kept,
    Mail,
    MailSelection,
    ReadMail,
    fetch_mail,
    fetch_mails,
)
from operations.mail.uncertain_mails import (
    Resolved,
    confirm_mails,
    make_resolved_json,
    resend_mails,
    resolve_mails,
)

_Recipients = Annotated[
    list[str] | None,
    typer.Argument(metavar="RECIPIENT", help="Ids of users; default: all recipients."),
]
_FromOption = Annotated[
    str | None,
    typer.Option("--from", metavar="TIME", help="Only mails changed at or after this."),
]
_UntilOption = Annotated[
    str | None,
    typer.Option("--until", metavar="TIME", help="Only mails changed before this."),
]


def list_mails(  # noqa: PLR0913 - the options of the command
    *,
    app: AppOption = None,
    action: ActionOption = None,
    operation: Annotated[
        str | None,
        typer.Option(
            "--operation",
            metavar="ID",
            help="Only mails of this operation.",
            autocompletion=complete_operation,
        ),
    ] = None,
    state: Annotated[
        DeliveryState | None,
        typer.Option("--state", help="Only mails in this state."),
    ] = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    limit: Annotated[
        int,
        typer.Option("--limit", min=1, max=100_000, help="The most to list."),
    ] = 50,
    json: JsonOption = False,
) -> None:
    """
    List mails with their recipients and states.

    The latest change comes first. An uncertain mail may or may not have arrived, and is
    not sent again until an operator decides: see mails confirm and mails resend.
    """
    operation_id = None if operation is None else read_operation_id(operation)
    wanted = _select(
        app, action, operation_id, (), from_=from_, until=until, state=state
    )
    with read_database() as connection:
        found = fetch_mails(connection, wanted, Page(limit)).entries
        counts = count_mails(connection, wanted)
    if json:
        print_json([each.as_json() for each in found])
        return
    print_table(
        ("operation", "app", "step", "recipient", "state", "changed", "what"),
        (
            [
                shorten(each.operation_id),
                each.app,
                each.step,
                each.recipient,
                each.state,
                format_both(each.updated_at),
                _describe(each),
            ]
            for each in found
        ),
        empty="No mails.",
        spare=("what", "app", "step"),
    )
    if found:
        told = ", ".join(f"{count:,} {name}" for name, count in sorted(counts.items()))
        print_below(f"Total: {told}.")


def _describe(mail: Mail) -> str:
    if mail.error is not None:
        return mail.error
    return "" if mail.resolved_by is None else f"decided by {mail.resolved_by}"


def show_mail(
    operation: Annotated[
        str,
        typer.Argument(
            metavar="ID",
            help="The operation that sends it.",
            autocompletion=complete_operation,
        ),
    ],
    recipient: Annotated[
        str, typer.Argument(metavar="RECIPIENT", help="Id of the user.")
    ],
    *,
    step: Annotated[
        str,
        typer.Option("--step", metavar="STEP", help="The step that sends it."),
    ] = "send_email",
    html: Annotated[
        bool, typer.Option("--html", help="Print the HTML part, and nothing else.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Show a mail as it was handed over to the mail server.

    What mails said is kept as long as their operations (MINUTEHAND_KEEP_MAILS).
    """
    with read_database() as connection:
        found = fetch_mail(
            connection, read_operation_id(operation), step, recipient, app=None
        )
    if json:
        print_json(found.as_json())
    elif html:
        _print_html(found)
    else:
        _print_mail(found)


def _print_mail(found: ReadMail) -> None:
    mail = found.mail
    out().print(f"To:         {mail.recipient} ({mail.app})", markup=False)
    out().print(f"Message-ID: <{found.as_json()['message_id']}>", markup=False)
    state = f"{mail.state}, {format_both(mail.updated_at)}"
    out().print(f"State:      {state}", markup=False)
    if mail.error is not None:
        out().print(f"Error:      {mail.error}", markup=False)
    if mail.kept is not Kept.YES:
        print_note(_explain_lack(mail.kept))
        return
    out().print(f"Subject:    {found.subject}", markup=False)
    if found.text is not None:
        out().print(f"\n{found.text}", markup=False, soft_wrap=True)
    if found.html is not None:
        print_note("It has an HTML part: see --html.")


def _print_html(found: ReadMail) -> None:
    if found.html is None:
        lack = "the mail has no HTML part"
        if found.mail.kept is not Kept.YES:
            lack = _explain_lack(found.mail.kept)
        raise NotFoundError(lack)
    out().print(found.html, markup=False, highlight=False, soft_wrap=True)


def _explain_lack(kept: Kept) -> str:
    if kept is Kept.TOO_LARGE:
        return "What it said was too large to be kept."
    return (
        "What it said was not kept: it never reached a mail server, it was sent by a"
        " version that kept nothing, or MINUTEHAND_KEEP_MAILS is false."
    )


def confirm_arrival(  # noqa: PLR0913 - the options of the command
    operation: OptionalOperation = None,
    recipients: _Recipients = None,
    *,
    app: AppOption = None,
    action: ActionOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Mark uncertain mails as sent.

    Use it when you know that they arrived. Who marked them is recorded. Before mails of
    many operations are marked, they are counted and the command asks.
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
    operation: OptionalOperation = None,
    recipients: _Recipients = None,
    *,
    failed: Annotated[
        bool,
        typer.Option(
            "--failed", help="Mails that certainly failed, not uncertain ones."
        ),
    ] = False,
    app: AppOption = None,
    action: ActionOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Send uncertain mails again, or failed ones.

    They are sent under the same operation, to these recipients only. A recipient whose
    first mail did arrive gets a second one. Before mails of many operations are sent,
    they are counted and the command asks.
    """
    wanted = _select(
        app,
        action,
        None if operation is None else read_operation_id(operation),
        recipients or (),
        from_=from_,
        until=until,
        state=DeliveryState.FAILED if failed else DeliveryState.UNCERTAIN,
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
            uid = find_filtered(connection, app=app, action=action)
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
    if wanted.is_open is not everything:
        msg = (
            "Name the mails: the ID of an operation, filters such as --app and --from,"
            f" or --all alone for all {wanted.state} mails."
        )
        raise UsageError(msg)
    if wanted.operation_id is not None and not dry_run:
        _resolve_one(wanted, wanted.operation_id, resend=resend, json=json)
        return
    with read_database() as connection:
        total = sum(count_mails(connection, wanted).values())
    many = f"{wanted.state} {'mail' if total == 1 else 'mails'}"
    if not total and not json:
        out().print(f"No {wanted.state} mails match.")
        return
    if dry_run and not json:
        out().print(f"Matched {total:,} {many}.")
        return
    if dry_run or not total:
        _print(total, Resolved(), dry_run=dry_run, resend=resend, json=json)
        return
    verb = (
        f"Send {total:,} {many} again" if resend else f"Mark {total:,} {many} as sent"
    )
    confirm_change_of_many(verb, yes=yes)
    resolved = resolve_mails(
        get_engine(), wanted, resend=resend, by=Author(get_actor())
    )
    _print(total, resolved, dry_run=False, resend=resend, json=json)
    if resolved.refused and not resolved.done:
        raise typer.Exit(ConflictError.exit_code)


def _resolve_one(
    wanted: MailSelection, operation_id: UUID, *, resend: bool, json: bool
) -> None:
    decide = partial(resend_mails, state=wanted.state) if resend else confirm_mails
    with write_database() as connection:
        done = decide(
            connection, operation_id, recipients=wanted.recipients, by=get_actor()
        )
    _print(done, Resolved(done), dry_run=False, resend=resend, json=json)


def _print(
    total: int,
    resolved: Resolved,
    *,
    dry_run: bool,
    resend: bool,
    json: bool,
) -> None:
    if json:
        print_json(make_resolved_json(total, resolved, dry_run=dry_run))
        return
    verb = "Will be sent again soon:" if resend else "Marked as sent:"
    out().print(f"{verb} {resolved.done:,} of {total:,}.")
    for text in resolved.refused.values():
        out().print(f"  left unchanged: {text}", markup=False)
