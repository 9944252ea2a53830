"""``tick``: one tick by hand, at the present or at another instant."""

from __future__ import annotations

import time
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import structlog

from actions.lease import fetch_lookback, get_send_failure
from actions.own_actions import MAINTENANCE_UID, ensure_maintenance
from actions.previews.sentences import describe
from actions.read_rules import fetch_named
from actions.tick import TickReport, run_tick
from cli.connection import ask_database, get_engine, get_settings, read_database
from cli.options import flag, read_optional_instant, shorten, takes_json, value
from cli.output import err, format_both, out, style_state
from dispatch.backfills.progress import Backfiller
from dispatch.due_pauses import end_due_pauses
from dispatch.foresee import foresee_tick
from dispatch.leading import describe_holder
from dispatch.upkeep import do_all
from dispatch.watching import LateLook, Rester
from migrations.schema_revisions import check_schema
from models.database.engine import read_clock
from models.decision import get_action_name
from models.errors import BrokerUnreachableError, ConflictError
from models.operation_state import OperationState
from models.units import format_count
from operations.list_operations import count_backlog
from telemetry import configure_logging

if TYPE_CHECKING:
    from scheduler_server import Scheduler

#: Seconds between two attempts to take the lease.
_ASK_EVERY_S = 1.0


@takes_json
def tick(
    *,
    at: str | None = value("--at TIME", "Tick as if this were the present instant."),
    dry_run: bool = flag("--dry-run", "Only show what is due; change nothing."),
    no_wait: bool = flag("--no-wait", "Exit with code 5 if another scheduler leads."),
) -> None:
    """
    Take the lease, tick once and exit.

    Records everything that is due by TIME (2026-11-23T06:00:00Z). Then sends whatever
    is waiting, as the scheduler would, including manual runs and operations that lost
    their worker or their message. No occurrence is ever recorded twice.
    """
    instant = read_optional_instant("--at", at)
    if dry_run:
        _show(instant)
        return
    settings = get_settings()
    embedded = settings.is_embedded
    configure_logging(
        level="error" if embedded else "warning", log_format=settings.log_format
    )
    get_engine()  # creates the embedded database if it is missing
    # Celery takes a second to import, and --dry-run does without.
    scheduler = import_module("scheduler_server").Scheduler.make(settings)
    if embedded:
        scheduler.outbox.hold_back()
    _lead(scheduler, wait=not no_wait)
    try:
        # A scheduler does the same when it starts.
        ensure_maintenance(scheduler.engine, settings, check=scheduler.leader.check)
        _warn_of_future(instant)
        report = _tick(scheduler, instant)
        # Even if nothing was due: operations may be waiting for a scheduler.
        sent = report.sent + do_all(scheduler.dispatcher.send_waiting)
        rescued = do_all(scheduler.dispatcher.rescue)
        _watch(scheduler)
        sent += do_all(scheduler.dispatcher.send_waiting)
    finally:
        scheduler.stop()
    _print(report, rescued=rescued, sent=sent)
    if embedded:
        _report_waiting()
    else:
        _refuse_failure()


def _watch(scheduler: Scheduler) -> None:
    """Do what a scheduler does between two ticks, besides sending and rescuing."""
    leading = scheduler.engine, scheduler.leader
    for kind in (Rester, LateLook):
        do_all(kind(*leading, scheduler.noticer).look)
    do_all(scheduler.noticer.look)
    do_all(Backfiller(*leading).look)


def _print(report: TickReport, *, rescued: int, sent: int) -> None:
    told = {
        "at": report.now,
        "due": report.due,
        "recorded": report.recorded,
        "rescued": rescued,
        "sent": sent,
        "quarantined": [action.uid for action, _ in report.quarantined],
    }
    if out().gave_json(told):
        return
    actions = format_count(report.due, "action", "actions")
    operations = format_count(report.recorded, "operation", "operations")
    again = f"{rescued:,} rescued, " if rescued else ""
    out().say(
        f"Ticked at {format_both(report.now)}: {actions} due, "
        f"{operations} recorded, {again}{sent:,} sent."
    )
    if report.is_cut:
        err().say("The minute ended before all was decided: tick again.")
    if report.locked:
        left = format_count(report.locked, "action was", "actions were")
        err().say(
            f"{left} left out: another session keeps the rows locked. Tick again."
        )
    for action, reason in report.quarantined:
        err().say(f"Quarantined {action.uid}: {reason}")


