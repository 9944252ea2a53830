"""``operations cancel`` and ``retry``: one by its id, or many by filters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

import typer

from actions.listing import fetch_app, find_action
from cli.confirming import LOOK_FIRST, DryRunOption, YesOption, confirm
from cli.connection import get_engine, read_database, write_database
from cli.operation_view import ShownOperation, make_operation_json, read_operation
from cli.options import AppOption, JsonOption, read_operation_id, read_period
from cli.output import out, print_json, print_note
from models.errors import ConflictError, UsageError
from models.operation_state import OperationState, Queue, Reason
from operations.bulk import (
    CHANGEABLE,
    Changed,
    Counted,
    Selection,
    cancel_selected,
    count_selected,
    retry_selected,
)
from operations.cancel_and_retry import cancel, get_live_beside, reopen

_OptionalId = Annotated[
    str | None,
    typer.Argument(metavar="[ID]", help="Of one operation; else give filters."),
]
_ActionOption = Annotated[
    str | None,
    typer.Option("--action", metavar="ACTION", help="Uid of an action, or its name."),
]
_StateOption = Annotated[
    list[OperationState] | None,
    typer.Option("--state", help="Only those in this state; may be repeated."),
]
_ReasonOption = Annotated[
    Reason | None, typer.Option("--reason", help="Only those of this reason.")
]
_QueueOption = Annotated[
    Queue | None, typer.Option("--queue", help="Only those of this queue.")
]
_FromOption = Annotated[
    str | None, typer.Option("--from", metavar="TIME", help="Occurrences from here on.")
]
_UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Occurrences before this.")
]
_AllOption = Annotated[
    bool, typer.Option("--all", help="All there are; instead of filters.")
]

#: Small apps that are named with their counts.
_APPS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class _Words:
    """How a change is spoken of."""

    change: str
    question: str
    done: str


_CANCEL = _Words("cancel", "Cancel", "Canceled")
_RETRY = _Words("retry", "Run again", "Runs again soon:")


def cancel_operations(  # noqa: PLR0913 - the options of the command
    operation: _OptionalId = None,
    *,
    app: AppOption = None,
    action: _ActionOption = None,
    state: _StateOption = None,
    reason: _ReasonOption = None,
    queue: _QueueOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: _AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Cancel an operation that is not final, or many.

    The worker of one that runs stops at its next progress point. Many are counted
    first, and asked about.
    """
    period = read_period(from_, until)
    selection = _select(app, action, state, reason, queue, period)
    if operation is not None:
        _refuse_both(selection, everything=everything, dry_run=dry_run)
        _cancel_one(operation, json=json)
        return
    _change_many(
        _CANCEL, selection, everything=everything, dry_run=dry_run, yes=yes, json=json
    )


