"""``operations cancel`` and ``retry``: one operation by its id, or many by filters."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from actions.lookup import find_filtered
from cli.confirming import DryRunOption, YesOption, confirm_change_of_many
from cli.connection import get_actor, read_database, use_engine, write_database
from cli.ids import read_operation_id
from cli.options import (
    ActionOption,
    AllOption,
    AppOption,
    JsonOption,
    OccurrencesFromOption,
    OccurrencesUntilOption,
    OptionalOperation,
    QueueOption,
    ReasonOption,
    StatesOption,
    read_period,
)
from cli.output import out, print_json, print_note
from models.database.engine import Author
from models.errors import ConflictError, UsageError
from models.operation_state import OperationState, Queue, Reason
from operations.bulk import Changed, change_selected, make_change_json
from operations.cancel_and_retry import cancel_or_refuse, retry_or_refuse
from operations.selecting import (
    CHANGEABLE,
    Change,
    Counted,
    Selection,
    count_selected,
    refuse_unfit_states,
)
from overview.operations.shown import ShownOperation, fetch_shown_operation

_FromStepOption = Annotated[
    str | None,
    typer.Option(
        "--from-step",
        metavar="STEP",
        help="Of one operation: run this step and all after it again.",
    ),
]
#: How many small apps are named with their counts.
_APPS_SHOWN = 5

#: The question before each change, and the report after it.
_QUESTIONS = {Change.CANCEL: "Cancel", Change.RETRY: "Run again"}
_DONE = {Change.CANCEL: "Canceled", Change.RETRY: "Will run again soon:"}


def cancel_operations(  # noqa: PLR0913 - the options of the command
    operation: OptionalOperation = None,
    *,
    app: AppOption = None,
    action: ActionOption = None,
    state: StatesOption = None,
    reason: ReasonOption = None,
    queue: QueueOption = None,
    from_: OccurrencesFromOption = None,
    until: OccurrencesUntilOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Cancel one operation that is not final, or many.

    If the operation is running, its worker stops at its next progress point. Before
    many are canceled, they are counted and the command asks.
    """
    period = read_period(from_, until)
    selection = _select(app, action, state, reason, queue, period)
    if operation is not None:
        _refuse_both(selection, everything=everything, dry_run=dry_run)
        _cancel_one(operation, json=json)
        return
    _change_many(
        Change.CANCEL,
        selection,
        everything=everything,
        dry_run=dry_run,
        yes=yes,
        json=json,
    )


def retry_operations(  # noqa: PLR0913 - the options of the command
    operation: OptionalOperation = None,
    *,
    app: AppOption = None,
    action: ActionOption = None,
    state: StatesOption = None,
    reason: ReasonOption = None,
    queue: QueueOption = None,
    from_: OccurrencesFromOption = None,
    until: OccurrencesUntilOption = None,
    from_step: _FromStepOption = None,
    everything: AllOption = False,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    json: JsonOption = False,
) -> None:
    """
    Run one failed or canceled operation again, or many.

    Steps that succeeded are not repeated, unless --from-step names one. Nobody gets a
    mail twice. Exits with 5 if another run of the action is under way and its overlap
    is skip. Before many are retried, they are counted and the command asks.
    """
    period = read_period(from_, until)
    selection = _select(app, action, state, reason, queue, period)
    if operation is not None:
        _refuse_both(selection, everything=everything, dry_run=dry_run)
        _retry_one(operation, from_step, json=json)
        return
    if from_step is not None:
        msg = "--from-step needs the ID of one operation."
        raise UsageError(msg)
    _change_many(
        Change.RETRY,
        selection,
        everything=everything,
        dry_run=dry_run,
        yes=yes,
        json=json,
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
            uid = find_filtered(connection, app=app, action=action)
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
        msg = "Name either the ID of one operation, or filters for many; not both."
        raise UsageError(msg)


def _change_many(
    change: Change,
    selection: Selection,
    *,
    everything: bool,
    dry_run: bool,
    yes: bool,
    json: bool,
) -> None:
    _refuse_selection(change, selection, everything=everything)
    with read_database() as connection:
        counted = count_selected(connection, selection, change=change)
    if dry_run or not counted.total:
        _print_counted(change, counted, None, dry_run=dry_run, json=json)
        return
    if not yes:
        print_note(_describe(counted))
    many = "operation" if counted.total == 1 else "operations"
    what = f"{_QUESTIONS[change]} {counted.total:,} {many}"
    confirm_change_of_many(what, yes=yes)
    with use_engine() as engine:
        changed = change_selected(
            engine, selection, change=change, at=counted.at, author=Author(get_actor())
        )
    _print_counted(change, counted, changed, dry_run=False, json=json)
    if changed.refused and not changed.done:
        raise typer.Exit(ConflictError.exit_code)


def _refuse_selection(
    change: Change, selection: Selection, *, everything: bool
) -> None:
    if selection.is_open and not everything:
        msg = (
            f"Name the operations to {change}: an ID, filters such as --app and"
            " --state, or --all for all of them."
        )
        raise UsageError(msg)
    if everything and not selection.is_open:
        msg = "--all cannot be combined with filters. Leave out one or the other."
        raise UsageError(msg)
    refuse_unfit_states(selection, change)


def _describe(counted: Counted) -> str:
    states = ", ".join(f"{n:,} {state}" for state, n in counted.by_state.items())
    named = list(counted.by_app.items())
    apps = ", ".join(f"{app} {count:,}" for app, count in named[:_APPS_SHOWN])
    more = len(named) - _APPS_SHOWN
    return f"{states}; by app: {apps}{f' and {more:,} more' if more > 0 else ''}."


def _print_counted(
    change: Change,
    counted: Counted,
    changed: Changed | None,
    *,
    dry_run: bool,
    json: bool,
) -> None:
    if json:
        print_json(make_change_json(counted, changed, dry_run=dry_run))
        return
    if not counted.total:
        fit = ", ".join(sorted(CHANGEABLE[change]))
        out().print(f"No operation matches; {change} applies only to {fit} ones.")
        return
    if changed is None:
        out().print(f"Matched {counted.total:,}: {_describe(counted)}", markup=False)
        return
    out().print(f"{_DONE[change]} {changed.done:,} of {counted.total:,}.")
    for reason, count in changed.refused.items():
        out().print(f"  {count:,} left unchanged: {reason}")


def _cancel_one(operation: str, *, json: bool) -> None:
    operation_id = read_operation_id(operation)
    with write_database() as connection:
        cancel_or_refuse(connection, operation_id)
        shown = fetch_shown_operation(connection, operation_id)
    _print_outcome(shown, Change.CANCEL, json=json)
    if shown.is_claimed:
        print_note("Its worker stops at its next progress point.")


def _retry_one(operation: str, from_step: str | None, *, json: bool) -> None:
    operation_id = read_operation_id(operation)
    with write_database() as connection:
        retry_or_refuse(connection, operation_id, from_step=from_step)
        shown = fetch_shown_operation(connection, operation_id)
    _print_outcome(shown, Change.RETRY, json=json)
    if shown.is_claimed:
        print_note("It waits until the worker that ran it has stopped.")


def _print_outcome(shown: ShownOperation, change: Change, *, json: bool) -> None:
    if json:
        print_json(shown)
    else:
        out().print(f"{_DONE[change]} {shown.id}")
