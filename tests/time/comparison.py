"""
Our occurrences held against the daemon's and cronsim's, around one clock change.

The daemon is right by definition, and we differ from it nowhere: neither the tick nor
the audit, whose readings have no code in common. cronsim differs in the cases that
``cronsim_differs`` names, each with its reason.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

from actions.explaining.own_readings import read_cron, read_interval
from actions.when.cron import CronRule
from actions.when.interval import make_interval_rule
from actions.when.searching import find_occurrences
from models.expressions.cron import CronExpression
from models.fields.zone import load_zone
from models.when import CronModel, IntervalModel
from tests.time.oracles import (
    PlainRule,
    Transition,
    find_transitions,
    get_distinct_zones,
    run_cronsim,
    run_daemon,
)

FIRST_INSTANT = datetime(1969, 12, 1, tzinfo=UTC)
LAST_INSTANT = datetime(2038, 1, 1, tzinfo=UTC)

#: Fixed times first, rules that follow the clock after.
SHAPES = (
    "0 0 * * *",
    "30 2 * * *",
    "7 0-23 * * *",
    "0,30 0-23/2 * * *",
    "0-59 0-23 * * *",
    "15,45 0-4 * * *",
    "5,35 1,2,23 * * 0-6",
    "0 * * * *",
    "30 * * * *",
    "*/15 * * * *",
    "* * * * *",
    "*/30 1,23 * * *",
    "0 */2 * * *",
)

_HOUR = timedelta(hours=1)
_THREE_HOURS = timedelta(hours=3)
_MINUTE = timedelta(minutes=1)
_FIVE_DAYS = timedelta(days=5)

#: More than what any comparison asks of the time around a change.
_NEAR = timedelta(days=7)


@cache
def find_all_transitions(name: str) -> list[Transition]:
    """Return every change of the zone's clocks from 1970 to 2037."""
    return find_transitions(load_zone(name), FIRST_INSTANT, LAST_INSTANT)


@cache
def find_own_transitions() -> dict[str, list[Transition]]:
    """
    Return by zone the changes at which its clocks run as those of no zone before it.

    Two of three are those of another zone, too: all of Europe changes its clocks at one
    instant. What happens around them is asked of the first.
    """
    seen: set[tuple[Transition, ...]] = set()
    own: dict[str, list[Transition]] = {}
    for name in get_distinct_zones():
        changes = find_all_transitions(name)
        own[name] = []
        for change in changes:
            around = (each for each in changes if abs(each.at - change.at) < _NEAR)
            if (key := (change, *around)) not in seen:
                seen.add(key)
                own[name].append(change)
    return own


def aim_at(change: Transition) -> tuple[str, ...]:
    """Return rules for the very date, hour and minute in the middle of *change*."""
    middle = change.at.replace(tzinfo=None) + (change.before + change.after) / 2
    date = f"{middle.day} {middle.month} *"
    return (
        f"{middle.minute} {middle.hour} {date}",
        f"* {middle.hour} {date}",
        f"0 0 {date}",
        f"*/20 * {date}",
    )


def cronsim_differs(rule: str, change: Transition) -> bool:
    """
    Tell whether cronsim 2.8 is known to leave Debian's rule here.

    - A shift of three hours or more forward: the daemon takes it for a clock that
      was set, cronsim makes up for what was left out. More than three hours back:
      the daemon starts over, cronsim keeps to the first pass.
    - A shift that is no whole number of hours: cronsim steps by whole hours of
      elapsed time from a full hour, and so misses minutes after the change.
    - A change that is not on a full hour (St John's, at 00:01 until 2011): for the
      same reason, and in a repeated hour cronsim may go round for ever.
    - A rule with a star whose first day begins in a gap: cronsim starts that day at
      a midnight that does not exist, and takes it for one that suits.
    """
    shift = change.shift
    is_wild = PlainRule.read(rule).is_wild
    if shift >= _THREE_HOURS or shift < -_THREE_HOURS or shift % _HOUR:
        return True
    if is_wild and shift == -_THREE_HOURS:
        return True

    midnight = change.at.replace(tzinfo=None) + change.after
    before = change.at.replace(tzinfo=None) + change.before
    if before.minute or before.second:
        return True

    starts_in_gap = before <= midnight.replace(hour=0, minute=0) < midnight
    return is_wild and shift > timedelta() and starts_in_gap


def compare(name: str, change: Transition) -> list[str]:
    """Return a line for each rule on which we differ from an oracle; none is right."""
    zone = load_zone(name)
    around = abs(change.shift) + 5 * _HOUR
    start, end = change.at - around, change.at + around
    changes = find_all_transitions(name)
    differences = []
    for rule in SHAPES + aim_at(change):
        ours = find_occurrences(CronRule(CronExpression.parse(rule), zone), start, end)
        # A little earlier, so that the daemon has a virtual time to compare with.
        ran = run_daemon(rule, changes, start - _HOUR, end)
        daemon = [instant for instant in ran if instant >= start]
        if ours != daemon:
            differences.append(f"{name} {change.at} {rule!r}: daemon {daemon}")
        model = CronModel(cron_rule=rule, timezone=name)
        audited = [each.at for each in read_cron(model, start, end)]
        if audited != daemon:
            differences.append(f"{name} {change.at} {rule!r}: audit {audited}")
        if cronsim_differs(rule, change):
            continue
        if ours != run_cronsim(rule, zone, start, end):
            differences.append(f"{name} {change.at} {rule!r}: cronsim")
    return differences + compare_days(name, change)


def compare_days(name: str, change: Transition) -> list[str]:
    """
    Return a line for each time of day that an interval of a day sees differently.

    Each day at 02:30 is what ``30 2 * * *`` says, so the daemon knows when that is.
    """
    if change.shift < -_THREE_HOURS:
        return []  # then the daemon has both passes, an interval the first alone
    if change.at.second or change.shift % _MINUTE:
        return []  # the daemon wakes on whole minutes

    zone = load_zone(name)
    around = abs(change.shift) + 5 * _HOUR
    start, end = change.at - around, change.at + around
    shown = change.at.replace(tzinfo=None) + change.before
    differences = []
    for local in (shown, shown + change.shift / 2):
        time = local.replace(second=0, microsecond=0)
        anchor = (time - _FIVE_DAYS).replace(tzinfo=zone).astimezone(UTC)
        if anchor.astimezone(zone).replace(tzinfo=None) != time - _FIVE_DAYS:
            continue  # another change, five days before
        model = IntervalModel(every="P1D", anchor=anchor.isoformat(), timezone=name)
        rule = f"{time.minute} {time.hour} * * *"
        ran = run_daemon(rule, find_all_transitions(name), start - _HOUR, end)
        daemon = [instant for instant in ran if instant >= start]
        ours = find_occurrences(make_interval_rule(model), start, end)
        if ours != daemon:
            differences.append(f"{name} {change.at} a day from {time}: daemon {daemon}")
        if ours != list(read_interval(model, start, end)):
            differences.append(f"{name} {change.at} a day from {time}: audit")
    return differences
