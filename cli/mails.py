"""The commands ``mails list``, ``show``, ``confirm`` and ``resend``."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated
from zoneinfo import ZoneInfo

import typer

from actions.lookup import find_filtered
from cli.connection import ask_database, get_actor, get_engine, read_database
from cli.options import (
    ActionOption,
    AllOption,
    AppOption,
    ChangeTerms,
    LimitOption,
    OptionalOperation,
    argument,
    complete_operation,
    confirm_change_of_many,
    flag,
    option,
    read_operation_id,
    read_period,
    shorten,
    takes,
    takes_json,
    takes_terms,
    value,
)
from cli.output import err, format_both, out
from models.database.engine import Author
from models.errors import ConflictError, NotFoundError, UsageError
from models.operation_state import MailState
from models.paging import Page
from models.units import list_counts
from operations.mail.list_mails import (
    KeptContent,
    ListedMail,
    MailFilter,
    ReadMail,
    count_mails,
    fetch_mail,
    fetch_mails,
)
from operations.mail.resolve_mails import foresee_mails, resolve_mails
from overview.operations import fetch_zones_of

_Recipients = Annotated[
    list[str] | None, argument("RECIPIENT", "Ids of users; default: all recipients.")
]
_FromOption = Annotated[
    str | None, option("--from TIME", "Only mails changed at or after this.")
]
_UntilOption = Annotated[
    str | None, option("--until TIME", "Only mails changed before this.")
]


def _select(
    operation: OptionalOperation = None,
    recipients: _Recipients = None,
    *,
    app: AppOption = None,
    action: ActionOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
) -> MailFilter:
    since, end = read_period(from_, until)
    operation_id = None if operation is None else read_operation_id(operation)
    uid = None
    if app is not None or action is not None:
        uid = ask_database(find_filtered, app=app, action=action)
    named = frozenset(recipients or ())
    return MailFilter(app, uid, operation_id, named, since=since, until=end)


def _select_listed(
    *,
    app: AppOption = None,
    action: ActionOption = None,
    operation: str | None = value(
        "--operation ID",
        "Only mails of this operation.",
        autocompletion=complete_operation,
    ),
    state: MailState | None = value("--state", "Only mails in this state."),
    from_: _FromOption = None,
    until: _UntilOption = None,
) -> MailFilter:
    found = _select(operation, app=app, action=action, from_=from_, until=until)
    return replace(found, state=state)


@takes_json
@takes("wanted", _select_listed)
def list_mails(wanted: MailFilter, *, limit: LimitOption = 50) -> None:
    """
    List mails with their recipients and states.

    The latest change comes first. An uncertain mail may or may not have arrived, and is
    not sent again until an operator decides: see mails confirm and mails resend.
    """
    with read_database() as connection:
        found = fetch_mails(connection, wanted, Page(limit)).entries
        counts = count_mails(connection, wanted)
        zones = fetch_zones_of(connection, {each.operation_id for each in found})
    out().listed(
        found,
        lambda each: {
            "operation": shorten(each.operation_id),
            "app": each.app,
            "step": each.step,
            "recipient": each.recipient,
            "state": each.state,
            "changed": format_both(each.updated_at, zones.get(each.operation_id)),
            "what": _describe(each),
        },
        empty="No mails.",
        spare=("what", "app", "step"),
    )
    if found and not out().wants_json:
        out().say(f"Total: {list_counts(dict(sorted(counts.items())))}.")


def _describe(mail: ListedMail) -> str:
    if mail.error is not None:
        return mail.error
    return "" if mail.resolved_by is None else f"decided by {mail.resolved_by}"


@takes_json
def show_mail(
    operation: Annotated[
        str,
        argument(
            "ID", "The operation that sends it.", autocompletion=complete_operation
        ),
    ],
    recipient: Annotated[str, argument("RECIPIENT", "Id of the user.")],
    *,
    step: str = value("--step STEP", "The step that sends it.", default="send_email"),
    html: bool = flag("--html", "Print the HTML part, and nothing else."),
) -> None:
    """
    Show a mail as it was handed over to the mail server.

    What mails said is kept as long as their operations (MINUTEHAND_KEEP_MAILS).
    """
    with read_database() as connection:
        run = read_operation_id(operation)
        found = fetch_mail(connection, run, step, recipient, app=None)
        zone = fetch_zones_of(connection, (run,)).get(run)
    if out().gave_json(found):
        return
    if html:
        _print_html(found)
    else:
        _print_mail(found, zone)


def _print_mail(mail: ReadMail, zone: ZoneInfo | None) -> None:
    out().say(f"To:         {mail.recipient} ({mail.app})")
    out().say(f"Message-ID: <{mail.message_id}>")
    state = f"{mail.state}, {format_both(mail.updated_at, zone)}"
    out().say(f"State:      {state}")
    if mail.error is not None:
        out().say(f"Error:      {mail.error}")
    if mail.content is not KeptContent.YES:
        err().say(_explain_lack(mail.content))
        return
    out().say(f"Subject:    {mail.subject}")
    if mail.text is not None:
        out().print(f"\n{mail.text}", markup=False, soft_wrap=True)
    if mail.html is not None:
        err().say("It has an HTML part: see --html.")


def _print_html(found: ReadMail) -> None:
    if found.html is None:
        lack = "the mail has no HTML part"
        if found.content is not KeptContent.YES:
            lack = _explain_lack(found.content)
        raise NotFoundError(lack)
    out().print(found.html, markup=False, highlight=False, soft_wrap=True)


def _explain_lack(kept: KeptContent) -> str:
    if kept is KeptContent.TOO_LARGE:
        return "What it said was too large to be kept."
    return (
        "What it said was not kept: it never reached a mail server, it was sent by a"
        " version that kept nothing, or MINUTEHAND_KEEP_MAILS is false."
    )


@takes_json
@takes("wanted", _select)
@takes_terms
def confirm_arrival(
    wanted: MailFilter, *, everything: AllOption = False, terms: ChangeTerms
) -> None:
    """
    Mark uncertain mails as sent.

    Use it when you know that they arrived. Who marked them is recorded. Before mails of
    many operations are marked, they are counted and the command asks.
    """
    _refuse_unnamed(wanted, everything=everything)
    _resolve(wanted, terms, resend=False)


@takes_json
@takes("wanted", _select)
@takes_terms
def resend(
    wanted: MailFilter,
    *,
    failed: bool = flag("--failed", "Mails that certainly failed, not uncertain ones."),
    everything: AllOption = False,
    terms: ChangeTerms,
) -> None:
    """
    Send uncertain mails again, or failed ones.

    They are sent under the same operation, to these recipients only. A recipient whose
    first mail did arrive gets a second one. Before mails of many operations are sent,
    they are counted and the command asks.
    """
    if failed:
        wanted = replace(wanted, state=MailState.FAILED)
    _refuse_unnamed(wanted, everything=everything)
    _resolve(wanted, terms, resend=True)


def _refuse_unnamed(wanted: MailFilter, *, everything: bool) -> None:
    if wanted.is_open is not everything:
        raise UsageError(
            "Name the mails: the ID of an operation, filters such as --app and --from,"
            f" or --all alone for all {wanted.state} mails."
        )


def _resolve(wanted: MailFilter, terms: ChangeTerms, *, resend: bool) -> None:
    dry_run = terms.dry_run
    if dry_run or wanted.operation_id is None:
        foreseen = ask_database(foresee_mails, wanted)
        total = foreseen.matched
        many = f"{wanted.state} {'mail' if total == 1 else 'mails'}"
        told = replace(foreseen, dry_run=dry_run)
        if (dry_run or not total) and out().gave_json(told):
            return
        if not total:
            out().say(f"No {wanted.state} mails match.")
            return
        if dry_run:
            out().say(f"Matched {total:,} {many}.")
            return
        again = f"Send {total:,} {many} again"
        confirm_change_of_many(
            again if resend else f"Mark {total:,} {many} as sent", yes=terms.yes
        )
    resolved = resolve_mails(
        get_engine(), wanted, resend=resend, by=Author(get_actor())
    )
    if not out().gave_json(resolved):
        verb = "Will be sent again soon:" if resend else "Marked as sent:"
        out().say(f"{verb} {resolved.changed:,} of {resolved.matched:,}.")
        for text in resolved.refused.values():
            out().say(f"  left unchanged: {text}")
    if resolved.refused and not resolved.changed:
        raise typer.Exit(ConflictError.exit_code)