def retry_operations(  # noqa: PLR0913 - the options of the command
    operation: _OptionalId = None,
    *,
    app: AppOption = None,
    action: _ActionOption = None,
    state: _StateOption = None,
    reason: _ReasonOption = None,
    queue: _QueueOption = None,
    from_: _FromOption = None,
    until: _UntilOption = None,
    everything: _AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Run a failed or canceled operation again, or many.

    Steps that succeeded are not repeated, and nobody gets a mail twice. If its
    overlap is skip and another run of its action is under way: exit 5. Many are
    counted first, and asked about.
    """
    period = read_period(from_, until)
    selection = _select(app, action, state, reason, queue, period)
    if operation is not None:
        _refuse_both(selection, everything=everything, dry_run=dry_run)
        _retry_one(operation, json=json)
        return
    _change_many(
        _RETRY, selection, everything=everything, dry_run=dry_run, yes=yes, json=json
    )


def _select(
    app: str | None,
    action: str | None,
    states: list[OperationState] | None,
    reason: Reason | None,
    queue: Queue | None,
    period: tuple[datetime | None, datetime | None],
) -> Selection:
    uid = None
    if app is not None or action is not None:
        with read_database() as connection:
            if app is not None:
                fetch_app(connection, app)
            if action is not None:
                uid = find_action(connection, action, app=app).uid
    since, until = period
    return Selection(
        app=app,
        action_uid=uid,
        states=frozenset(states or ()),
        reason=reason,
        queue=queue,
        since=since,
        until=until,
    )


def _refuse_both(selection: Selection, *, everything: bool, dry_run: bool) -> None:
    if everything or dry_run or not selection.is_open:
        msg = "give either the ID of one operation, or filters for many"
        raise UsageError(msg)


def _change_many(
    words: _Words,
    selection: Selection,
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    _refuse_selection(words, selection, everything=everything)
    with read_database() as connection:
        counted = count_selected(connection, selection, change=words.change)
    if dry_run or not counted.total:
        _print_counted(words, counted, None, dry_run=dry_run, json=json)
        return
    if not yes:
        print_note(_describe(counted))
    many = "operation" if counted.total == 1 else "operations"
    if not confirm(
        f"{words.question} {counted.total:,} {many}", yes=yes, look=LOOK_FIRST
    ):
        print_note("Nothing was changed.")
        raise typer.Exit(1)
    change = cancel_selected if words is _CANCEL else retry_selected
    changed = change(get_engine(), selection, at=counted.at)
    _print_counted(words, counted, changed, dry_run=False, json=json)
    if changed.refused and not changed.done:
        raise typer.Exit(ConflictError.exit_code)


def _refuse_selection(words: _Words, selection: Selection, *, everything: bool) -> None:
    if selection.is_open and not everything:
        msg = (
            f"say which to {words.change}: an ID, or filters such as --app and"
            " --state. --all means all there are."
        )
        raise UsageError(msg)
    if everything and not selection.is_open:
        msg = "--all means all there are; leave it out to go by the other filters"
        raise UsageError(msg)
    fit = CHANGEABLE[words.change]
    if unfit := selection.states - fit:
        msg = (
            f"--state: none that is {' or '.join(sorted(unfit))} can be changed so;"
            f" {words.change} is for {', '.join(sorted(fit))}"
        )
        raise UsageError(msg)


def _describe(counted: Counted) -> str:
    states = ", ".join(f"{n:,} {state}" for state, n in counted.by_state.items())
    named = list(counted.by_app.items())
    apps = ", ".join(f"{app} {count:,}" for app, count in named[:_APPS_SHOWN])
    more = len(named) - _APPS_SHOWN
    return f"{states}; of {apps}{f' and {more:,} more apps' if more > 0 else ''}."


def _print_counted(
    words: _Words,
    counted: Counted,
    changed: Changed | None,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    done = 0 if changed is None else changed.done
    refused = {} if changed is None else dict(changed.refused)
    if json:
        print_json(
            {
                "matched": counted.total,
                "by_state": counted.by_state,
                "by_app": counted.by_app,
                "changed": done,
                "refused": refused,
                "dry_run": dry_run,
            }
        )
        return
    if not counted.total:
        fit = ", ".join(sorted(CHANGEABLE[words.change]))
        out().print(f"No operation matches ({words.change} is for {fit}).")
        return
    if dry_run:
        out().print(f"Matched {counted.total:,}: {_describe(counted)}", markup=False)
        return
    out().print(f"{words.done} {done:,} of {counted.total:,}.")
    for reason, count in refused.items():
        out().print(f"  {count:,} were left as they were: {reason}")


def _cancel_one(operation: str, *, json: bool) -> None:
    operation_id = read_operation_id(operation)
    with write_database() as connection:
        canceled = cancel(connection, operation_id, reason=Reason.CANCELED)
        shown = read_operation(connection, operation_id)
    if not canceled:
        msg = f"operation {operation_id} is {shown.row.state} already"
        raise ConflictError(msg)
    _print_outcome(shown, _CANCEL.done, json=json)
    if shown.row.claim_token is not None:
        print_note("Its worker stops at its next progress point.")


def _retry_one(operation: str, *, json: bool) -> None:
    operation_id = read_operation_id(operation)
    with write_database() as connection:
        reopened = reopen(connection, operation_id)
        shown = read_operation(connection, operation_id)
        beside = get_live_beside(connection, operation_id)
    if not reopened and beside is not None:
        msg = (
            f"operation {beside} of the action is under way, "
            "and its overlap is skip; wait for it, or cancel it"
        )
        raise ConflictError(msg)
    if not reopened:
        msg = (
            f"operation {operation_id} is {shown.row.state}; "
            "only failed and canceled ones are run again"
        )
        raise ConflictError(msg)
    _print_outcome(shown, _RETRY.done, json=json)
    if shown.row.claim_token is not None:
        print_note("The worker that ran it has not stopped yet; it waits for that.")


def _print_outcome(shown: ShownOperation, word: str, *, json: bool) -> None:
    if json:
        print_json(make_operation_json(shown))
    else:
        out().print(f"{word} {shown.row.id}")
