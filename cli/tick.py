"""``tick``: one tick by hand, now or as if it were another time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated

import structlog
import typer

from actions.decide import decide_time
from actions.leader import get_send_failure
from actions.maintenance_action import (
    MAINTENANCE_UID,
    ensure_maintenance,
    foresee_maintenance,
)
from actions.tick import Bad, Dispatched, TickReport, run_tick
from actions.wording.sentences import describe
from cli.connection import get_engine, get_settings, read_database
from cli.options import JsonOption, read_optional_instant
from cli.output import (
    format_both,
    out,
    print_json,
    print_note,
    print_table,
    style_state,
)
from dispatch.leading import describe_holder
from dispatch.upkeep import end_due_pauses
from migrations.revisions import check_schema
from models.database.engine import read_clock, reading
from models.decision import Decision, NewOperation
from models.errors import BrokerUnreachableError, ConflictError
from models.operation_state import OperationState
from operations.listing import count_backlog
from scheduler_server import PAUSE_S, Scheduler, make_scheduler
from telemetry import configure_logging


def tick(
    *,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="TIME", help="Tick as if it were this instant."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what is due; change nothing.")
    ] = False,
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="Exit with code 5 if another scheduler leads."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Take the lease, tick once, and leave.

    Everything due by TIME (2026-11-23T06:00:00Z) is recorded, and all that waits is
    sent, as the scheduler would: manual runs too, and what lost its worker or its
    message. What is recorded once is never recorded again.
    """
    instant = read_optional_instant("--at", at)
    if dry_run:
        _show(instant, json=json)
        return
    settings = get_settings()
    embedded = settings.broker_url.startswith("memory")
    configure_logging(
        level="error" if embedded else "warning", log_format=settings.log_format
    )
    get_engine()  # makes an embedded database that is missing
    scheduler = make_scheduler(settings)
    if embedded:
        scheduler.dispatcher.hold_back()
    _lead(scheduler, wait=not no_wait)
    try:
        # of the scheduler's own, which each start of it looks after
        ensure_maintenance(
            scheduler.engine,
            at=settings.maintenance_at,
            timezone=settings.timezone,
            enabled=settings.maintenance_enabled,
            check=scheduler.leader.check,
        )
        _warn_of_future(instant)
        report = _tick(scheduler, instant)
        # Whether or not anything was due: what waits waits for this.
        sent = report.sent + scheduler.dispatcher.send_waiting()
        rescued = scheduler.dispatcher.rescue()
        noticed = scheduler.noticer.look()
        sent += scheduler.dispatcher.send_waiting() if rescued or noticed else 0
    finally:
        scheduler.stop()
    _print(report, rescued=rescued, sent=sent, json=json)
    if embedded:
        _tell_of_waiting()
    else:
        _refuse_failure(scheduler)


def _print(report: TickReport, *, rescued: int, sent: int, json: bool) -> None:
    if json:
        print_json(
            {
                "at": report.now,
                "due": report.due,
                "recorded": report.recorded,
                "rescued": rescued,
                "sent": sent,
                "quarantined": [action.uid for action, _ in report.quarantined],
            }
        )
        return
    again = f"{rescued} rescued, " if rescued else ""
    out().print(
        f"Ticked at {format_both(report.now)}: {report.due} actions due, "
        f"{report.recorded} operations recorded, {again}{sent} sent."
    )
    for action, reason in report.quarantined:
        print_note(f"Quarantined {action.uid}: {reason}")


def _tell_of_waiting() -> None:
    """Say how many operations wait for the one process that has broker and workers."""
    with read_database() as connection:
        backlog = count_backlog(connection)
    count = sum(
        n for (_, state), n in backlog.items() if state == OperationState.PENDING
    )
    if count:
        waits = "operation waits" if count == 1 else "operations wait"
        print_note(f"{count:,} {waits} for minutehand up: the broker is memory://.")