def _report_waiting() -> None:
    """Say how many operations wait for ``minutehand up``, which has the broker."""
    backlog = ask_database(count_backlog)
    count = sum(
        n for (_, state), n in backlog.items() if state == OperationState.PENDING
    )
    if count:
        waits = format_count(count, "operation waits", "operations wait")
        err().say(
            f"{waits} for minutehand up: nothing can be sent from here, since"
            " the broker is memory://."
        )


def _refuse_failure() -> None:
    """
    Fail the call if the broker did not take what was sent; it goes on waiting.

    Raises:
        BrokerUnreachableError: With what the broker said.
    """
    failure = ask_database(get_send_failure)
    if failure is not None:
        raise BrokerUnreachableError(failure.error)


def _lead(scheduler: Scheduler, *, wait: bool) -> None:
    """Take the lease; wait for it if *wait*."""
    told = False
    while not scheduler.leader.hold():
        holder = describe_holder(scheduler.engine)
        if not wait:
            raise ConflictError(holder)
        if not told:
            err().say(f"Waiting for the lease: {holder}")
            told = True
        time.sleep(_ASK_EVERY_S)


def _warn_of_future(instant: datetime | None) -> None:
    if instant is None:
        return
    now = ask_database(read_clock)
    if instant > now:
        err().say(
            f"--at: {format_both(instant)} is in the future (now: {format_both(now)})."
            " Everything due by then is decided now and will not be due again."
        )


def _tick(scheduler: Scheduler, instant: datetime | None) -> TickReport:
    dispatcher = scheduler.dispatcher
    if instant is None:
        return scheduler.tick(ask_database(read_clock))
    leader, locked = scheduler.leader, dispatcher.locked
    do_all(partial(end_due_pauses, scheduler.engine, leader, locked, now=instant))
    # Not scheduler.tick: it would take another instant for a jump of the clock.
    return run_tick(
        instant,
        engine=scheduler.engine,
        dispatcher=dispatcher,
        lookback=ask_database(fetch_lookback, scheduler.settings.lookback, now=instant),
        chunk=scheduler.settings.chunk,
    )


def _show(instant: datetime | None) -> None:
    """Decide what is due, and show it instead of recording it."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    check_schema(get_engine())
    if instant is None:
        instant = ask_database(read_clock)
    settings = get_settings()
    foreseen = foresee_tick(
        get_engine(),
        settings,
        now=instant,
        lookback=ask_database(fetch_lookback, settings.lookback, now=instant),
        chunk=settings.chunk,
    )
    for action, reason in foreseen.quarantined:
        err().say(f"Would be quarantined: {action.uid}: {reason}")
    if foreseen.maintenance is not None:
        verb = "post" if foreseen.maintenance.created else "replace"
        in_words = describe(foreseen.maintenance.action)
        err().say(f"Would {verb} {MAINTENANCE_UID}: {in_words}")
    if out().gave_json(foreseen.as_json()):
        return
    with read_database() as connection:
        uids = {each.action_uid for each in foreseen.operations}
        named = fetch_named(connection, uids)
    out().table(
        foreseen.operations,
        lambda each: {
            "id": shorten(each.id),
            "app": each.app,
            "what": get_action_name(each.triggered_by),
            "occurrence": format_both(each.occurrence, named[each.action_uid][1]),
            "user": each.user_id or "-",
            "queue": each.queue,
            "would be": style_state(each.state),
        },
        spare=("queue", "user"),
        empty=f"Nothing is due by {format_both(instant)}.",
    )
