"""``audit``: compares recorded operations with an independent reading of the rules."""

from __future__ import annotations

from collections.abc import Sequence

import typer

from actions.explaining.audit import AuditFault
from actions.read_rules import fetch_named
from cli.connection import ask_database, get_settings, use_engine
from cli.options import AppOption, read_period, takes_json, value
from cli.output import err, format_both, out
from models.units import format_count
from overview.auditing import audit_all


@takes_json
def audit(
    *,
    since: str | None = value(
        "--from TIME", "Inclusive; default: a day before --until."
    ),
    until: str | None = value("--until TIME", "Exclusive; default: the last tick."),
    app: AppOption = None,
) -> None:
    """
    Compare the recorded operations with the rules.

    Cron rules are read with cronsim, not with the scheduler's own code. Lists each
    occurrence that is missing, extra, early, late or doubled, and each rule that is
    unreadable; exits with 1 if there are any. Operations that maintenance has pruned
    are reported as missing.
    """
    begin, end = read_period(since, until)
    lookback = get_settings().lookback
    with use_engine() as engine:
        found = audit_all(engine, since=begin, until=end, app=app, lookback=lookback)
    if found.is_ahead:
        err().say(
            f"Nothing was compared: the last tick was {format_both(found.ticked_at)},"
            " and later occurrences are not decided yet."
        )
    if not out().gave_json(found.faults):
        _print(found.faults)
        period = f"{format_both(found.since)} to {format_both(found.until)}"
        actions = format_count(found.audited, "action", "actions")
        faults = format_count(len(found.faults), "fault", "faults")
        out().say(f"{actions} audited, {faults}, {period}")
    if found.faults:
        raise typer.Exit(1)


def _print(faults: Sequence[AuditFault]) -> None:
    named = ask_database(fetch_named, {each.action_uid for each in faults})
    out().table(
        faults,
        lambda f: {
            "fault": f.fault.value,
            "action": named[f.action_uid][0],
            "occurrence": format_both(f.occurrence, named[f.action_uid][1]),
            "detail": f.detail,
        },
        empty="No faults.",
    )
