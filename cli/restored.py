"""``restored``: makes sure that nothing runs twice after a backup was restored."""

from __future__ import annotations

from typing import Annotated

from cli.connection import get_actor, get_settings
from cli.options import flag, option, read_instant, takes_json
from cli.output import err, format_both, out
from dispatch.after_restore import DEADLINE, Restored, refuse_leader, settle_restored
from migrations.schema_revisions import check_schema
from models.database.engine import make_engine
from models.units import format_count, list_counts


@takes_json
def restored(
    *,
    as_of: Annotated[str, option("--as-of TIME", "When the backup was made.")],
    dry_run: bool = flag("--dry-run", "Only show what would change; change nothing."),
) -> None:
    """
    Make sure that nothing runs twice after a backup was restored.

    Call it before you start any scheduler or worker. Operations that were live in the
    backup are canceled; an operator decides about them. Occurrences that came due since
    the backup are recorded as missed.
    """
    instant = read_instant("--as-of", as_of)
    settings = get_settings()
    engine = make_engine(settings.database_url, timeout=settings.database_timeout)
    check_schema(engine)
    refuse_leader(engine)
    engine.dispose()
    # Connecting keeps its usual deadline; the statements may take much longer.
    patient = make_engine(settings.database_url, timeout=DEADLINE)
    report = settle_restored(
        patient,
        as_of=instant,
        workspace=settings.workspace,
        by=get_actor(),
        dry_run=dry_run,
    )
    patient.dispose()
    if not out().gave_json(report):
        _print(report)


def _print(report: Restored) -> None:
    heading = "Would settle" if report.dry_run else "Settled"
    begin, end = format_both(report.as_of), format_both(report.now)
    out().say(f"{heading} the time from {begin} (the backup) to {end} (now):")
    missed = format_count(report.missed_occurrences, "occurrence", "occurrences")
    actions = format_count(report.missed_actions, "action", "actions")
    again = format_count(report.restarted_actions, "action", "actions")
    states = list_counts(report.canceled)
    total = sum(report.canceled.values())
    canceled = format_count(total, "operation", "operations")
    out().fields(
        [
            ("canceled", canceled + (f" ({states})" if states else "")),
            ("uncertain", format_count(report.uncertain_mails, "mail", "mails")),
            ("missed", f"{missed} of {actions}"),
            ("restarted", again),
        ]
    )
    if report.lost_files:
        out().say("The files of these data are gone. Refresh and publish them again:")
        out().table(
            report.lost_files,
            lambda f: {
                "app": f.app,
                "domain": f.domain,
                "version": str(f.version),
                "use": f.use,
            },
        )
    if report.dry_run:
        return
    if total or report.missed_actions:
        err().say(
            "Some of these may have run after the backup was made. List them: "
            "minutehand operations list --state canceled, and --state missed. To run "
            "one again: minutehand operations retry ID, or minutehand actions run "
            "ACTION."
        )
    err().say("You may start schedulers and workers now.")
