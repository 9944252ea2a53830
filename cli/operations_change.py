"""``operations cancel`` and ``retry``: one operation by its id, or many by filters."""

from __future__ import annotations

from contextlib import suppress
from typing import Annotated
from uuid import UUID

import structlog
import typer

from cli.connection import ask_database, change_database, use_engine, write_database
from cli.operations import takes_filter
from cli.options import (
    AllOption,
    ChangeTerms,
    OptionalOperation,
    confirm_change_of_many,
    option,
    read_operation_id,
    takes_json,
    takes_terms,
)
from cli.output import err, out
from dispatch.bulk.requests import (
    ShownBulk,
    cancel_bulk,
    count_bulk,
    fetch_shown_bulk,
    start_bulk,
)
from dispatch.bulk.runner import BulkRunner
from models.errors import ConflictError, UsageError
from models.requests.bulk_changes import BulkChangeModel, BulkKind
from models.requests.operations import OperationFilterModel
from models.units import format_count, list_counts
from operations.cancel_and_retry import (
    CHANGEABLE,
    OperationChange,
    cancel_or_refuse,
    retry_or_refuse,
)
from operations.selecting import Counted
from overview.operations import fetch_shown_operation

_FromStepOption = Annotated[
    str | None,
    option(
        "--from-step STEP", "Of one operation: run this step and all after it again."
    ),
]
#: How many small apps are named with their counts.
_APPS_SHOWN = 5

#: The question before each change, and the report after it.
_QUESTIONS = {OperationChange.CANCEL: "Cancel", OperationChange.RETRY: "Run again"}
_DONE = {
    OperationChange.CANCEL: "Canceled",
    OperationChange.RETRY: "Will run again soon:",
}


@takes_json
@takes_filter
@takes_terms
def cancel_operations(
    operation: OptionalOperation = None,
    *,
    wanted: OperationFilterModel,
    everything: AllOption = False,
    terms: ChangeTerms,
) -> None:
    """
    Cancel one operation that is not final, or many.

    If the operation is running, its worker stops at its next progress point. Before
    many are canceled, they are counted and the command asks.
    """
    _refuse_unclear(OperationChange.CANCEL, operation, wanted, everything, terms)
    if operation is None:
        _change_many(OperationChange.CANCEL, wanted, terms)
    else:
        _change_one(OperationChange.CANCEL, operation)


@takes_json
@takes_filter
@takes_terms
def retry_operations(
    operation: OptionalOperation = None,
    *,
    wanted: OperationFilterModel,
    from_step: _FromStepOption = None,
    everything: AllOption = False,
    terms: ChangeTerms,
) -> None:
    """
    Run one failed or canceled operation again, or many.

    Steps that succeeded are not repeated, unless --from-step names one. Nobody gets a
    mail twice. Exits with 5 if another run of the action is under way and its overlap
    is skip. Before many are retried, they are counted and the command asks.
    """
    if operation is None and from_step is not None:
        raise UsageError("--from-step needs the ID of one operation.")
    _refuse_unclear(OperationChange.RETRY, operation, wanted, everything, terms)
    if operation is None:
        _change_many(OperationChange.RETRY, wanted, terms)
    else:
        _change_one(OperationChange.RETRY, operation, from_step)


def _refuse_unclear(
    change: OperationChange,
    operation: str | None,
    wanted: OperationFilterModel,
    everything: bool,  # noqa: FBT001 - as the options of the command
    terms: ChangeTerms,
) -> None:
    """Refuse a call that does not name either one operation, or many."""
    has_filters = wanted != OperationFilterModel()
    if operation is not None:
        if has_filters or everything or terms.dry_run:
            msg = "Name either the ID of one operation, or filters for many; not both."
            raise UsageError(msg)
    elif has_filters and everything:
        msg = "--all cannot be combined with filters. Leave out one or the other."
        raise UsageError(msg)
    elif not (has_filters or everything):
        raise UsageError(
            f"Name the operations to {change}: an ID, filters such as --app and"
            " --state, or --all for all of them."
        )


def _change_many(
    change: OperationChange, wanted: OperationFilterModel, terms: ChangeTerms
) -> None:
    asked = BulkChangeModel(kind=BulkKind(change.value), filter=wanted, dry_run=True)
    counted = ask_database(count_bulk, asked)
    if terms.dry_run or not counted.total:
        _print_counted(change, counted, None, terms)
        return
    if not terms.yes:
        err().say(_describe(counted))
    many = format_count(counted.total, "operation", "operations")
    confirm_change_of_many(f"{_QUESTIONS[change]} {many}", yes=terms.yes)
    changed = _finish(change_database(start_bulk, asked, at=counted.at))
    _print_counted(change, counted, changed, terms)
    if changed.refused and not changed.done:
        raise typer.Exit(ConflictError.exit_code)


def _finish(bulk_id: UUID) -> ShownBulk:
    """Do what was started, here and now; who interrupts the command stops it."""
    # The report tells it: no log between the question and the answer.
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    with use_engine() as engine:
        try:
            BulkRunner(engine).finish(bulk_id)
        except KeyboardInterrupt:
            with suppress(ConflictError), write_database() as connection:
                cancel_bulk(connection, bulk_id)
            raise
    changed = ask_database(fetch_shown_bulk, bulk_id)
    if changed.error is not None:
        raise ConflictError(changed.error)
    return changed


def _describe(counted: Counted) -> str:
    states = list_counts(counted.by_state)
    named = list(counted.by_app.items())
    apps = ", ".join(f"{app} {count:,}" for app, count in named[:_APPS_SHOWN])
    more = len(named) - _APPS_SHOWN
    return f"{states}; by app: {apps}{f' and {more:,} more' if more > 0 else ''}."


def _print_counted(
    change: OperationChange,
    counted: Counted,
    changed: ShownBulk | None,
    terms: ChangeTerms,
) -> None:
    told = {
        "matched": counted.total,
        "by_state": counted.by_state,
        "by_app": counted.by_app,
        "changed": 0 if changed is None else changed.done,
        "refused": {} if changed is None else changed.refused,
        "dry_run": terms.dry_run,
    }
    if out().gave_json(told):
        return
    if not counted.total:
        fit = ", ".join(sorted(CHANGEABLE[change]))
        out().say(f"No operation matches; {change} applies only to {fit} ones.")
        return
    if changed is None:
        out().say(f"Matched {counted.total:,}: {_describe(counted)}")
        return
    out().say(f"{_DONE[change]} {changed.done:,} of {counted.total:,}.")
    for reason, count in changed.refused.items():
        out().say(f"  {count:,} left unchanged: {reason}")


def _change_one(
    change: OperationChange, operation: str, from_step: str | None = None
) -> None:
    operation_id = read_operation_id(operation)
    with write_database() as connection:
        if change is OperationChange.CANCEL:
            cancel_or_refuse(connection, operation_id)
        else:
            retry_or_refuse(connection, operation_id, from_step=from_step)
        shown = fetch_shown_operation(connection, operation_id)
    if not out().gave_json(shown):
        out().say(f"{_DONE[change]} {shown.id}")
    if shown.is_claimed:
        err().say(_CLAIMED[change])


#: What is told of one that a worker still has.
_CLAIMED = {
    OperationChange.CANCEL: "Its worker stops at its next progress point.",
    OperationChange.RETRY: "It waits until the worker that ran it has stopped.",
}
