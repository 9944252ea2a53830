"""``audit``: an independent reading of the rules against what was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from actions.explaining.audit import Finding
from cli.connection import get_settings, use_engine
from cli.options import AppOption, JsonOption, read_period
from cli.output import format_both, out, print_json, print_note, print_table
from overview.auditing import audit_all


def audit(
    *,
    since: Annotated[
        str | None,
        typer.Option("--from", metavar="TIME", help="Inclusive; a day ago if absent."),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(
            "--until", metavar="TIME", help="Exclusive; never later than the last tick."
        ),
    ] = None,
    app: AppOption = None,
    json: JsonOption = False,
) -> None:
    """
    Compare what was recorded with what the rules say.

    Cron rules are read with cronsim, not with the code that decided. Names each
    occurrence that is missing, extra, early, late or doubled, and each rule that is
    unreadable, and exits 1 if there is any. Operations that maintenance has pruned
    are reported as missing.
    """
    begin, end = read_period(since, until)
    lookback = get_settings().lookback
    with use_engine() as engine:
        found = audit_all(engine, since=begin, until=end, app=app, lookback=lookback)
    if found.is_ahead:
        print_note(f"Nothing is decided after {format_both(found.ticked_at)} yet.")
    if json:
        print_json([finding.as_json() for finding in found.findings])
    else:
        _print(found.findings)
        period = f"{format_both(found.since)} to {format_both(found.until)}"
        faults = len(found.findings)
        out().print(f"{found.audited} actions, {faults} faults, {period}")
    if found.findings:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    print_table(
        ("fault", "action", "occurrence", "detail"),
        (
            [f.fault.value, f.action_uid, format_both(f.occurrence), f.detail]
            for f in findings
        ),
        empty="No faults.",
    )
