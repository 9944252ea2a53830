"""Words about scheduled actions that only pages need. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from models.requests.actions import ActionFilterModel, Trouble
from models.revision import ActionState
from models.units import capitalize, format_count
from overview.actions import ShownAction
from overview.recent_runs import RecentRun, RecentRuns
from web.actions.fetch_counts import ActionCounts
from web.charts import Strip, draw_strip

#: How people call each kind of ``when``.
KINDS = {
    "cron_rule": "cron",
    "calendar": "calendar",
    "working_day": "working day",
    "every": "interval",
    "due_date": "due date",
    "after_action": "after an action",  # before "on", which it has, too
    "on": "on an event",
    "after": "after an event",
}

#: What is wrong with actions, as one filters by it.
TROUBLES = {
    Trouble.ANY: "any of these",
    Trouble.FAILED: "last run failed",
    Trouble.MISSED: "last occurrence missed",
    Trouble.QUARANTINED: "cannot be read",
}


def write_rules(document: Mapping[str, Any]) -> list[str]:
    """
    Return the rules of an action as its author wrote them.

    >>> write_rules({"when": {"after": "app.x", "delay": "P1D", "timezone": "UTC"}})
    ['app.x P1D']
    >>> write_rules({"when": {"after_action": "nightly", "on": "failure"}})
    ['nightly failure']
    """
    when = document.get("when")
    rules = when if isinstance(when, list) else [when]
    return [_write_rule(each) for each in rules if isinstance(each, dict)]


def _write_rule(rule: Mapping[str, Any]) -> str:
    keys = [key for key in (*KINDS, "delay", "at", "anchor") if key in rule]
    # A kind of a package: all that it has.
    keys = keys or [key for key in rule if key != "timezone"]
    return " ".join(str(rule[key]) for key in keys)


def tell_verdict(counts: ActionCounts) -> str:
    """Return what of the actions needs a look, in a sentence."""
    troubles = counts.troubles
    told = []
    if failed := troubles.get(Trouble.FAILED, 0):
        told.append(f"{failed:,} failed last time")
    if missed := troubles.get(Trouble.MISSED, 0):
        told.append(f"{format_count(missed, 'was', 'were')} missed")
    if bad := troubles.get(Trouble.QUARANTINED, 0):
        told.append(f"{format_count(bad, 'is', 'are')} quarantined")
    if told:
        return f"{capitalize(', '.join(told))}."
    return "No action is in trouble." if counts.total else "No action matches."


def tell_counts(counts: ActionCounts, wanted: ActionFilterModel) -> str:
    """Return how many actions match, of how many apps, and in which states."""
    plain = wanted.but(app=None, state=None) == ActionFilterModel()
    least = "" if counts.is_whole or plain else "At least "
    apps = sum(1 for count in counts.apps.values() if count)
    of = f" of {apps:,} apps" if apps > 1 and wanted.app is None else ""
    total = format_count(counts.total, "action", "actions")
    states = [
        f"{counts.states[each]:,} {each}"
        for each in ActionState
        if counts.states.get(each)
    ]
    shown = f": {', '.join(states)}" if wanted.state is None and states else ""
    return f"{least}{total}{of}{shown}."


def name_mark(run: RecentRun) -> str:
    """Return the state that a strip shows; uncertain mails win."""
    return "uncertain" if run.is_uncertain else str(run.state)


def make_strip(recent: RecentRuns) -> Strip:
    """Return the strip of the latest runs of an action."""
    return draw_strip([name_mark(each) for each in reversed(recent.runs)])


def tell_idleness(action: ShownAction) -> str:
    """Return why an action is not due next; empty if it is."""
    match action.state:
        case ActionState.QUARANTINED:
            return "never, until mended"
        case ActionState.PAUSED:
            return "until somebody resumes it"
        case ActionState.INACTIVE:
            return "until it is switched on"
        case ActionState.DELETED:
            return "never"
        case ActionState.ACTIVE if action.event or action.follows:
            return "on an event" if action.event else "after another action"
        case ActionState.ACTIVE:
            return "" if action.following else "never again"
