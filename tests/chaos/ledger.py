"""Whether an installation that was hurt kept what we promise, fault by fault."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.audit import audit_action
from actions.explaining.history import fetch_histories
from actions.lease import get_last_tick_at
from models.database.engine import reading
from models.database.tables import (
    deliveries,
    operation_steps,
    operations,
    scheduled_action_revisions,
)
from models.occurrence import str_to_uuid
from models.operation_state import (
    FINAL_STATES,
    TRANSITIONS,
    MailState,
    OperationState,
    Overlap,
    Queue,
    Reason,
    StepState,
    Trigger,
)
from tests.chaos.apps import USERS
from tests.chaos.case import Case
from tests.database import execute

#: What no tick exceeds while the database answers and somebody leads.
LATE = timedelta(seconds=2)

#: For so long what happened is felt: a message counts as lost after two minutes.
FELT = timedelta(minutes=3)

#: For so long nobody may lead, or a process may still look for the database.
LEADERLESS = timedelta(seconds=15)

_SCHEDULERS = ("scheduler-1", "scheduler-2")
_WORKERS = ("quick-1", "quick-2", "heavy", "sender")
_OF_DATABASE = ("PostgreSQL", "PgBouncer", "clock", "grant")
_THEIRS = ("their worker", "their Redis")

#: From these an operation goes back to pending for another attempt.
_BEGUN = {*FINAL_STATES, OperationState.RUNNING}

Rows = Sequence[sa.Row[Any]]


@dataclass
class Happening:
    """
    Something that was done to the installation.

    Args:
        ended_at: Aware UTC. None: it lasts.
    """

    what: str
    who: str
    begun_at: datetime
    ended_at: datetime | None = None

    def meets(
        self, since: datetime, until: datetime, *, felt: timedelta = FELT
    ) -> bool:
        """Tell whether it was felt between *since* and *until*."""
        ended = self.ended_at is None or self.ended_at + felt >= since
        return ended and self.begun_at <= until + LATE


@dataclass(frozen=True, slots=True)
class Broken:
    """
    A promise that was not kept.

    Args:
        operation_id: Of which operation; None: of one that is missing, or of none.
        occurrence: Aware UTC; of one that is missing, or decided wrongly.
    """

    text: str
    operation_id: UUID | None = None
    occurrence: datetime | None = None


#: How many of what, by subject, such as operations by state.
Counts = dict[str, Counter[str]]

_JOURNAL = """
    create schema chaos;
    create table chaos.moves (
        number bigserial primary key,
        operation_id uuid,
        old text,
        new text,
        sends integer,
        at timestamptz default clock_timestamp()
    );
    create function chaos.note() returns trigger language plpgsql security definer as $$
    begin
        if tg_op = 'INSERT' then
            insert into chaos.moves (operation_id, new, sends)
            values (new.id, new.state, new.sends);
        elsif old.state <> new.state or old.sends <> new.sends then
            insert into chaos.moves (operation_id, old, new, sends)
            values (new.id, old.state, new.state, new.sends);
        end if;
        return null;
    end $$;
    create trigger chaos after insert or update of state, sends on operations
    for each row execute function chaos.note();
