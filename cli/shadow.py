"""``shadow``: compares what celery beat sends with what its actions would do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any
from zoneinfo import ZoneInfo

import sqlalchemy as sa
import typer

from actions.importing.shadow import (
    BeatLog,
    ShadowAction,
    ShadowEntry,
    ShadowVerdict,
    compare_with_beat,
    read_beat_log,
)
from actions.lookup import fetch_app
from actions.occurrences import parse_timing
from actions.read_actions import fetch_actions, get_action_state
from actions.read_rules import find_problem
from cli.connection import get_settings, read_database
from cli.options import app_option, argument, naming, read_file, takes_json, value
from cli.output import format_both, out
from models.database.engine import read_clock
from models.fields.duration import read_elapsed
from models.fields.zone import load_zone
from models.revision import ActionState

#: Differences of an entry that people are shown; ``--json`` has all.
_SHOWN = 3

_WORDS = {
    ShadowVerdict.AGREES: "agrees",
    ShadowVerdict.DIFFERS: "differs",
    ShadowVerdict.UNSEEN: "not seen yet",
    ShadowVerdict.NO_ACTION: "no action",
}


@takes_json
def shadow(
    file: Annotated[
        str,
        argument(
            "FILE|-", "What `celery beat --loglevel info` logged; - is standard input."
        ),
    ],
    *,
    app: Annotated[str, app_option("Small app that has the imported actions.")],
    timezone: str | None = value(
        "--timezone ZONE", "Of the clock in the log; default: MINUTEHAND_TIMEZONE."
    ),
    late: str = value("--late DURATION", "How late beat may send.", default="PT30S"),
    gap: str = value(
        "--gap DURATION", "How long it takes to take an entry over.", default="PT10M"
    ),
) -> None:
    """
    Compare what celery beat sent with what imported actions would have decided.

    Beat goes on sending, and the actions are inactive: nothing is sent twice. Names
    each difference, and for each entry that agrees when it can be taken over. Exits
    with 1 if there is a difference.
    """
    with naming("--timezone"):
        zone = load_zone(get_settings().timezone if timezone is None else timezone)
    lines = read_file(file).decode("utf-8", "replace").splitlines()
    log = read_beat_log(lines, zone)
    with read_database() as connection:
        actions = _fetch(connection, app)
        found = compare_with_beat(
            log,
            actions,
            now=read_clock(connection),
            late=read_elapsed("--late", late),
            gap=read_elapsed("--gap", gap),
        )
    if not out().gave_json({"since": log.since, "until": log.until, "entries": found}):
        _print(log, found, {e.uid: e.schedule.rules[0].zone for e in actions})
    if any(each.differences for each in found):
        raise typer.Exit(1)


def _fetch(connection: sa.Connection, app: str) -> list[ShadowAction]:
    fetch_app(connection, app)
    return [
        _make_action(row)
        for row in fetch_actions(connection, app=app)
        if row.timing is not None and find_problem(row) is None
    ]


def _make_action(row: sa.Row[Any]) -> ShadowAction:
    schedule = parse_timing(row.timing)
    runs_from = None
    if row.active and get_action_state(row) is ActionState.ACTIVE:
        runs_from = max(row.effective_from, schedule.starts_at or row.effective_from)
    return ShadowAction(row.uid, row.name, schedule, runs_from)


def _print(
    log: BeatLog, found: Sequence[ShadowEntry], zones: Mapping[str | None, ZoneInfo]
) -> None:
    out().table(
        found,
        lambda each: {
            "entry": each.name,
            "verdict": _WORDS[each.verdict],
            "agreed": f"{each.agreed:,}",
            "differences": _list_differences(each, zones.get(each.action)),
            "take over between": _tell_gap(each, zones.get(each.action)),
        },
        empty="Beat sent nothing, and there are no actions.",
    )
    counts = Counter(each.verdict for each in found)
    told = ", ".join(f"{counts[each]} {word}" for each, word in _WORDS.items())
    out().say(f"{format_both(log.since)} to {format_both(log.until)}: {told}")


def _list_differences(entry: ShadowEntry, zone: ZoneInfo | None) -> str:
    lines = [f"{format_both(each.at, zone)} {each.told}" for each in entry.differences]
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {more:,} more"] if more > 0 else []))


def _tell_gap(entry: ShadowEntry, zone: ZoneInfo | None) -> str:
    if entry.runs_from is not None:
        return f"runs here since {format_both(entry.runs_from, zone)}"
    if entry.gap is not None:
        return "\n".join(
            format_both(e, zone) for e in (entry.gap.since, entry.gap.until)
        )
    return "no such gap" if entry.verdict is ShadowVerdict.AGREES else ""