def _refuse_failure(scheduler: Scheduler) -> None:
    """
    Tell whoever called that the broker took nothing; what waits still waits.

    Raises:
        BrokerUnreachableError: It was so, with what the broker said.
    """
    with reading(scheduler.engine) as connection:
        failure = get_send_failure(connection)
    if failure is not None:
        raise BrokerUnreachableError(failure.error)


def _lead(scheduler: Scheduler, *, wait: bool) -> None:
    """Take the lease, waiting for it if need be."""
    told = False
    while not scheduler.leader.hold():
        holder = describe_holder(scheduler.engine)
        if not wait:
            raise ConflictError(holder)
        if not told:
            print_note(f"Waiting for the lease: {holder}")
            told = True
        time.sleep(PAUSE_S)


def _warn_of_future(instant: datetime | None) -> None:
    if instant is None:
        return
    with read_database() as connection:
        now = read_clock(connection)
    if instant > now:
        print_note(
            f"{format_both(instant)} is later than now, {format_both(now)}. What is "
            "due by then is decided now, so nothing will be due again before then."
        )


def _tick(scheduler: Scheduler, instant: datetime | None) -> TickReport:
    dispatcher = scheduler.dispatcher
    if instant is None:
        with reading(scheduler.engine) as connection:
            instant = read_clock(connection)
        return scheduler.tick(instant)
    end_due_pauses(scheduler.engine, scheduler.leader, now=instant)
    # Of another time: the clock of the scheduler, which notices jumps, stays out.
    return run_tick(
        instant,
        engine=scheduler.engine,
        dispatch=dispatcher.dispatch,
        lookback=scheduler.settings.lookback,
        chunk=scheduler.settings.chunk,
    )


def _show(instant: datetime | None, *, json: bool) -> None:
    """Decide what is due, and show it instead of recording it."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
    check_schema(get_engine())
    if instant is None:
        with read_database() as connection:
            instant = read_clock(connection)
    found = _foresee(instant)
    if json:
        print_json([_make_json(each) for each in found])
        return
    print_table(
        ("id", "app", "what", "occurrence", "user", "queue", "would be"),
        (
            [
                str(each.id),
                each.app,
                each.triggered_by,
                format_both(each.occurrence),
                each.user_id or "-",
                each.queue,
                style_state(each.state),
            ]
            for each in found
        ),
        empty=f"Nothing is due by {format_both(instant)}.",
    )


def _foresee(instant: datetime) -> list[NewOperation]:
    """Return what a tick of *instant* would record, and tell what else it would do."""
    engine, settings = get_engine(), get_settings()
    maintenance = foresee_maintenance(
        engine,
        by=instant,
        at=settings.maintenance_at,
        timezone=settings.timezone,
        enabled=settings.maintenance_enabled,
    )
    found: list[NewOperation] = []

    def keep(decisions: Sequence[Decision], bad: Sequence[Bad] = ()) -> Dispatched:
        found.extend(
            each
            for made in decisions
            # What is stored of it gives way first.
            if maintenance is None or made.action_uid != MAINTENANCE_UID
            for each in made.operations
        )
        for action, reason in bad:
            print_note(f"Would be quarantined: {action.uid}: {reason}")
        return Dispatched(0, 0)

    run_tick(
        instant,
        engine=engine,
        dispatch=keep,
        lookback=settings.lookback,
        chunk=settings.chunk,
    )
    if maintenance is not None:
        verb = "post" if maintenance.created else "replace"
        in_words = describe(maintenance.action)
        print_note(f"Would {verb} {MAINTENANCE_UID}: {in_words}")
        for action in maintenance.due:
            made = decide_time(action, now=instant, lookback=settings.lookback, memo={})
            found.extend(made.operations)
    return found


def _make_json(each: NewOperation) -> dict[str, object]:
    return {
        "id": each.id,
        "action_uid": each.action_uid,
        "app": each.app,
        "occurrence": each.occurrence,
        "user": each.user_id,
        "trigger": each.trigger,
        "queue": each.queue,
        "state": each.state,
        "reason": each.reason,
        "details": each.details,
    }
