"""
A month of operations, with their steps, mails and log lines.

Each app lives through its occurrences in their order, by the rules of overlap, of one
heavy operation at a time, and of the outage of this night.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from actions.occurrences import find_due
from actions.when.event import event_occurrence
from models.decision import make_triggered_by
from models.fields.delay import Delay
from models.fields.zone import load_zone
from models.occurrence import (
    LOOKBACK,
    make_manual_id,
    make_missed_id,
    make_operation_id,
)
from models.operation_state import OperationState, Reason, Trigger
from tests.seeded.actions import SeededAction
from tests.seeded.apps import People
from tests.seeded.causes import find_cause
from tests.seeded.runs import History, Run, World
from tests.seeded.scene import Scene

_SECOND = timedelta(seconds=1)
_MINUTE = timedelta(minutes=1)
_DAY = timedelta(days=1)

#: Of heavy runs, those that take several times as long as the others.
_SLOW_SHARE = 0.006

#: What an operation had when it was only recorded.
_UNSTARTED: Mapping[str, Any] = {
    "user_id": None,
    "event_at": None,
    "reason": None,
    "attempt": 0,
    "attempts_allowed": 3,
    "kills": 0,
    "sent_at": None,
    "sends": 0,
    "lane": 0,
    "started_at": None,
    "finished_at": None,
    "worker": None,
    "claim_token": None,
    "lease_expires_at": None,
    "progress": None,
    "error": None,
    "details": None,
    "noticed_at": None,
    "fence": 41,
}


@dataclass(frozen=True)
class _Due:
    """An occurrence of an action, as the scheduler or somebody wants it."""

    at: datetime
    action: SeededAction
    trigger: Trigger = Trigger.SCHEDULE
    user_id: str | None = None
    event_at: datetime | None = None
    by: str | None = None


def make_history(
    scene: Scene,
    actions: Sequence[SeededAction],
    people: Mapping[str, People],
    events: Sequence[Mapping[str, Any]],
) -> History:
    """
    Return what the actions did in the last month.

    Args:
        scene: When it is.
        actions: All of them.
        people: The users of each app.
        events: Rows of events, in any order.
    """
    history = History()
    by_app: defaultdict[str, list[SeededAction]] = defaultdict(list)
    for action in actions:
        by_app[action.business.uid].append(action)
    happened: defaultdict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in events:
        happened[row["app"], row["name"]].append(row)
    for app, owned in by_app.items():
        life = _Life(scene, history, people[app])
        life.live(_merge(scene, owned, happened))
    history.operations.sort(key=lambda row: (row["recorded_at"], row["id"]))
    return history


def _merge(
    scene: Scene,
    actions: Sequence[SeededAction],
    happened: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
) -> Iterator[_Due]:
    """Yield everything that was due for *actions*, in order."""
    series = []
    for number, action in enumerate(actions):
        found = (
            _find_times(scene, action)
            if action.schedule is not None
            else _find_events(scene, action, happened)
        )
        series.append([(due.at, number, due) for due in found])
        series.append([(due.at, number, due) for due in _find_asked(scene, action)])
    for _at, _number, due in heapq.merge(*series, key=lambda each: each[:2]):
        yield due


def _get_end(scene: Scene, action: SeededAction) -> datetime:
    """Return until when *action* was due: until its pause, or until now."""
    columns = action.columns
    names = ("paused_at", "quarantined_at", "deleted_at")
    left: list[datetime] = [columns[name] for name in names if columns[name]]
    return min([scene.last_tick, *left])


def _find_times(scene: Scene, action: SeededAction) -> Iterator[_Due]:
    if not action.columns["active"] or action.schedule is None:
        return
    found = find_due(
        action.schedule, action.uid, start=scene.begin, now=_get_end(scene, action)
    )
    special = action.special
    for due in found:
        yield _Due(due.occurrence, action)
    latest = found[-1].occurrence if found else scene.begin
    if special and special.ending and scene.now - latest > 15 * _MINUTE:
        at = scene.last_tick - timedelta(minutes=2, seconds=14)
        yield _Due(at, action, Trigger.MANUAL, by=f"rui@{action.business.host}")


def _find_events(
    scene: Scene,
    action: SeededAction,
    happened: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
) -> Iterator[_Due]:
    columns = action.columns
    if not columns["active"]:
        return
    end = _get_end(scene, action)
    zone = load_zone(columns["zone"])
    found = []
    for event in happened.get((action.business.uid, columns["event"]), ()):
        at = event["at"].replace(microsecond=0)
        if columns["delay"] is not None:
            at = event_occurrence(at, Delay.parse(columns["delay"]), zone)
        if scene.begin <= at <= end:
            due = _Due(at, action, Trigger.EVENT, event["user_id"], event["at"])
            found.append(due)
    yield from sorted(found, key=lambda due: due.at)


def _find_asked(scene: Scene, action: SeededAction) -> Iterator[_Due]:
    """Yield what people ran by hand: little, and more of what they look at."""
    draw = scene.draw("asked", action.uid)
    if action.schedule is None or not action.columns["active"]:
        return
    if action.columns["quarantined_at"] or action.columns["deleted_at"]:
        return
    times = [draw.random() for _ in range(3 if action.special else 1)]
    for share in sorted(times):
        if draw.random() < 0.15:
            at = scene.begin + share * (scene.outage[0] - scene.begin)
            by = f"{draw.choice(('rui', 'vera', 'maria'))}@{action.business.host}"
            yield _Due(at.replace(microsecond=0), action, Trigger.MANUAL, by=by)


class _Life:
    """The life of one app, occurrence by occurrence."""

    def __init__(self, scene: Scene, history: History, people: People) -> None:
        self._scene = scene
        self._history = history
        self._heavy_free_at = scene.begin
        #: When the last heavy one of each app ends: the next is not sent before.
        self._app_free_at: dict[str, datetime] = {}
        self._ends: dict[str, datetime] = {}
        self._missed: dict[str, list[datetime]] = {}
        #: One for all: making another for each run would take longer than the rest.
        self._draw = scene.draw("life of", next(iter(people.by_id)))
        self._world = World(scene, history, people, self._draw)

    def live(self, dues: Iterator[_Due]) -> None:
        """Decide and run each of *dues*, which are in order."""
        begin, end = self._scene.outage
        by_action: dict[str, SeededAction] = {}
        for due in dues:
            by_action[due.action.uid] = due.action
            in_outage = begin < due.at < end
            if in_outage and due.at < end - LOOKBACK and self._is_missed(due):
                self._missed.setdefault(due.action.uid, []).append(due.at)
                continue
            recorded_at = max(due.at, end) if in_outage else due.at
            self._run(due, recorded_at)
        for uid, times in self._missed.items():
            self._record_missed(by_action[uid], times)

    def _is_missed(self, due: _Due) -> bool:
        return bool(due.action.columns["catch_up"] == "none")

    def _record_missed(self, action: SeededAction, times: Sequence[datetime]) -> None:
        first, last = times[0], times[-1]
        recorded_at = self._scene.outage[1] + timedelta(seconds=0.9)
        self._add(
            action,
            _Due(first, action),
            recorded_at,
            id=make_missed_id(action.uid, first),
            state=OperationState.MISSED,
            reason=Reason.OUTAGE,
            finished_at=recorded_at,
            noticed_at=recorded_at,
            details={
                "first": first.isoformat(),
                "last": last.isoformat(),
                "count": len(times),
                "more": False,
            },
        )

    def _add(
        self, action: SeededAction, due: _Due, recorded_at: datetime, **values: Any
    ) -> dict[str, Any]:
        triggered_by = make_triggered_by(action.name)
        is_new = recorded_at >= self._scene.outage[1]
        row = {
            "id": make_operation_id(action.uid, due.at, due.user_id),
            "action_uid": action.uid,
            "action_revision": action.find_revision(due.at),
            "app": action.business.uid,
            "trigger": due.trigger,
            "triggered_by": triggered_by,
            "occurrence": due.at,
            "queue": action.columns["queue"],
            "overlap": action.columns["overlap"],
            "state": OperationState.SUCCEEDED,
            "recorded_at": recorded_at,
            "send_at": recorded_at,
            **_UNSTARTED,
            "user_id": due.user_id,
            "event_at": due.event_at,
            "fence": 42 if is_new else 41,
        }
        if due.trigger is Trigger.MANUAL:
            row["id"] = make_manual_id(action.uid, f"{due.by} {due.at}")
            row["details"] = {"note": "asked for at the desk"}
            row["fence"] = None
        row |= values
        self._history.operations.append(row)
        return row

    def _run(self, due: _Due, decided_at: datetime) -> None:
        scene, action = self._scene, due.action
        draw = self._draw
        recorded_at = decided_at + draw.uniform(0.05, 0.3) * _SECOND
        sent_at = recorded_at + draw.uniform(0.03, 0.25) * _SECOND
        is_heavy = action.columns["queue"] == "heavy"
        ended_at = self._ends.get(action.uid, scene.begin)
        if action.columns["overlap"] == "skip" and ended_at > recorded_at:
            self._add(
                action,
                due,
                recorded_at,
                state=OperationState.SKIPPED,
                reason=Reason.OVERLAP,
                finished_at=recorded_at,
            )
            return
        if is_heavy and self._heavy_free_at > sent_at:
            sent_at = self._heavy_free_at + 0.4 * _SECOND
        if sent_at > scene.now:
            self._ends[action.uid] = scene.now + _DAY
            row = self._add(action, due, recorded_at, state=OperationState.PENDING)
            if self._app_free_at.get(row["app"], scene.begin) <= scene.now:
                row |= {"state": OperationState.QUEUED, "sent_at": recorded_at}
                row["sends"] = 1
            return
        if not is_heavy and sent_at > scene.quick_ended:
            row = self._add(action, due, recorded_at, state=OperationState.QUEUED)
            row |= {"sent_at": sent_at, "sends": 1}
            return
        row = self._add(action, due, recorded_at)
        row |= {"sent_at": sent_at, "sends": 1}
        started_at = sent_at + draw.uniform(0.05, 0.6) * _SECOND
        worker = f"heavy@w{draw.choice((3, 4))}" if is_heavy else "quick@w1"
        row |= {"started_at": started_at, "attempt": 1, "worker": worker}
        cause = find_cause(scene, action, due.at, draw)
        took = action.typical_s * draw.lognormvariate(0, 0.22) * _SECOND
        if is_heavy and draw.random() < _SLOW_SHARE:
            took *= 4
        finished_at = Run(self._world, row, action, cause, took).finish()
        self._ends[action.uid] = finished_at
        if is_heavy:
            self._heavy_free_at = max(self._heavy_free_at, finished_at)
            self._app_free_at[row["app"]] = finished_at