"""


def open_journal(engine: sa.Engine) -> None:
    """Let the database keep each move and send of an operation, whoever does it."""
    execute(engine, sa.text(_JOURNAL))


@dataclass
class Ledger:
    """
    All that is known at the end; nothing runs any more.

    Args:
        rows: Of operations.
        moves: What the journal has of each operation, oldest first.
        asked: What the actions ask for, by uid.
        happenings: All that was done.
        reopened: Operations that people tried again, as often as they did.
        ran: Ids of the tasks of the project, as often as each ran.
        begun_at: Aware UTC; the work began.
    """

    rows: Rows
    moves: Mapping[UUID, Rows]
    asked: Mapping[str, Mapping[str, Any]]
    happenings: Sequence[Happening]
    reopened: Counter[UUID]
    ran: Counter[str]
    begun_at: datetime
    duplicates: Counter[str] = field(default_factory=Counter)
    ticks: Counter[str] = field(default_factory=Counter)

    def judge(self) -> Iterator[Broken]:
        """Find what is wrong, but for audit, steps and mails."""
        yield from self._judge_ends()
        yield from self._judge_moves()
        yield from self._judge_tasks()
        yield from self._judge_sends()
        yield from self._judge_ticks()

    def _explain(
        self, row: sa.Row[Any], *whose: str, at: datetime | None = None
    ) -> str | None:
        """
        Return what happened last to one of *whose* before *at*.

        Args:
            row: An operation, in whose life it was felt.
            at: Aware UTC. None: the end of the operation.
        """
        at = at or self.moves[row.id][-1].at
        found = [
            each
            for each in self.happenings
            if each.who in whose and each.meets(row.recorded_at, at)
        ]
        last = max(found, key=lambda each: each.begun_at, default=None)
        return None if last is None else f"{last.what} {last.who}"

    def _judge_ends(self) -> Iterator[Broken]:
        """Find what failed or was missed; no app gives it a reason to."""
        for row in self.rows:
            if row.state not in {OperationState.FAILED, OperationState.MISSED}:
                continue
            reason = (row.reason or "").partition(":")[0]
            whose: tuple[str, ...] = ()
            if reason in {Reason.WORKER_LOST, Reason.PROCESS_KILLED}:
                whose = (*_WORKERS, *_OF_DATABASE)
            elif "nothing told of the end" in (row.error or ""):
                whose = (*_THEIRS, *_SCHEDULERS, *_OF_DATABASE)
            if self._explain(row, *whose) is None:
                text = f"operation {row.id} is {row.state}: {row.reason}; {row.error}"
                yield Broken(text, row.id)

    def _judge_moves(self) -> Iterator[Broken]:
        """Find what ended twice, or went a way that there is not."""
        for row in self.rows:
            ends = again = 0
            before: OperationState | None = None
            for move in self.moves[row.id]:
                old = None if move.old is None else OperationState(move.old)
                new = OperationState(move.new)
                if old != before or (old != new and new not in TRANSITIONS[old]):
                    text = f"operation {row.id} went from {before} by {old} to {new}"
                    yield Broken(text, row.id)
                again += old in FINAL_STATES and new not in FINAL_STATES
                ends += old not in FINAL_STATES and new in FINAL_STATES
                before = new
            if before != row.state:
                yield Broken(f"operation {row.id} is {row.state}, was {before}", row.id)
            if again > self.reopened[row.id] or ends > again + 1:
                text = f"operation {row.id} ended {ends} times, reopened {again} times"
                yield Broken(text, row.id)

    def _judge_tasks(self) -> Iterator[Broken]:
        """Compare operations with the tasks of the project that ran."""
        known = set()
        for row in self.rows:
            task = self.asked.get(row.action_uid, {}).get("run_task")
            if task is None:
                continue
            task_id = str(str_to_uuid(f"{row.id} | run_task"))
            known.add(task_id)
            runs = self.ran[task_id]
            if not runs and row.state == OperationState.SUCCEEDED:
                if task["wait"]:
                    text = f"operation {row.id} succeeded, and its task never ran"
                    yield Broken(text, row.id)
                elif self._explain(row, *_THEIRS) is None:
                    yield Broken(f"the task of {row.id} was sent, never ran", row.id)
            extra = runs - 1 - self.reopened[row.id]
            if extra <= 0:
                continue
            who = self._explain(row, *_THEIRS, *_SCHEDULERS, *_WORKERS, *_OF_DATABASE)
            self.duplicates[f"of tasks after {who}"] += extra
            if who is None:
                yield Broken(f"the task of {row.id} ran {runs} times", row.id)
        for task_id in self.ran.keys() - known:
            yield Broken(f"task {task_id} belongs to nothing")

    def _judge_sends(self) -> Iterator[Broken]:
        """Find messages that were sent again, but for another attempt."""
        for row in self.rows:
            must_wait = row.queue not in {Queue.QUICK, Queue.TASKS}
            if must_wait or row.overlap == Overlap.QUEUE:
                continue  # one that has to wait for another after all is given back
            moves = self.moves[row.id]
            again = sum(
                move.new == OperationState.PENDING and move.old in _BEGUN
                for move in moves
            )
            extra = row.sends - 1 - again
            if extra <= 0:
                continue
            whose = _THEIRS if row.queue == Queue.TASKS else ("Redis", *_WORKERS)
            last = min(move.at for move in moves if move.sends == row.sends)
            who = self._explain(row, *whose, *_SCHEDULERS, *_OF_DATABASE, at=last)
            self.duplicates[f"of messages after {who}"] += extra
            if who is None:
                text = f"operation {row.id} was sent {row.sends} times"
                yield Broken(text, row.id)

    def _judge_ticks(self) -> Iterator[Broken]:
        """Find ticks that were late though the database answered, and somebody led."""
        first: dict[datetime, datetime] = {}
        for row in self.rows:
            at = row.occurrence
            if row.trigger != Trigger.SCHEDULE or at < self.begun_at or at.second:
                continue
            first[at] = min(row.recorded_at, first.get(at, row.recorded_at))
        for at, recorded_at in sorted(first.items()):
            if any(
                each.who in (*_SCHEDULERS, *_OF_DATABASE)
                and each.meets(at, at, felt=LEADERLESS)
                for each in self.happenings
            ):
                continue
            late_ms = (recorded_at - at) // timedelta(milliseconds=1)
            self.ticks["minutes"] += 1
            self.ticks["ms late at most"] = max(self.ticks["ms late at most"], late_ms)
            if recorded_at - at > LATE:
                text = f"the tick of {at:%H:%M} was late by {recorded_at - at}"
                yield Broken(text, occurrence=at)


def read_tasks(path: Path) -> Counter[str]:
    """Return the ids of the project's tasks in its log, as often as each ran."""
    lines = path.read_text().splitlines()
    # One that was killed as it wrote leaves half a line, and runs again.
    return Counter(str(json.loads(line)[0]) for line in lines if line.endswith("]"))


