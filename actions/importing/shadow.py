"""
Compare what celery beat sent, by its log, with what actions would have decided. Pure.

The actions are inactive meanwhile, so nothing is sent twice; an entry that agrees is
taken over by posting its action active, from an instant on at which it is not due.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import count, islice, pairwise
from zoneinfo import ZoneInfo

from actions.importing.origins.imported import clean_name
from actions.occurrences import Schedule
from actions.when.interval import IntervalRule
from actions.when.searching import find_each
from models.errors import UsageError
from models.units import format_age

#: Of a line of Celery's own form, with the clock of beat's host: when, and what.
_LINE = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3}): [A-Z]+/[^\]]+\] (.*)")
_SENDING = re.compile(r"\w*Scheduler: Sending due task (.+) \(\S+\)$")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

#: Beat's clock and ours may differ by so much before a run counts as too early.
_EARLY = timedelta(seconds=1)

_SECOND = timedelta(seconds=1)

#: A log that steps back by more than this says that clocks were set back.
_STEP_BACK = timedelta(minutes=1)

#: Later than any occurrence.
_END_OF_TIME = datetime.max.replace(tzinfo=UTC)

#: Runs between which a gap is looked for: two days of a rule of each minute.
_MOST_LOOKED_AT = 3_000


@dataclass(frozen=True, slots=True)
class BeatLog:
    """
    What beat logged.

    Args:
        since: Its first line, aware UTC.
        until: Its last line.
        sent: When each entry was sent, in order.
    """

    since: datetime
    until: datetime
    sent: Mapping[str, Sequence[datetime]]


@dataclass(frozen=True, slots=True)
class ShadowAction:
    """An action, its *schedule*, and from when on it runs here (None: it does not)."""

    uid: str
    name: str
    schedule: Schedule
    runs_from: datetime | None


class ShadowVerdict(StrEnum):
    """What the log says of an entry."""

    AGREES = "agrees"
    DIFFERS = "differs"
    #: Nothing of it was due or sent in the time of the log.
    UNSEEN = "unseen"
    #: Beat sends it, and no action has its name.
    NO_ACTION = "no_action"


@dataclass(frozen=True, slots=True)
class ShadowDifference:
    """An instant (aware UTC) at which beat and the action differ, and how."""

    at: datetime
    told: str


@dataclass(frozen=True, slots=True)
class Gap:
    """From when until before when nothing of an entry is due; aware UTC."""

    since: datetime
    until: datetime


@dataclass(frozen=True, slots=True)
class ShadowEntry:
    """
    An entry of beat, beside its action.

    Args:
        name: Of the action; of the entry if there is none.
        action: Its uid.
        verdict: See ShadowVerdict.
        agreed: Runs that beat sent when they were due.
        differences: In order.
        runs_from: From when on the action runs here. None: beat alone sends it.
        gap: Within it the action may be posted active, and the entry be deleted. None:
            it does not agree, or is due too often.
    """

    name: str
    action: str | None
    verdict: ShadowVerdict
    agreed: int
    differences: Sequence[ShadowDifference]
    runs_from: datetime | None
    gap: Gap | None


def read_beat_log(lines: Iterable[str], zone: ZoneInfo) -> BeatLog:
    """
    Return what beat logged; lines of others, and of errors, are passed over.

    Args:
        lines: As ``celery beat --loglevel info`` writes them.
        zone: Of the clock of its host; the hour that comes twice is read in order.

    Raises:
        UsageError: No line is of celery beat.
    """
    sent: dict[str, list[datetime]] = defaultdict(list)
    first = last = None
    for line in lines:
        found = _LINE.match(_COLOUR.sub("", line).strip())
        if found is None:
            continue
        last = _read_instant(found[1], found[2], zone, after=last)
        first = first or last
        if sending := _SENDING.match(found[3]):
            sent[sending[1]].append(last)
    if first is None or last is None:
        raise UsageError(
            "no line is of celery beat. Give the log of `celery beat --loglevel info`:"
            " [2026-11-26 07:00:00,001: INFO/MainProcess] Scheduler: Sending due task"
            " mail the figures (shop.mail_figures)"
        )
    return BeatLog(first, last, sent)


def _read_instant(
    text: str, milliseconds: str, zone: ZoneInfo, *, after: datetime | None
) -> datetime:
    local = datetime.fromisoformat(f"{text}.{milliseconds}").replace(tzinfo=zone)
    first, second = (local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    return second if after is not None and first < after - _STEP_BACK else first


def compare_with_beat(
    log: BeatLog,
    actions: Sequence[ShadowAction],
    *,
    now: datetime,
    late: timedelta,
    gap: timedelta,
) -> list[ShadowEntry]:
    """
    Return what the log says of each action, and of entries without one.

    Args:
        now: Aware UTC; gaps begin after it, on whole seconds.
        late: How much later than due beat may send.
        gap: How long nothing may be due, at least, for an entry to be taken over.
    """
    sent = {clean_name(name): instants for name, instants in log.sent.items()}
    found = []
    for action in actions:
        own = sent.pop(action.name, ())
        agreed, differences = _compare(action, own, log, late)
        verdict = ShadowVerdict.AGREES if agreed else ShadowVerdict.UNSEEN
        if differences:
            verdict = ShadowVerdict.DIFFERS
        free = None
        if verdict is ShadowVerdict.AGREES and action.runs_from is None:
            free = _find_gap(action.schedule, own, now, gap)
        known = (action.name, action.uid, verdict, agreed, differences)
        found.append(ShadowEntry(*known, action.runs_from, free))
    for name, instants in sorted(sent.items()):
        told = [ShadowDifference(at, "beat sent it; no action here") for at in instants]
        none = (name, None, ShadowVerdict.NO_ACTION, 0, told)
        found.append(ShadowEntry(*none, None, None))
    return found


def _compare(
    action: ShadowAction, sent: Sequence[datetime], log: BeatLog, late: timedelta
) -> tuple[int, list[ShadowDifference]]:
    """Return how many of *sent* were due, and what else there is."""
    ours = action.runs_from or _END_OF_TIME
    step = _find_step(action.schedule)
    if step is None:
        schedule = replace(action.schedule, starts_at=None)
        end = log.until + timedelta.resolution
        due = find_each(schedule, log.since - late, end)
        missing, left = _match([at for at in due if at < ours], sent, late)
        # At its ends, the log may lack a run: it was sent before, or is sent later.
        first, last = log.since + _EARLY, log.until - late
        before = " before it ran" if action.runs_from else ""
        told = f"due{before} here; beat did not send it"
        missed = [ShadowDifference(at, told) for at in missing if first <= at <= last]
        strange = "beat sent it; not due here"
        missed += [ShadowDifference(at, strange) for at in left if at < ours - _EARLY]
        doubled = [at for at in left if at >= ours - _EARLY]
        agreed = len(sent) - len(left)
    else:
        own = [at for at in sent if at < ours]
        doubled = list(sent[len(own) :])
        agreed, missed = _match_steps(step, own, min(ours, log.until), late)
    told = "beat sent it, and it runs here"
    differences = missed + [ShadowDifference(at, told) for at in doubled]
    return agreed, sorted(differences, key=lambda each: each.at)


def _match(
    due: Sequence[datetime], sent: Sequence[datetime], late: timedelta
) -> tuple[list[datetime], list[datetime]]:
    """Return what of *due* was not sent, and what of *sent* was not due."""
    missing, left = [], list(sent)
    for at in due:
        first = bisect_left(left, at - _EARLY)
        if first < len(left) and left[first] <= at + late:
            del left[first]
        else:
            missing.append(at)
    return missing, left


def _find_step(schedule: Schedule) -> timedelta | None:
    """Return how far apart its runs are; None: its rules name times."""
    match schedule.rules:
        case (IntervalRule(every=every),) if not every.months:
            return every.elapsed
    return None


def _match_steps(
    step: timedelta, sent: Sequence[datetime], until: datetime, late: timedelta
) -> tuple[int, list[ShadowDifference]]:
    """Compare how far apart *sent* are: beat counts from its start, we from a post."""
    differences = [
        ShadowDifference(
            after,
            f"beat sent it {format_age(after - before)} after the run before,"
            f" not {format_age(step)}",
        )
        for before, after in pairwise(sent)
        if abs(after - before - step) > late
    ]
    agreed = max(0, len(sent) - 1) - len(differences)
    if sent and until - sent[-1] > step + late:
        silent = format_age(until - sent[-1])
        told = f"beat sent it then, and not again for {silent}"
        differences.append(ShadowDifference(sent[-1], told))
    return agreed, differences


def _find_gap(
    schedule: Schedule, sent: Sequence[datetime], now: datetime, at_least: timedelta
) -> Gap | None:
    """Return the first gap after *now*; None: there is none among the next runs."""
    # Whoever writes this as `starts_at` has none of the run before it, which is beat's.
    since = now.replace(microsecond=0) + _SECOND
    for due in islice(_list_next(schedule, sent, since), _MOST_LOOKED_AT):
        if due - since >= at_least - _SECOND:
            return Gap(since, due)
        since = due + _SECOND
    return None


def _list_next(
    schedule: Schedule, sent: Sequence[datetime], now: datetime
) -> Iterator[datetime]:
    """Yield when beat is going to send it, after *now*."""
    step = _find_step(schedule)
    if step is None:
        schedule = replace(schedule, starts_at=None)
        yield from find_each(schedule, now + _SECOND, _END_OF_TIME)
        return
    last = sent[-1].replace(microsecond=0)
    for number in count((now - last) // step + 1):
        yield last + number * step
