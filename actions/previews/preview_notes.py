"""
What the next clock changes do to a rule, in words. Pure.

A rule is compared with its twin: the same rule on a clock that is never changed. The
occurrences of the twin inside a gap or a repeated hour are those that the change
affects; the rule itself says what becomes of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from actions.occurrences import Schedule
from actions.previews.clock_words import join_words
from actions.previews.sentences import format_day
from actions.when.local_time import get_stretch
from actions.when.rule import Rule
from actions.when.searching import find_occurrences
from models.door.json_text import make_pointer
from models.errors import Problem
from models.expressions.cron import CronExpression
from models.expressions.cron_hints import find_both_days
from models.scheduled_action import ScheduledActionModel
from models.when import CronModel

#: A year and a month: includes both clock changes, whenever they are in a year.
HORIZON = timedelta(days=400)

#: Nights of clock changes that a preview shows.
NIGHTS_SHOWN = 2

#: Local times named in one note.
_TIMES_SHOWN = 4


@dataclass(frozen=True, slots=True)
class ClockChange:
    """
    A moment at which the clocks of a zone are changed.

    Args:
        changed_at: Aware UTC, the first instant of the new offset.
        zone: The zone whose clocks change.
        before: The UTC offset until then.
        after: The UTC offset from then on.
    """

    changed_at: datetime
    zone: ZoneInfo
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        """True if local times are skipped, False if they repeat."""
        return self.after > self.before

    @property
    def affected(self) -> tuple[datetime, datetime]:
        """The local times skipped or repeated, ``[first, end)``, marked as UTC."""
        shown = (self.changed_at + self.before, self.changed_at + self.after)
        return min(shown), max(shown)

    def describe(self) -> str:
        """Return the date, the zone and what the clocks do."""
        was, is_now = self.changed_at + self.before, self.changed_at + self.after
        verb = "go" if self.is_gap else "go back"
        times = f"from {was:%H:%M} to {is_now:%H:%M}"
        return f"{format_day(was)}, {self.zone.key}: clocks {verb} {times}"


@dataclass(frozen=True, slots=True)
class ReadRule:
    """
    A rule and its twin.

    Args:
        rule: The rule as it runs.
        twin: The same rule on a clock that is never changed; its local times are given
            as if they were UTC. None: clock changes do not affect this kind.
    """

    rule: Rule
    twin: Rule | None

    def find_affected(self, change: ClockChange) -> list[datetime]:
        """Return the local times of this rule that *change* skips or repeats."""
        if self.twin is None or change.zone.key != self.rule.zone.key:
            return []
        first, end = change.affected
        return find_occurrences(self.twin, first, end, limit=_TIMES_SHOWN + 1)

    def is_moved_by(self, change: ClockChange) -> bool:
        """Tell whether what *change* skips is due right after it instead."""
        end = change.affected[1]
        return (
            change.is_gap
            and self.twin is not None
            and self.rule.next_from(change.changed_at) == change.changed_at
            and self.twin.next_from(end) != end
        )


def make_read_rule(rule: Rule) -> ReadRule:
    """Return *rule* and its twin."""
    return ReadRule(rule, rule.without_clock_changes())


def find_clock_changes(
    zone: ZoneInfo, start: datetime, end: datetime
) -> Iterator[ClockChange]:
    """Yield the clock changes of *zone* in ``(start, end)``; both aware UTC."""
    stretch = get_stretch(zone, start)
    while stretch.ends_at < end:
        change = get_clock_change_at(zone, stretch.ends_at)
        if change is not None:
            yield change
        stretch = get_stretch(zone, stretch.ends_at)


def get_clock_change_at(zone: ZoneInfo, instant: datetime) -> ClockChange | None:
    """Return the clock change of *zone* at *instant* (aware UTC); None if none."""
    before = (instant - timedelta(seconds=1)).astimezone(zone).utcoffset()
    after = instant.astimezone(zone).utcoffset()
    if before is None or after is None or before == after:
        return None
    return ClockChange(instant, zone, before, after)


def describe_pass(zone: ZoneInfo, occurrence: datetime) -> str | None:
    """Return which pass of a repeated hour *occurrence* is in, or None."""
    local = occurrence.astimezone(zone)
    other = local.replace(fold=1 - local.fold)
    if other.utcoffset() == local.utcoffset():
        return None
    which = "second" if local.fold else "first"
    return f"{local:%H:%M} comes twice on this day; this is the {which} pass"


@dataclass(frozen=True, slots=True)
class TouchedNight:
    """When and how the clocks of *zone* change, and what becomes of one rule."""

    at: datetime
    zone: str
    change: str
    effect: str

    def describe(self) -> str:
        """Return both in one line."""
        return f"{self.change}; {self.effect}"


def find_touched_nights(
    schedule: Schedule, rules: Sequence[ReadRule], start: datetime
) -> list[TouchedNight]:
    """
    Return what happens on the next nights on which a clock change affects a rule.

    Args:
        schedule: Of the action; nights that are excluded or outside its bounds are
            left out.
        rules: Those of the same action.
        start: Aware UTC; the beginning of the HORIZON that is searched.

    Returns:
        In order of time, for at most NIGHTS_SHOWN nights; empty if no rule is affected.
    """
    touched: list[TouchedNight] = []
    for zone in {each.rule.zone.key: each.rule.zone for each in rules}.values():
        for change in find_clock_changes(zone, start, start + HORIZON):
            if not _is_allowed(schedule, change):
                continue
            effects = [_describe_effect(each, change) for each in rules]
            words = change.changed_at, zone.key, change.describe()
            touched += [TouchedNight(*words, effect) for effect in effects if effect]
    nights = sorted({each.at for each in touched})[:NIGHTS_SHOWN]
    return sorted(
        (each for each in touched if each.at in nights),
        key=lambda each: (each.at, each.describe()),
    )


def _is_allowed(schedule: Schedule, change: ClockChange) -> bool:
    """Tell whether the action may run on the day of *change*."""
    if schedule.starts_at and change.changed_at < schedule.starts_at:
        return False
    if schedule.ends_at and change.changed_at >= schedule.ends_at:
        return False
    day = change.changed_at.astimezone(change.zone).date()
    return not schedule.excluded.covers(day)


def _describe_effect(each: ReadRule, change: ClockChange) -> str | None:
    """Return what *change* does to one rule; None if it does nothing."""
    affected = each.find_affected(change)
    if not affected:
        return None

    words = [f"{local:%H:%M:%S}".removesuffix(":00") for local in affected]
    one = len(words) == 1
    times = join_words(
        [*words[:_TIMES_SHOWN], "others"] if len(words) > _TIMES_SHOWN else words
    )
    if not change.is_gap:
        second = affected[0] - change.after
        both = each.rule.next_from(second) == second
        effect = "runs both times" if both else "runs once, at the first pass"
        return f"{times} {'comes' if one else 'come'} twice: {effect}"

    effect = "no run of its own" if one else "no runs of their own"
    if each.is_moved_by(change):
        effect = f"runs at {change.affected[1]:%H:%M} instead"
    verb = "does" if one else "do"
    return f"{times} {verb} not exist: {effect}"


def find_either_days(action: ScheduledActionModel) -> Iterator[Problem]:
    """Yield a problem for each cron rule of *action* whose day fields both count."""
    for place, rule in action.place_rules():
        if not isinstance(rule, CronModel):
            continue
        instead = find_both_days(CronExpression.parse(rule.cron_rule).canonical)
        if instead is None:
            continue
        message = (
            f"'{rule.cron_rule}' runs on days that match its day of the month or its"
            " day of the week; one is enough."
        )
        hint = f"For days that match both, write {instead}." if instead else ""
        yield Problem(make_pointer((*place, "cron_rule")), message, hint)