def judge(
    engine: sa.Engine,
    cases: Sequence[Case],
    messages: Sequence[EmailMessage],
    *,
    since: datetime,
    **known: Any,
) -> tuple[Counts, list[str]]:
    """
    Compare tables, rules, mails and tasks; tell each case what is wrong of it.

    Args:
        engine: Of a database to which nobody writes any more.
        messages: Mails that arrived.
        since: Aware UTC; all actions are in force since then.
        known: What ``Ledger`` cannot read there.

    Returns:
        What happened, and what is wrong and of no fault in particular.
    """
    revision = scheduled_action_revisions.c
    with reading(engine) as connection:
        rows = connection.execute(sa.select(operations)).all()
        marks = connection.execute(sa.select(deliveries)).all()
        steps = connection.execute(sa.select(operation_steps)).all()
        documents = connection.execute(sa.select(revision.uid, revision.document))
        asked = {uid: document["operations"] for uid, document in documents}
        moves = defaultdict(list)
        for move in connection.execute(
            sa.text("select * from chaos.moves order by number")
        ):
            moves[move.operation_id].append(move)
        until = get_last_tick_at(connection)
    assert until is not None  # it has ticked
    ledger = Ledger(rows, moves, asked, **known)
    broken = [
        *audit(engine, since, until, at_least=len(asked) // 3),
        *judge_steps(rows, steps),
        *judge_mails(messages, rows, marks),
        *ledger.judge(),
    ]
    overall = attribute(broken, {row.id: row.recorded_at for row in rows}, cases)
    _judge_asked(cases, {row.id: row.state for row in rows})
    counts = {
        "Operations": Counter(row.state for row in rows),
        "Messages": Counter({"sent": sum(row.sends for row in rows)}),
        "Mails": Counter({"arrived": len(messages), **Counter(m.state for m in marks)}),
        "Their tasks": Counter({"ran": ledger.ran.total()}),
        "Done": Counter(f"{each.what} {each.who}" for each in ledger.happenings),
        "Duplicates of sends": ledger.duplicates,
        "Ticks while somebody could": ledger.ticks,
    }
    return counts, overall


def audit(
    engine: sa.Engine, since: datetime, until: datetime, *, at_least: int
) -> Iterator[Broken]:
    """Compare the rules with the record, of *at_least* so many actions."""
    audited = 0
    for history in fetch_histories(engine, since=since, until=until):
        if not history.is_of_time:
            continue
        audited += 1
        strict = replace(history, catches_up=False)
        for finding in audit_action(strict, since=since, until=until):
            yield Broken(f"audit: {finding}", occurrence=finding.occurrence)
    if audited < at_least:
        yield Broken(f"audit: only {audited} actions were audited")


def judge_steps(rows: Rows, steps: Rows) -> Iterator[Broken]:
    """Compare operations with their steps."""
    final = {row.id: row for row in rows if row.state in FINAL_STATES}
    for row in rows:
        if row.id not in final:
            yield Broken(f"operation {row.id} is still {row.state}", row.id)
        elif row.state != OperationState.SUCCEEDED and not row.reason:
            text = f"operation {row.id} is {row.state} and nobody can say why"
            yield Broken(text, row.id)
        if row.attempt > row.attempts_allowed:
            text = f"operation {row.id} was tried {row.attempt} times"
            yield Broken(text, row.id)
    for step in steps:
        if step.operation_id not in final:
            continue
        row = final[step.operation_id]
        text = f"step {step.name} of {row.id} is {step.state}, and it "
        if step.state in {StepState.PENDING, StepState.RUNNING}:
            yield Broken(f"{text}is {row.state}", row.id)
        if row.state == OperationState.SUCCEEDED and step.state != StepState.SUCCEEDED:
            yield Broken(f"{text}succeeded", row.id)


def judge_mails(
    messages: Iterable[EmailMessage], rows: Rows, marks: Rows
) -> Iterator[Broken]:
    """Compare what arrived with the marks, and marks with who should have a mail."""
    arrived = Counter(str(mail["Message-ID"]).strip() for mail in messages)
    states = {row.id: row.state for row in rows}
    known = set()
    marked: dict[UUID, set[str]] = defaultdict(set)
    for mark in marks:
        operation_id = mark.operation_id
        # by the documented rule, not by the code that sends
        name = f"{operation_id} | send_email | {mark.recipient}"
        message_id = f"<{str_to_uuid(name)}@minutehand>"
        known.add(message_id)
        marked[operation_id].add(mark.recipient)
        where = f"mail to {mark.recipient!r} of {operation_id}"
        count = arrived[message_id]
        if count > 1:
            yield Broken(f"{where} arrived {count} times", operation_id)
        if mark.state == MailState.SENT and not count:
            text = f"{where} is marked as sent, and none arrived"
            yield Broken(text, operation_id)
        if mark.state == MailState.FAILED and count:
            text = f"{where} is marked as failed, and arrived"
            yield Broken(text, operation_id)
        if mark.state == MailState.FAILED and states[operation_id] == "succeeded":
            yield Broken(f"{where} failed, and it succeeded", operation_id)
        if mark.state == MailState.SENDING:
            yield Broken(f"{where} is still said to be on its way", operation_id)
    for message_id in arrived.keys() - known:
        yield Broken(f"mail {message_id} belongs to nothing")
    for row in rows:
        if row.state == OperationState.SUCCEEDED and marked.get(row.id):
            expected = set(USERS) if row.user_id is None else {row.user_id}
            if missing := expected - marked[row.id]:
                text = f"operation {row.id} succeeded without mails to {missing}"
                yield Broken(text, row.id)


def attribute(
    broken: Sequence[Broken], recorded: Mapping[UUID, datetime], cases: Sequence[Case]
) -> list[str]:
    """
    Tell each case what is *broken* of operations recorded while it was the last.

    Args:
        recorded: When each operation was, aware UTC.
        cases: In the order in which they began.

    Returns:
        What belongs to none of them.
    """
    rest: list[str] = []
    for each in broken:
        at = each.occurrence
        if each.operation_id is not None:
            at = recorded.get(each.operation_id)
        before = [case for case in cases if at is not None and case.begun_at <= at]
        (before[-1].wrong if before else rest).append(each.text)
    return rest


def _judge_asked(cases: Sequence[Case], states: Mapping[UUID, str]) -> None:
    """Tell each case whether what was asked for because of it came through."""
    good = {OperationState.SUCCEEDED, OperationState.SKIPPED}
    for case in cases:
        ends = Counter(states.get(each, "lost") for each in case.must_end)
        if case.must_end:
            came = sum(count for state, count in ends.items() if state in good)
            case.notes.append(f"{came} of {len(case.must_end)} asked for came through")
        if "lost" in ends or (case.is_strict and set(ends) - good):
            case.wrong.append(f"of those asked for: {dict(ends)}")
