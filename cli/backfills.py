"""``actions backfill``, and ``backfills list``, ``show`` and ``cancel``."""

from __future__ import annotations

from functools import partial
from typing import Annotated
from zoneinfo import ZoneInfo

from actions.lease import fetch_leader
from actions.lookup import find_action, find_filtered
from actions.read_rules import fetch_named, find_zone
from cli.connection import get_settings, read_database, write_database
from cli.options import (
    ActionArgument,
    ActionOption,
    AppOption,
    ChangeTerms,
    argument,
    confirm_change_of_many,
    option,
    read_options,
    read_period,
    shorten,
    takes,
    takes_json,
    takes_terms,
    value,
)
from cli.output import err, format_both, out, style_state
from dispatch.backfills.planning import Plan, plan_backfill
from dispatch.backfills.requests import (
    ShownBackfill,
    cancel_backfill,
    fetch_backfilled_occurrences,
    fetch_shown_backfill,
    fetch_shown_backfills,
    find_backfill_id,
    start_backfill,
)
from models.json_form import get_members
from models.paging import Page
from models.requests.actions import DEFAULT_AT_ONCE, BackfillModel, Which
from models.units import format_count, list_counts

#: The most occurrences that people are shown; ``--json`` has all.
_SHOWN = 20

_BackfillArgument = Annotated[
    str, argument("ID", "Id of a backfill, or its first digits.")
]


def _read_asked(
    *,
    from_: Annotated[str, option("--from TIME", "Occurrences at or after this.")],
    until: str | None = value("--until TIME", "Occurrences before this; default: now."),
    which: Which = value(
        "--which",
        "Those that never ran (missing), those that failed, or all.",
        default=Which.MISSING,
    ),
    at_once: int = value(
        "--at-once N", "How many may be live at a time.", default=DEFAULT_AT_ONCE
    ),
    note: Annotated[str | None, option("--note TEXT", "Why; kept with it.")] = None,
) -> BackfillModel:
    since, end = read_period(from_, until)
    return read_options(
        BackfillModel,
        since=since,
        until=end,
        which=which,
        at_once=at_once,
        note=note or None,
    )


@takes_json
@takes("asked", _read_asked)
@takes_terms
def backfill(
    action: ActionArgument,
    asked: BackfillModel,
    *,
    app: AppOption = None,
    terms: ChangeTerms,
) -> None:
    """
    Run past occurrences of an action after all.

    They are listed first, and the command asks. What succeeded, or is under way, never
    runs again. The scheduler records a few at a time, when nothing else waits.
    """
    retention = get_settings().retention
    with read_database() as connection:
        row = find_action(connection, action, app=app)
        uid, zone = row.uid, find_zone(row)
        plan = plan_backfill(connection, uid, asked, retention=retention)
    if terms.dry_run or not plan.total:
        out().found(plan, partial(_print_plan, zone=zone))
        return
    if not terms.yes:
        _print_plan(plan, zone)
    what = f"Run {_say_many(plan.total)} of {plan.action_name!r}"
    confirm_change_of_many(what, yes=terms.yes)
    with write_database() as connection:
        seen = {"until": plan.until, "expected_count": plan.total}
        backfill_id = start_backfill(
            connection, uid, asked.model_copy(update=seen), retention=retention
        )
        shown = fetch_shown_backfill(connection, backfill_id)
        leader = fetch_leader(connection)
    _print_started(shown, is_led=leader is not None)


def _print_started(shown: ShownBackfill, *, is_led: bool) -> None:
    if not out().gave_json(shown):
        out().say(f"Backfill {shown.id} of {_say_many(shown.total)}.")
        err().say(f"To follow it: minutehand backfills show {shown.id}")
    if not is_led:
        err().say(
            "No scheduler leads, so the backfill waits. Start one: minutehand"
            " scheduler, or minutehand up."
        )


def _say_many(count: int) -> str:
    return format_count(count, "occurrence", "occurrences")


