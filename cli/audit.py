"""``audit``: an independent reading of the rules against what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Annotated

import sqlalchemy as sa
import typer

from actions.explaining.audit import Finding, audit_action, audit_event_action
from actions.explaining.expected_events import Keeps
from actions.explaining.history import fetch_histories
from actions.leader import get_last_tick_at
from cli.connection import get_engine, get_settings, read_database
from cli.options import AppOption, JsonOption, read_period
from cli.output import format_both, out, print_json, print_note, print_table
from models.database.engine import read_clock, reading
from models.recipients import RecipientFilterModel
from operations.adapters.app_users import fetch_users
from operations.recipients import User, keeps_triggering_user

#: What is looked at unless asked otherwise.
_DEFAULT_PERIOD = timedelta(days=1)


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
    findings: list[Finding] = []
    audited = 0
    with read_database() as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection) or now
    end = ticked_at if end is None else min(end, ticked_at)
    begin = end - _DEFAULT_PERIOD if begin is None else begin
    if begin >= end:
        print_note(f"Nothing is decided after {format_both(ticked_at)} yet.")
        end = begin
    engine = get_engine()
    keeps_of = _make_keeps(engine, now)
    for history in fetch_histories(engine, since=begin, until=end, app=app):
        audited += 1
        if history.is_of_time:
            findings += audit_action(
                history.uid,
                history.revisions,
                history.decided,
                since=begin,
                until=end,
                catches_up=history.catches_up,
                lookback=lookback,
            )
        if history.is_of_events:
            findings += audit_event_action(
                history.uid,
                history.revisions,
                history.events,
                history.decided,
                since=begin,
                until=end,
                keeps=keeps_of(history.app),
            )
    if json:
        print_json([_make_json(finding) for finding in findings])
    else:
        _print(findings)
        period = f"{format_both(begin)} to {format_both(end)}"
        out().print(f"{audited} actions, {len(findings)} faults, {period}")
    if findings:
        raise typer.Exit(1)


def _print(findings: list[Finding]) -> None:
    print_table(
        ("fault", "action", "occurrence", "detail"),
        (
            [f.fault.value, f.action_uid, format_both(f.occurrence), f.detail]
            for f in findings
        ),
        empty="No faults.",
    )


def _make_keeps(engine: sa.Engine, now: datetime) -> Callable[[str], Keeps]:
    """Ask the recipients of actions about the users of an app, who may be gone."""

    # Actions come app by app, so the users of one are enough.
    @lru_cache(maxsize=1)
    def fetch(app: str) -> dict[str, User]:
        with reading(engine) as connection:
            return {user.id: user for user in fetch_users(connection, app)}

    def make(app: str) -> Keeps:
        def keeps(who: RecipientFilterModel | None, user_id: str) -> bool:
            user = fetch(app).get(user_id)
            return user is not None and keeps_triggering_user(who, user, now=now)

        return keeps

    return make


def _make_json(finding: Finding) -> dict[str, object]:
    return {
        "fault": finding.fault.value,
        "action_uid": finding.action_uid,
        "occurrence": finding.occurrence,
        "detail": finding.detail,
    }
