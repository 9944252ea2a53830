"""
What is wrong and what is fine, in one sentence, and what must be done at once. Pure.

Somebody who is woken at night reads this and nothing else, so it must be true.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from typing_extensions import TypedDict

from models.operation_state import Queue
from models.units import format_age
from overview.doctor.finding import Health

#: Ticks are a minute apart, and one that takes some seconds is not late.
TICK_LATE_AFTER = timedelta(seconds=90)

#: What waits longer in a queue of which no worker takes stands still; what waits longer
#: although workers take some is behind.
STANDS_AFTER = timedelta(seconds=30)
BEHIND_AFTER = timedelta(minutes=5)


class AlarmJson(TypedDict):
    """Something that must be looked at at once; ``queue`` if it is about one."""

    kind: str
    queue: str | None
    title: str
    text: str
    since: datetime | None


class VerdictJson(TypedDict):
    """What is wrong and what is fine; ``health`` is ok, look or bad."""

    health: Health
    headline: str
    text: str
    alarms: list[AlarmJson]


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """
    What waits in a queue.

    Args:
        waiting: Operations that no worker has taken and whose time has come.

        since: When the oldest of them was to be sent, aware UTC. None: none waits.

        running: How many run.

        workers: How many living workers take from it.
    """

    queue: Queue
    waiting: int = 0
    since: datetime | None = None
    running: int = 0
    workers: int = 0


@dataclass(frozen=True, slots=True)
class Figures:
    """
    What the verdict follows from; times are aware UTC.

    Args:
        is_led: Whether a scheduler leads.

        unled_since: Since when none does, if that is known.

        last_tick_at: None: there was none.

        leads_since: When the leader took over. None: unknown, or none leads.

        send_failing_since: Since when the broker takes nothing. None: it does.

        paused_since: Since when everything (of the app) is paused. None: it is not.

        has_actions: Whether there is any action.

        failed: How many operations failed within a day. None: that cannot be read.

        causes: Of how many causes.

        missed: How many occurrences were missed. None: as above, with the next three.

        quarantined: How many actions cannot be read.

        silent: How many workers ended without signing off, a short while ago.
    """

    now: datetime
    is_led: bool = True
    unled_since: datetime | None = None
    last_tick_at: datetime | None = None
    leads_since: datetime | None = None
    send_failing_since: datetime | None = None
    paused_since: datetime | None = None
    has_actions: bool = True
    queues: Sequence[QueueFigures] = ()
    failed: int | None = 0
    causes: int = 0
    missed: int | None = 0
    skipped: int | None = 0
    uncertain: int | None = 0
    late: int | None = 0
    quarantined: int = 0
    silent: int = 0


@dataclass(frozen=True, slots=True)
class Alarm:
    """
    Something that must be looked at at once.

    Args:
        kind: ``leader``, ``tick``, ``broker``, ``queue`` or ``pause``.

        title: What, in a sentence without its end.

        text: What follows from it, and what does not.

        since: Aware UTC. None: unknown.

        queue: The queue that it is about.
    """

    kind: str
    title: str
    text: str
    since: datetime | None = None
    queue: Queue | None = None

    def as_json(self) -> AlarmJson:
        """Return the documented object; keys are only added."""
        return {
            "kind": self.kind,
            "queue": None if self.queue is None else self.queue.value,
            "title": self.title,
            "text": self.text,
            "since": self.since,
        }


@dataclass(frozen=True, slots=True)
class Verdict:
    """
    What is wrong and what is fine.

    Args:
        headline: One short sentence.

        text: The figures behind it, in a sentence or two.

        alarms: What must be done at once, the gravest first.
    """

    health: Health
    headline: str
    text: str
    alarms: Sequence[Alarm]

    def as_json(self) -> VerdictJson:
        """Return the documented object; keys are only added."""
        return {
            "health": self.health,
            "headline": self.headline,
            "text": self.text,
            "alarms": [each.as_json() for each in self.alarms],
        }


def judge(figures: Figures) -> Verdict:
    """Return what *figures* mean."""
    stuck = _find_stuck(figures)
    alarms = list(_find_alarms(figures, stuck))
    troubles = list(_list_troubles(figures))
    unread = figures.failed is None or figures.missed is None
    kinds = {each.kind for each in alarms}
    if kinds - {_PAUSE}:
        health = Health.BAD
    elif alarms or troubles or figures.silent or unread:
        health = Health.DOUBTFUL
    else:
        health = Health.GOOD
    return Verdict(
        health,
        _make_headline(figures, alarms, stuck, troubles),
        _make_text(figures, alarms, troubles),
        alarms,
    )


_LEADER, _TICK, _BROKER, _QUEUE, _PAUSE = "leader", "tick", "broker", "queue", "pause"

_SAFE = "Nothing is lost: each is recorded, and is sent again under the same id."


@dataclass(frozen=True, slots=True)
class _Stuck:
    """
    The queues in which something waits for too long.

    Args:
        still: No worker takes from them: they stand still.

        behind: Workers do, but not enough.
    """

    still: Sequence[QueueFigures]
    behind: Sequence[QueueFigures]


def _find_stuck(figures: Figures) -> _Stuck:
    """Judge the queues, once for alarms and headline."""
    still, behind = [], []
    for each in figures.queues:
        if each.since is None or not each.waiting:
            continue
        waits = figures.now - each.since
        if not each.workers and waits >= STANDS_AFTER:
            still.append(each)
        elif waits >= BEHIND_AFTER:
            behind.append(each)
    return _Stuck(still, behind)


def _find_alarms(figures: Figures, stuck: _Stuck) -> Iterator[Alarm]:
    if not figures.is_led:
        yield Alarm(
            _LEADER,
            "No scheduler leads",
            "Nothing new is recorded or sent until one does. What falls due meanwhile"
            " runs if it comes back within the look-back; what is older follows"
            " catch_up, and is recorded as missed otherwise.",
            figures.unled_since,
        )
    elif is_tick_late(figures):
        yield Alarm(
            _TICK,
            "The scheduler leads and does not tick",
            "It holds the lease, so no other takes over. Look at its log, or stop it:"
            " a standby leads within a minute.",
            figures.last_tick_at,
        )
    if figures.send_failing_since is not None:
        yield Alarm(
            _BROKER,
            "The broker takes nothing",
            "What falls due is recorded and sent as soon as the broker answers.",
            figures.send_failing_since,
        )
    yield from (_make_still(each, figures.now) for each in stuck.still)
    yield from (_make_behind(each, figures.now) for each in stuck.behind)
    if figures.paused_since is not None:
        yield Alarm(
            _PAUSE,
            "Everything is paused",
            "Nothing new is recorded. What runs goes on, and runs by hand start.",
            figures.paused_since,
        )


def _make_still(queue: QueueFigures, now: datetime) -> Alarm:
    return Alarm(
        _QUEUE,
        f"No worker takes anything from {queue.queue.value}",
        f"{_tell_waiting(queue, now)}. {_SAFE}",
        queue.since,
        queue.queue,
    )


def _make_behind(queue: QueueFigures, now: datetime) -> Alarm:
    workers = "1 worker" if queue.workers == 1 else f"{queue.workers} workers"
    return Alarm(
        _QUEUE,
        f"{queue.queue.value} is behind",
        f"{_tell_waiting(queue, now)}, although {workers} take from it:"
        " too few, or busy with something long.",
        queue.since,
        queue.queue,
    )


def _tell_waiting(queue: QueueFigures, now: datetime) -> str:
    assert queue.since is not None  # something waits in it
    many = "1 operation waits" if queue.waiting == 1 else f"{queue.waiting} wait"
    return f"{many}, the oldest for {format_age(now - queue.since)}"


def is_tick_late(figures: Figures) -> bool:
    """Return whether the leader should have ticked since it last did."""
    last = max(
        (each for each in (figures.last_tick_at, figures.leads_since) if each),
        default=None,
    )
    return last is not None and figures.now - last > TICK_LATE_AFTER


def _make_headline(
    figures: Figures, alarms: Sequence[Alarm], stuck: _Stuck, troubles: Sequence[str]
) -> str:
    """Name the gravest thing alone: the rest of the page has the others."""
    kinds = {each.kind for each in alarms}
    for kind, headline in _GRAVEST:
        if kind in kinds:
            return headline
    if stuck.still:
        verb = "stands" if len(stuck.still) == 1 else "stand"
        return f"On time, but {_join(stuck.still)} {verb} still."
    if stuck.behind:
        verb = "is" if len(stuck.behind) == 1 else "are"
        return f"On time, but {_join(stuck.behind)} {verb} behind."
    if _PAUSE in kinds:
        return "Everything is paused."
    return _make_calm_headline(figures, troubles)


_GRAVEST = (
    (_LEADER, "Nobody leads: nothing is scheduled or sent."),
    (_TICK, "The scheduler does not tick."),
    (_BROKER, "Ticking, but the broker takes nothing."),
)


def _make_calm_headline(figures: Figures, troubles: Sequence[str]) -> str:
    """Say what went wrong lately, where everything works now."""
    if not figures.has_actions:
        return "Ticking. Nothing is scheduled yet."
    if figures.failed is None or figures.missed is None:
        return "On time, but what went wrong cannot be read."
    if troubles:
        return f"On time, but {troubles[0]}."
    if figures.silent:
        workers = "1 worker is" if figures.silent == 1 else f"{figures.silent} are"
        return f"On time, but {workers} silent."
    return "On time, and nothing went wrong since yesterday."


def _list_troubles(figures: Figures) -> Iterator[str]:
    """Say what went wrong within a day, the gravest first."""
    if figures.failed:
        runs = _count(figures.failed, "run", "runs")
        yield f"{runs} failed, of {_count(figures.causes, 'cause', 'causes')}"
    if figures.missed:
        was = "was" if figures.missed == 1 else "were"
        yield f"{_count(figures.missed, 'occurrence', 'occurrences')} {was} missed"
    if figures.uncertain:
        mails = "mail is" if figures.uncertain == 1 else "mails are"
        yield f"{figures.uncertain:,} {mails} uncertain"
    if figures.quarantined:
        actions = _count(figures.quarantined, "action", "actions")
        are = "is" if figures.quarantined == 1 else "are"
        yield f"{actions} {are} quarantined"


def _make_text(
    figures: Figures, alarms: Sequence[Alarm], troubles: Sequence[str]
) -> str:
    kinds = {each.kind for each in alarms}
    fine = ""
    if not kinds & {_LEADER, _TICK, _BROKER}:
        fine = "The scheduler ticks and records everything. "
        if figures.last_tick_at is None:
            fine = "A scheduler leads; its first tick comes within a minute. "
    if not figures.has_actions and not troubles:
        return f"{fine}Nothing is due, because there is no action."
    if figures.failed is None or figures.missed is None:
        return f"{fine}What failed or was missed could not be read just now."
    told = [*troubles]
    if figures.skipped:
        was = "was" if figures.skipped == 1 else "were"
        told.append(f"{figures.skipped:,} {was} skipped")
    if figures.late:
        told.append(f"{figures.late:,} began late")
    if not told:
        return f"{fine}Since yesterday at this time nothing failed or was missed."
    return f"{fine}Since yesterday at this time {'; '.join(told)}."


def _count(number: int, one: str, many: str) -> str:
    return f"1 {one}" if number == 1 else f"{number:,} {many}"


def _join(queues: Sequence[QueueFigures]) -> str:
    names = [each.queue.value for each in queues]
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} and {names[-1]}"