def _print_plan(plan: Plan, zone: ZoneInfo) -> None:
    found = plan.occurrences
    out().table(
        found[:_SHOWN],
        lambda each: {
            "occurrence": format_both(each.occurrence, zone),
            "recorded": style_state(each.recorded),
            "reason": each.reason or "",
            "": "would run" if each.runs else "",
        },
    )
    if len(found) > _SHOWN:
        out().say(f"{len(found) - _SHOWN:,} more occurrences: see --json.")
    period = f"{format_both(plan.since, zone)} to {format_both(plan.until, zone)}"
    if not found:
        out().say(f"The rule is not due from {period}.")
        return
    of = f"of {len(found):,} ({list_counts(plan.by_recorded)})"
    out().say(f"{plan.total:,} {of} would run: {period}")


@takes_json
def list_backfills(
    *,
    app: AppOption = None,
    action: ActionOption = None,
    limit: Annotated[int, option("--limit", "The most to list.", min=1)] = 50,
) -> None:
    """List backfills, the latest first."""
    with read_database() as connection:
        uid = find_filtered(connection, app=app, action=action)
        found = fetch_shown_backfills(
            connection, Page(limit), app=app, action_uid=uid
        ).entries
        named = fetch_named(connection, {each.action_uid for each in found})
    out().listed(
        found,
        lambda each: {
            "id": shorten(each.id),
            "state": each.state,
            "action": named[each.action_uid][0],
            "occurrences": f"{each.total:,}",
            "which": each.which,
            "started": format_both(each.created_at, named[each.action_uid][1]),
            "by": each.requested_by,
        },
        empty="There is no backfill.",
        spare=("by", "which"),
    )


@takes_json
def show_backfill(backfill: _BackfillArgument) -> None:
    """
    Show a backfill and how far it is.

    With --json, all of its occurrences are in the answer.
    """
    with read_database() as connection:
        backfill_id = find_backfill_id(connection, backfill)
        shown = fetch_shown_backfill(connection, backfill_id)
        limit = max(1, shown.total) if out().wants_json else _SHOWN
        part = fetch_backfilled_occurrences(connection, backfill_id, Page(limit))
        named = fetch_named(connection, [shown.action_uid])
    name, zone = named[shown.action_uid]
    if out().gave_json({**get_members(shown), "occurrences": part.entries}):
        return
    _print_shown(shown, name, zone)
    out().table(
        part.entries,
        lambda each: {
            "occurrence": format_both(each.occurrence, zone),
            "what became of it": each.told,
            "id": shorten(each.operation_id),
        },
        apart=True,
    )
    if shown.total > len(part.entries):
        out().say(f"{shown.total - len(part.entries):,} more: see --json.")


def _print_shown(shown: ShownBackfill, name: str, zone: ZoneInfo) -> None:
    progress, started = shown.progress or {}, format_both(shown.created_at, zone)
    canceled = None
    if shown.canceled_at is not None:
        canceled = f"{format_both(shown.canceled_at, zone)} by {shown.canceled_by}"
    out().fields(
        [
            ("state", shown.state),
            ("action", f"{name} ({shown.app})"),
            ("from", format_both(shown.since, zone)),
            ("until", format_both(shown.until, zone)),
            ("which", shown.which),
            ("occurrences", f"{shown.total:,}, {shown.at_once} at once"),
            ("progress", list_counts(progress)),
            ("waits for", shown.waits_for),
            ("note", shown.note),
            ("started", f"{started} by {shown.requested_by}"),
            ("canceled", canceled),
            ("finished", format_both(shown.finished_at, zone)),
        ]
    )


@takes_json
def cancel(backfill: _BackfillArgument) -> None:
    """
    Cancel a backfill.

    No more of it is recorded, and what waits is canceled. What a worker has taken goes
    on: cancel that with operations cancel.
    """
    with write_database() as connection:
        backfill_id = find_backfill_id(connection, backfill)
        count = cancel_backfill(connection, backfill_id)
        shown = fetch_shown_backfill(connection, backfill_id)
    if out().gave_json(shown):
        return
    many = format_count(count, "waiting operation", "waiting operations")
    out().say(f"Canceled backfill {backfill_id}, and {many} of it.")
