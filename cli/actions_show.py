"""The command ``actions show``."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from json import dumps
from zoneinfo import ZoneInfo

from rich.syntax import Syntax

from actions.pausing.pause_state import APP, INSTALLATION
from actions.previews.sentences import describe_duration, describe_terms
from actions.read_actions import FollowingAction, RevisionNote
from cli.actions import format_last, style_action_state
from cli.connection import read_database
from cli.options import ActionArgument, AppOption, takes_json
from cli.output import describe_pause, format_both, format_due, out
from models.database.engine import read_clock
from models.fields.delay import join_delay
from models.fields.duration import Duration
from overview.actions import DetailedAction, fetch_detailed_action

#: Next occurrences that are listed.
_SHOWN = 5

#: Revisions that are listed, the latest first.
_REVISIONS_SHOWN = 10


@takes_json
def show_action(action: ActionArgument, *, app: AppOption = None) -> None:
    """
    Show a scheduled action.

    A deleted action is found by its uid.
    """
    with read_database() as connection:
        found = fetch_detailed_action(
            connection, action, app=app, count=_SHOWN, revisions=_REVISIONS_SHOWN
        )
        now = read_clock(connection)
    if out().gave_json(found):
        return
    _print_action(found, now)
    _print_revisions(found.revisions, found.zone)
    out().print()
    text = dumps(found.document, ensure_ascii=False, indent=2)
    out().print(Syntax(text, "json", theme="ansi_dark", background_color="default"))


def _print_action(shown: DetailedAction, now: datetime) -> None:
    last = shown.last
    waiting = join_delay(shown.delay, shown.at)
    waits = f"{shown.event}, {waiting or 'at once'}" if shown.event else None
    out().fields(
        [
            ("uid", shown.uid),
            ("app", shown.app),
            ("name", shown.name),
            ("state", style_action_state(shown.state)),
            ("paused", _describe_pause(shown)),
            ("why", shown.quarantine_reason or shown.problem),
            ("revision", str(shown.revision)),
            ("when", shown.sentence),
            ("event", waits),
            ("then", "\n".join(map(_tell_follower, shown.followers)) or None),
            ("queue", shown.queue),
            ("overlap", shown.overlap),
            ("terms", "\n".join(describe_terms(shown.document)) or None),
            ("effective", format_both(shown.effective_from, shown.zone)),
            ("created", format_both(shown.created_at, shown.zone)),
            ("updated", format_both(shown.updated_at, shown.zone)),
            ("last", None if last is None else format_last(last, now)),
            ("operation", None if last is None else str(last.operation)),
            ("next", _tell_following(shown)),
        ]
    )


def _tell_following(shown: DetailedAction) -> str | None:
    return "\n".join(format_due(e, shown.zone) for e in shown.following) or None


def _tell_follower(each: FollowingAction) -> str:
    delay = describe_duration(each.delay)
    later = "" if Duration.parse(each.delay).is_zero else f", {delay} later"
    return f"{each.name} on {each.on}{later}"


def _print_revisions(revisions: Sequence[RevisionNote], zone: ZoneInfo) -> None:
    out().table(
        revisions,
        lambda each: {
            "number": str(each.revision),
            "change": each.change,
            "at": format_both(each.recorded_at, zone),
            "by": each.changed_by or "-",
            "note": each.note or "",
        },
        apart=True,
    )


def _describe_pause(shown: DetailedAction) -> str | None:
    if shown.pause is None:
        return None
    whose = {APP: "with its app, ", INSTALLATION: "with the installation, "}
    return whose.get(shown.pause.scope, "") + describe_pause(shown.pause, shown.zone)
