"""
What must hold after every commit, whoever made it.

Reads what the commit changed (see database.py) and keeps just enough of the past to
judge it: whose claim is whose, which mails are marked, what was decided.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from models.back_off import LEASE
from models.fields.duration import Duration
from models.occurrence import str_to_uuid
from models.operation_state import (
    FINAL_STATES,
    LIVE_STATES,
    TRANSITIONS,
    OperationState,
    Reason,
    Trigger,
)
from tests.simulation.database import SimulatedDatabase
from tests.simulation.loop import Process
from tests.simulation.own_tasks import TaskRecord

Entry = tuple[Any, ...]

#: Every allowed move of a delivery mark.
_MARKS = {
    None: {"sending"},
    "sending": {"sent", "failed", "uncertain"},
    "failed": {"sending"},
    "uncertain": {"uncertain"},
    "sent": set[str](),
}

#: The most that a tick may be late while the database answers; see README.md.
LATE = timedelta(seconds=2)

_FINAL = frozenset(state.value for state in FINAL_STATES)


class InvariantError(AssertionError):
    """Something happened that must never happen."""


@dataclass(frozen=True, slots=True)
class Missed:
    """A range of occurrences recorded as missed; texts as SQLite keeps times."""

    action_uid: str
    first: str
    last: str
    recorded_at: str


@dataclass(eq=False)
class Invariants:
    """
    Judges commits.

    Args:
        database: Asked for the few things that the log does not say.
        clock_goes_back: Whether the database's clock may be set back in this world.
        punctual_until: Until then, no tick of a leader is late but its first.
    """

    database: SimulatedDatabase
    clock_goes_back: bool
    punctual_until: datetime
    owners: dict[str, Process] = field(default_factory=dict)
    decided: dict[tuple[str, ...], str] = field(default_factory=dict)
    missed: list[Missed] = field(default_factory=list)
    marks: dict[tuple[str, str, str], str] = field(default_factory=dict)
    mails: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    ticks: list[str] = field(default_factory=list)
    ended: list[tuple[str, str]] = field(default_factory=list)
    tasks: TaskRecord = field(default_factory=TaskRecord)
    reopened: set[str] = field(default_factory=set)
    claims: int = 0
    checked: int = 0

    def judge(self, process: Process, entries: Sequence[Entry]) -> None:
        """
        Judge what one commit of *process* has changed.

        Raises:
            InvariantError: Naming the promise that was broken.
        """
        self.checked += 1
        held = {
            entry[2]
            for entry in entries
            if entry[1] == "operation"
            and (self._owns(process, entry[5]) or entry[6] not in {None, entry[5]})
        }
        for entry in entries:
            judge = _JUDGES[entry[1]]
            judge(self, process, entry, held)
        kinds = {entry[1] for entry in entries}
        if process.kind == "scheduler" and kinds & {"recorded", "operation", "moved"}:
            self._check_fence(process)

    def expect_mail(self, message_id: str, taken: int) -> None:
        """Judge a mail that the server is about to take, after *taken* others."""
        insist(taken == 0, f"mail {message_id} was sent twice")
        mark = self.marks.get(self.mails.get(message_id, ("", "", "")))
        # Whoever took the operation over may have made the mark uncertain by now.
        insist(
            mark in {"sending", "uncertain"},
            f"mail {message_id} left while its mark was {mark}",
        )

    def _owns(self, process: Process, token: str | None) -> bool:
        return token is not None and self.owners.get(token) is process

    def _check_fence(self, process: Process) -> None:
        (current,) = self.database.raw.execute("SELECT fence FROM leases").fetchone()
        believed = process.runs.leader.fence
        insist(
            believed == current,
            f"{process.name} wrote under fence {believed}, the leader's is {current}",
        )

    def _recorded(self, process: Process, entry: Entry, _held: set[str]) -> None:
        _n, _what, id_, action, occurrence, user, state, reason, fence, trigger = entry[
            :10
        ]
        details, now = entry[10], entry[11]
        if trigger == Trigger.ACTION:
            return  # whoever ends the other one; judged in the end
        by_leader = process.kind == "scheduler"
        insist((fence is not None) == by_leader, f"{id_} recorded under {fence}")
        if by_leader:
            self._check_revision(id_, action)
        if trigger in {"manual", "notice"}:
            return  # of no occurrence
        if reason == Reason.OVERTAKEN:
            return  # a range, which the audit judges in the end
        if details and state == OperationState.MISSED:
            said = json.loads(details)
            missed = Missed(action, _text(said["first"]), _text(said["last"]), now)
            self.missed.append(missed)
            self._check_missed(missed, said["count"], is_of_event=trigger == "event")
            return
        key = (action, occurrence, user or "")
        insist(
            key not in self.decided,
            f"{key} was decided twice: {self.decided.get(key)} and {id_}",
        )
        self.decided[key] = id_
        if not self.clock_goes_back:
            insist(occurrence <= now, f"{key} was recorded before it was due")
        if state == OperationState.SKIPPED and reason == "overlap":
            self._check_overlap(id_, action, user)

    def _check_missed(self, missed: Missed, count: int, *, is_of_event: bool) -> None:
        """What was decided before is not missed, whatever the clock did since."""
        uid, first, last, _now = astuple(missed)
        (ran,) = self.database.raw.execute(
            "SELECT count(*) FROM operations WHERE action_uid = ? AND details IS NULL"
            " AND trigger IN ('schedule', 'event') AND occurrence BETWEEN ? AND ?",
            (uid, first, last),
        ).fetchone()
        insist(
            not ran if not is_of_event else count + ran <= self._count_events(missed),
            f"{missed} has {count} occurrences besides the {ran} that were decided",
        )

    def _count_events(self, missed: Missed) -> int:
        """Return how many events lead to the occurrences of *missed*."""
        rows = self.database.raw.execute(
            "SELECT e.at, a.delay FROM scheduled_actions a JOIN events e"
            " ON e.app = a.app AND e.name = a.event WHERE a.uid = ?",
            (missed.action_uid,),
        ).fetchall()
        occurrences = [
            datetime.fromisoformat(at).replace(microsecond=0)
            + Duration.parse(delay or "PT0S").elapsed
            for at, delay in rows
        ]
        first, last = map(datetime.fromisoformat, (missed.first, missed.last))
        return sum(first <= each <= last for each in occurrences)

    def _check_turn(self, id_: str) -> None:
        """Of an action and user with ``overlap: queue``, one has begun at a time."""
        before = self.database.raw.execute(
            "SELECT other.id, other.state FROM operations o JOIN operations other"
            " ON other.action_uid = o.action_uid AND other.user_id IS o.user_id"
            " AND other.overlap = 'queue' AND other.id <> o.id"
            " WHERE o.id = ? AND o.overlap = 'queue' AND (other.claim_token NOT NULL"
            " OR other.state IN ('pending', 'queued') AND other.started_at NOT NULL"
            " AND other.recorded_at < o.recorded_at)",
            (id_,),
        ).fetchone()
        insist(before is None, f"{id_} was claimed beside {before}")

    def _check_revision(self, id_: str, action: str) -> None:
        decided, current = self.database.raw.execute(
            "SELECT o.action_revision, a.revision FROM operations o"
            " JOIN scheduled_actions a ON a.uid = o.action_uid WHERE o.id = ?",
            (id_,),
        ).fetchone()
        insist(
            decided == current,
            f"{id_} was decided under revision {decided} of {action}, now {current}",
        )

    def _check_overlap(self, id_: str, action: str, user: str | None) -> None:
        states = ", ".join(f"'{state}'" for state in sorted(LIVE_STATES))
        live = self.database.raw.execute(
            f"SELECT count(*) FROM operations WHERE action_uid = ? AND user_id IS ?"
            f" AND state IN ({states})",
            (action, user),
        ).fetchone()
        insist(live[0] > 0, f"{id_} was skipped, but nothing of {action} is live")

    def _operation(self, process: Process, entry: Entry, _held: set[str]) -> None:
        _n, _what, id_, old, new, token, new_token, lease = entry[:8]
        new_lease, tries, more, now = entry[8:12]
        if (old, token, lease, tries) == (new, new_token, new_lease, more):
            return  # when it was sent, or how far it is
        if old != new:
            allowed = TRANSITIONS[OperationState(old)]
            insist(OperationState(new) in allowed, f"{id_} went from {old} to {new}")
        if new_token is not None and new_token != token:
            self.claims += 1
            self.owners[new_token] = process
            insist(
                token is None or lease <= now,
                f"{id_} was claimed while the claim of another was live",
            )
            insist(more == tries + 1, f"{id_}: attempt {tries}, then {more}")
            insist(process.kind == "worker", f"{process.name} claimed {id_}")
            self._check_turn(id_)
        elif token is not None and not self._owns(process, token):
            ran_out = process.kind == "scheduler" and lease <= now
            # Canceled, and perhaps reopened: that leaves the claim as it is.
            asked = process.kind == "people" and (token, lease) == (
                new_token,
                new_lease,
            )
            dated_back = (
                process.kind == "scheduler"
                and (old, token) == (new, new_token)
                and _lies_ahead(lease, now, LEASE)
                and not _lies_ahead(new_lease, now, LEASE)
            )
            told = new_token is None and bool(self.tasks.find_told((UUID(id_), more)))
            insist(
                (new_token is None and ran_out) or asked or dated_back or told,
                f"{process.name} changed {id_} ({old} to {new}), claimed by another",
            )
        if new == OperationState.QUEUED and old != new:
            insist(process.kind == "scheduler", f"{process.name} queued {id_}")
        if old in _FINAL and old != new:
            insist(process.kind == "people", f"{process.name} reopened {id_}")
            self.reopened.add(id_)

    def _went_on(self, _process: Process, entry: Entry, _held: set[str]) -> None:
        fault = self.tasks.find_fault(entry)
        early = fault is not None and "deadline" in fault and self.clock_goes_back
        insist(fault is None or early, str(fault))

    def _ended_again(self, process: Process, entry: Entry, _held: set[str]) -> None:
        id_, before, now = entry[2:5]
        msg = f"{process.name} ended {id_} at {now}, which had ended at {before}"
        raise InvariantError(msg)

    def _step(self, process: Process, entry: Entry, held: set[str]) -> None:
        id_, name, old, new = entry[2:6]
        insist(old != "succeeded", f"step {name} of {id_} had succeeded, is {new}")
        self._check_held(process, id_, held, f"step {name}")

    def _mark(self, process: Process, entry: Entry, held: set[str]) -> None:
        id_, step, recipient, old, new = entry[2:7]
        insist(
            new in _MARKS[old], f"{id_}: the mark of {recipient} from {old} to {new}"
        )
        self._check_held(process, id_, held, f"the mark of {recipient}")
        key = (id_, step, recipient)
        self.marks[key] = new
        if old is None:
            text = f"{UUID(id_)} | {step} | {recipient}"
            self.mails[f"{str_to_uuid(text)}@minutehand"] = key

    def _effect(self, process: Process, entry: Entry, held: set[str]) -> None:
        insist(len(held) == 1, f"{process.name}: {entry[3]} without a claim")

    def _check_held(
        self, process: Process, id_: str, held: set[str], what: str
    ) -> None:
        """Workers write under their claim alone; others only close what is final."""
        if process.kind == "worker":
            insist(id_ in held, f"{process.name} wrote {what} of {id_} without claim")

    def _lease(self, process: Process, entry: Entry, _held: set[str]) -> None:
        holder, new_holder, fence, new_fence, expires, _new_expires = entry[3:9]
        ticked, new_ticked, now = entry[9:12]
        if new_ticked != ticked:
            self.ticks.append(new_ticked)
            self.ended.append((new_ticked, now))
            self._check_fence(process)
            self._check_minute(ticked, new_ticked)
        if holder is None or new_holder == holder:
            return
        believed = process.runs.leader.fence
        may_end = (
            expires <= now
            or (new_holder is None and believed == fence)
            or _lies_ahead(expires, now, 2 * LEASE)
        )
        insist(
            may_end, f"{process.name} ended the lease of fence {fence} before its time"
        )
        if new_holder is not None:
            insist(new_fence == fence + 1, f"fence {fence} was followed by {new_fence}")

    def _check_minute(self, ticked: str | None, new_ticked: str) -> None:
        """A tick begins with its minute, while the database answers."""
        after, at = (
            datetime.fromisoformat(each) for each in (ticked or new_ticked, new_ticked)
        )
        if self.clock_goes_back or not after < at < self.punctual_until:
            return  # the first, or that of a clock that was set back
        due_at = after.replace(second=0, microsecond=0) + timedelta(minutes=1)
        insist(at - due_at <= LATE, f"the tick of {due_at} began at {at}")

    def _anything(self, _process: Process, _entry: Entry, _held: set[str]) -> None:
        """Accept it; the fence is judged for all of a commit."""

    def _deleted(self, _process: Process, entry: Entry, _held: set[str]) -> None:
        raise InvariantError(f"operation {entry[2]} is gone")


Judge = Callable[[Invariants, Process, Entry, set[str]], None]

_JUDGES: dict[str, Judge] = {
    "recorded": Invariants._recorded,
    "operation": Invariants._operation,
    "went on": Invariants._went_on,
    "ended again": Invariants._ended_again,
    "deleted": Invariants._deleted,
    "step": Invariants._step,
    "mark": Invariants._mark,
    "effect": Invariants._effect,
    "lease": Invariants._lease,
    "moved": Invariants._anything,
}


def _lies_ahead(expires: str, now: str, most: timedelta) -> bool:
    """Tell whether a lease has its heartbeat from before the clock was set back."""
    return datetime.fromisoformat(expires) - datetime.fromisoformat(now) > most


def insist(holds: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    """Raise unless it *holds*."""
    if not holds:
        raise InvariantError(otherwise)


def _text(instant: str) -> str:
    """Return an ISO text as SQLite keeps times, so that texts compare."""
    return instant.replace("T", " ").replace("Z", ".000000+00:00")
