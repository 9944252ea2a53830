"""``restored``: after a backup was put back, see to it that nothing runs twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import sqlalchemy as sa
import typer

from actions.after_restore import (
    decide_as_missed,
    fetch_living,
    get_last_beat_at,
    lock_lease,
    start_anew,
    void_lease,
)
from actions.leader import get_holder
from cli.connection import get_actor, get_settings
from cli.options import JsonOption, read_instant
from cli.output import (
    format_both,
    out,
    print_fields,
    print_json,
    print_note,
    print_table,
)
from migrations.revisions import check_schema
from models.database.engine import make_engine, read_clock, writing
from models.errors import ConflictError, UsageError
from models.fields.instants import format_instant
from models.operation_state import Reason
from operations.after_restore import (
    LostFile,
    count_held,
    find_lost_files,
    get_last_recorded_at,
    settle_live,
)
from operations.record import record
from overview.words import format_age

#: Nobody else is at it, and all of it is one transaction.
_DEADLINE = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class _Report:
    """What was changed, or would be."""

    as_of: datetime
    now: datetime
    canceled: Mapping[str, int]
    uncertain_mails: int
    missed_actions: int
    missed_occurrences: int
    restarted_actions: int
    lost_files: list[LostFile]


def restored(
    *,
    as_of: Annotated[
        str,
        typer.Option("--as-of", metavar="TIME", help="When the backup was made."),
    ],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would change; change nothing.")
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Run nothing twice after a backup was put back.

    Before any scheduler or worker is started. What was live is canceled, for an
    operator to decide; what was due since is recorded as missed.
    """
    instant = read_instant("--as-of", as_of)
    settings = get_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    check_schema(engine)
    _refuse_leader(engine)
    engine.dispose()
    # Connecting is bounded by the driver; the statements may take their time.
    patient = make_engine(settings.database_url, timeout=_DEADLINE)
    with writing(patient) as connection:
        lock_lease(connection)
        _refuse_life(connection)
        now = read_clock(connection)
        _check_instant(connection, instant, now)
        outer = connection.begin_nested()
        report = _settle(connection, instant, now, settings.workspace)
        if dry_run:
            outer.rollback()
        else:
            outer.commit()
    patient.dispose()
    if json:
        print_json(_make_json(report, dry_run=dry_run))
    else:
        _print(report, dry_run=dry_run)


def _refuse_leader(engine: sa.Engine) -> None:
    holder = get_holder(engine)
    if holder is None or holder.is_stale:
        return
    msg = (
        f"{holder.hostname} (pid {holder.pid}) leads, its heartbeat is "
        f"{format_age(holder.heartbeat_age)} old. Stop all schedulers and workers "
        f"first. If it is dead, its lease ends at {format_instant(holder.expires_at)}."
    )
    raise ConflictError(msg)


def _refuse_life(connection: sa.Connection) -> None:
    """Refuse while a worker or a standby may go on with what is settled here."""
    living = fetch_living(connection)
    if living:
        others = f" and {len(living) - 1} more" if len(living) > 1 else ""
        msg = (
            f"{living[0]}{others} lived less than a minute ago. Stop all schedulers "
            "and workers first. If they are dead, try again in a minute."
        )
        raise ConflictError(msg)
    held = count_held(connection)
    if held:
        msg = (
            f"a worker runs {held} operations. Stop all workers first. If they are "
            "dead, their leases end within a minute (MINUTEHAND_OPERATION_LEASE)."
        )
        raise ConflictError(msg)


def _check_instant(connection: sa.Connection, instant: datetime, now: datetime) -> None:
    """Refuse a time at which the backup cannot have been made."""
    if instant > now:
        msg = f"--as-of: {format_instant(instant)} is later than now."
        raise UsageError(msg)
    signs = [get_last_beat_at(connection), get_last_recorded_at(connection)]
    last = max((at for at in signs if at is not None), default=None)
    if last is not None and last > instant:
        msg = (
            f"--as-of: the database knows of {last:%F %T.%f}Z, which is later. Name "
            "the time at which the backup was made. If the installation has run since "
            "it was put back, it is too late for this command: see docs/backup.md."
        )
        raise UsageError(msg)


def _settle(
    connection: sa.Connection, as_of: datetime, now: datetime, workspace: Path
) -> _Report:
    stamp = format_instant(as_of)
    reason = f"{Reason.RESTORED}: as of {stamp}"
    settled = settle_live(
        connection,
        reason=reason,
        error=f"the database was restored as of {stamp}: this may have run since, and "
        "its mails may have left, also those without a mark. Find out, then run it: "
        "minutehand operations retry; or leave it",
    )
    missed = decide_as_missed(connection, now=now, reason=reason)
    for start in range(0, len(missed), 500):
        record(connection, missed[start : start + 500])
    restarted = start_anew(connection, as_of=as_of, now=now, by=get_actor())
    void_lease(connection)
    return _Report(
        as_of=as_of,
        now=now,
        canceled=settled.operations,
        uncertain_mails=settled.mails,
        missed_actions=len({row.action_uid for row in missed}),
        missed_occurrences=sum(_count(row.details) for row in missed),
        restarted_actions=restarted,
        lost_files=find_lost_files(connection, workspace),
    )


def _count(details: Mapping[str, object] | None) -> int:
    count = (details or {}).get("count", 1)
    assert isinstance(count, int)  # as make_missed wrote it
    return count


def _make_json(report: _Report, *, dry_run: bool) -> dict[str, object]:
    return {
        "as_of": report.as_of,
        "now": report.now,
        "dry_run": dry_run,
        "canceled": dict(report.canceled),
        "uncertain_mails": report.uncertain_mails,
        "missed_actions": report.missed_actions,
        "missed_occurrences": report.missed_occurrences,
        "restarted_actions": report.restarted_actions,
        "lost_files": [
            {"app": f.app, "domain": f.domain, "use": f.use, "version": f.version}
            for f in report.lost_files
        ],
    }


def _print(report: _Report, *, dry_run: bool) -> None:
    heading = "Would be changed" if dry_run else "Restored"
    out().print(
        f"{heading}: from {format_both(report.as_of)} to {format_both(report.now)}"
    )
    missed = f"{report.missed_occurrences:,} occurrences"
    states = ", ".join(f"{count} {state}" for state, count in report.canceled.items())
    total = sum(report.canceled.values())
    print_fields(
        [
            ("canceled", f"{total:,} operations" + (f" ({states})" if states else "")),
            ("uncertain", f"{report.uncertain_mails:,} mails"),
            ("missed", f"{missed} of {report.missed_actions:,} actions"),
            ("start anew", f"{report.restarted_actions:,} actions"),
        ]
    )
    if report.lost_files:
        out().print("Data whose files are gone; refresh and publish it:")
        print_table(
            ("app", "domain", "version", "use"),
            ([f.app, f.domain, str(f.version), f.use] for f in report.lost_files),
            empty="",
        )
    if dry_run:
        return
    if total or report.missed_actions:
        print_note(
            "What may have run, and may not: minutehand operations list --state "
            "canceled, and --state missed. Decide, then: minutehand operations retry "
            "ID, minutehand actions run ACTION."
        )
    print_note("Schedulers and workers may start now.")
