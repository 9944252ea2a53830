"""The commands ``operations list|show``, and which operations a command is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Annotated, Any
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from cli.connection import ask_database, read_database
from cli.options import (
    ActionOption,
    AppOption,
    LimitOption,
    OccurrencesFromOption,
    OccurrencesUntilOption,
    OperationArgument,
    QueueOption,
    ReasonOption,
    StatesOption,
    option,
    read_operation_id,
    read_options,
    read_period,
    shorten,
    takes,
    takes_json,
)
from cli.output import format_both, make_table, out, style_state
from dispatch.operation_filters import resolve_filter
from models.decision import get_action_name
from models.fields.zone import load_zone
from models.operation_state import (
    LIVE_STATES,
    OperationState,
    Reason,
    StepState,
    Trigger,
)
from models.requests.operations import OperationFilterModel
from models.units import format_age
from operations.following import FollowingRun
from operations.reasons import STATES, read_reason
from overview.operations import (
    ShownOperation,
    ShownStep,
    describe_result,
    fetch_shown_operation,
    fetch_shown_operations,
)

#: By the names of ``OperationFilterModel``, in the order of the help.
_OPTIONS: Mapping[str, Any] = {
    "app": AppOption,
    "action": ActionOption,
    "state": StatesOption,
    "queue": QueueOption,
    "trigger": Annotated[
        Trigger | None, option("--trigger", "Only operations that this caused.")
    ],
    "reason": ReasonOption,
    "text": Annotated[
        str | None,
        option(
            "--text",
            "Only operations with this text in what triggered them, the uid of"
            " their action, their user, reason or error; or with this id.",
        ),
    ],
    "since": OccurrencesFromOption,
    "until": OccurrencesUntilOption,
}


def _make_filter(**given: Any) -> OperationFilterModel:
    given["since"], given["until"] = read_period(given["since"], given["until"])
    return read_options(OperationFilterModel, **given)


#: Gives a command, which takes ``wanted``, the options that this is made of.
takes_filter = takes("wanted", _make_filter, _OPTIONS)

#: Width of a progress bar, in characters.
_BAR = 16

_MINUTE = timedelta(minutes=1)


def format_progress(progress: Mapping[str, Any] | None) -> str:
    """Return how far a step has come, such as ``2/3 countries``, with a bar."""
    if not progress or not progress.get("total"):
        return ""
    done, total = progress["done"], progress["total"]
    filled = round(_BAR * done / total)
    bar = "━" * filled + "╌" * (_BAR - filled)
    return f"{bar} {done}/{total} {progress.get('note') or ''}".rstrip()


def make_steps_table(steps: Sequence[ShownStep], zone: ZoneInfo) -> Table:
    """Return *steps* as a table, whose times are those of *zone*."""
    table = make_table(("step", "state", "attempt", "started", "took", "what"))
    for step in steps:
        what = step.error or describe_result(step.result)
        if step.state is not StepState.SUCCEEDED:
            told = (format_progress(step.progress), _describe_eta(step, zone), what)
            what = "; ".join(each for each in told if each)
        table.add_row(
            step.name,
            style_state(step.state),
            str(step.attempt or "-"),
            format_both(step.started_at, zone),
            format_took(step.took),
            Text(what, style="red" if step.error else ""),
        )
    return table


def _describe_eta(step: ShownStep, zone: ZoneInfo) -> str:
    if step.eta is None or step.usual is None:
        return ""
    usual = step.usual.took
    took = f"{usual.total_seconds():.1f} s" if usual < _MINUTE else format_age(usual)
    return f"usually takes {took}, so should end about {format_both(step.eta, zone)}"


def format_took(took: timedelta | None) -> str:
    """Return a duration in seconds; a dash if it has not begun or still runs."""
    return "-" if took is None else f"{took.total_seconds():.1f} s"


@takes_json
@takes_filter
def list_operations(wanted: OperationFilterModel, *, limit: LimitOption = 50) -> None:
    """
    List operations.

    The latest comes first. TIME is now, today, -1h or 2026-11-23T06:00Z.
    """
    with read_database() as connection:
        found = fetch_shown_operations(
            connection,
            resolve_filter(connection, wanted),
            limit=limit,
            in_full=out().wants_json,
        )
    out().listed(
        found,
        lambda each: {
            "id": shorten(each.id),
            "app": each.app,
            "what": get_action_name(each.triggered_by),
            "occurrence": format_both(each.occurrence, load_zone(each.zone)),
            "queue": each.queue,
            "state": style_state(each.state),
            "took": format_took(each.took),
            "reason": _describe_reason(each),
        },
        empty="No operations.",
        spare=("took", "queue", "app"),
    )


@takes_json
def show_operation(operation: OperationArgument) -> None:
    """
    Show an operation.

    The id of an operation is also its Celery task id.
    """
    shown = ask_database(fetch_shown_operation, read_operation_id(operation))
    out().found(shown, print_operation)


def print_operation(shown: ShownOperation) -> None:
    """Print *shown* for people."""
    zone = load_zone(shown.zone)
    out().fields(
        [
            ("id", str(shown.id)),
            ("what", get_action_name(shown.triggered_by)),
            ("action", f"{shown.action_uid} (revision {shown.action_revision})"),
            ("app", shown.app),
            ("user", shown.user_id),
            ("trigger", shown.trigger),
            ("after", shown.after),
            ("then", "\n".join(map(_tell_following, shown.followed_by)) or None),
            ("occurrence", format_both(shown.occurrence, zone)),
            ("state", _explain_state(shown.state)),
            ("reason", _explain_reason(shown)),
            ("why", _tell_why(shown)),
            ("missed", _describe_missed(shown)),
            ("queue", shown.queue),
            ("attempt", f"{shown.attempt} of {shown.attempts_allowed}"),
            ("recorded", format_both(shown.recorded_at, zone)),
            ("sent", format_both(shown.sent_at, zone)),
            ("started", format_both(shown.started_at, zone)),
            ("finished", format_both(shown.finished_at, zone)),
            ("expected", shown.told_late),
            ("took", format_took(shown.took)),
            ("worker", shown.worker),
            ("error", shown.error),
        ]
    )
    if shown.steps:
        out().print()
        out().print(make_steps_table(shown.steps, zone))


def _tell_why(shown: ShownOperation) -> str | None:
    """Return until when it waits, and for what; an end is told by its error."""
    return None if shown.told is None or shown.is_final else shown.told.text


def _tell_following(run: FollowingRun) -> str:
    return f"{run.action_name}: {run.state} (operation {run.operation})"


def _explain_state(state: OperationState) -> Text:
    """Return a state, and below it, while the operation is live, what that means."""
    text = style_state(state)
    if state in LIVE_STATES:
        return Text.assemble(text, f"\n{STATES[state]}")
    return text


def _explain_reason(shown: ShownOperation) -> str | None:
    """Return the reason of an operation, and below it what that reason means."""
    text = shown.reason
    if text is None:
        return None
    read = read_reason(text)
    if read.reason is None:
        return text
    meaning = read.meaning
    if read.reason is Reason.STEP_FAILED and shown.state == OperationState.FAILED:
        meaning = "a step failed; no other attempt will follow"
    return f"{text}\n{meaning}"


def _describe_reason(shown: ShownOperation) -> str:
    """Return the reason of an operation, and the range that a missed row covers."""
    return ": ".join(each for each in (shown.reason, _describe_missed(shown)) if each)


def _describe_missed(shown: ShownOperation) -> str | None:
    """Return how many occurrences a missed row covers, and the first and last."""
    missed, zone = shown.missed, load_zone(shown.zone)
    if missed is None:
        return None
    if missed.first == missed.last:
        return None  # it is the occurrence of the row
    more = " or more" if missed.is_more else ""
    first, last = format_both(missed.first, zone), format_both(missed.last, zone)
    return f"{missed.count:,}{more}, from {first} to {last}"
