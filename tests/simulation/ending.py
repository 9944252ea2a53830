"""
What must hold in the end: nothing is left over, nothing is unexplained.

The decisions are judged by actions/explaining/audit.py, an independent reading.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING
from uuid import UUID

import sqlalchemy as sa

from actions.explaining.audit import AuditFault, Fault, audit_action, audit_event_action
from actions.explaining.history import fetch_histories
from actions.pausing.pause_and_resume import pause_action
from models.database.engine import reading, writing
from models.database.tables import (
    IS_REVISION,
    deliveries,
    events,
    notices,
    operation_steps,
    operations,
    scheduled_action_revisions,
    scheduled_actions,
)
from models.fields.duration import Duration
from models.occurrence import make_after_id, make_operation_id
from models.operation_state import ENDINGS, LIVE_STATES, Trigger
from tests.simulation.invariants import insist
from tests.simulation.scenario import APP

if TYPE_CHECKING:
    from tests.simulation.world import World


def count_live(world: World) -> int:
    """Return how many operations are not final."""
    query = sa.select(sa.func.count()).where(
        operations.c.state.in_(sorted(state.value for state in LIVE_STATES))
    )
    with reading(world.engine) as connection:
        return connection.execute(query).scalar_one()


def count_late(world: World) -> int:
    """Return how many operations were late."""
    with reading(world.engine) as connection:
        return connection.execute(
            sa.select(sa.func.count(operations.c.late))
        ).scalar_one()


def pause_all(world: World) -> None:
    """Let nothing more become due; what was due by the last tick is judged."""
    world.judged_until = datetime.fromisoformat(world.invariants.ticks[-1])
    kept = scheduled_actions.c
    query = sa.select(kept.uid).where(kept.deleted_at.is_(None))
    with writing(world.engine) as connection:
        for uid in connection.execute(query).scalars().all():
            pause_action(connection, uid)


def check_ending(world: World) -> None:
    """
    Judge the world when all is final.

    Raises:
        InvariantError: Naming the promise that was broken.
    """
    _check_decisions(world)
    _check_missed(world)
    _check_events(world)
    _check_following(world)
    _check_mails(world)
    _check_steps(world)
    if world.emphasis.strain:
        _check_side_work(world)
    if world.emphasis.expects:
        _check_lateness(world)


def _check_side_work(world: World) -> None:
    """All that was to be done beside ticks is done."""
    (left,) = world.database.raw.execute(
        "SELECT (SELECT count(*) FROM small_apps WHERE paused_at NOT NULL"
        " OR spread NOT NULL) + (SELECT count(*) FROM leases"
        " WHERE adopting NOT NULL OR recomputed_until NOT NULL)"
    ).fetchone()
    insist(left == 0, "something is left to do beside ticks")


def _check_lateness(world: World) -> None:
    """What was late, and nothing else, was told of once; and that it has ended."""
    kept = operations.c
    with reading(world.engine) as connection:
        runs = connection.execute(
            sa.select(operations, scheduled_action_revisions.c.document)
            .join(scheduled_action_revisions, IS_REVISION)
            .where(kept.state.in_(["succeeded", "failed"]))
        ).all()
        told = connection.scalar(
            sa.select(sa.func.sum(notices.c.count)).where(notices.c.kind == "late")
        )
        going_on = connection.scalar(
            sa.select(sa.func.count()).where(
                notices.c.kind == "late",
                notices.c.closed_at.is_distinct_from(notices.c.told_at),
            )
        )
    for run in runs:
        if "expect" in run.document and str(run.id) not in world.invariants.reopened:
            within = run.trigger in {"schedule", "event"} and (
                run.finished_at > run.occurrence + timedelta(minutes=2)
            )
            is_late = within or run.finished_at > run.started_at + timedelta(seconds=40)
            insist(
                (run.late is not None) == is_late,
                f"{run.id} is{'' if run.late else ' not'} told of as late",
            )
    late = count_late(world)
    insist((told or 0) == late, f"{late} were late, and {told} were told of")
    insist(not going_on, f"the end of what was late was not told {going_on} times")


def _check_decisions(world: World) -> None:
    """One decision for each occurrence, by an independent reading of the rules."""
    until = world.judged_until
    for history in fetch_histories(world.engine, since=world.start, until=until):
        if history.is_of_events and not world.clock_jumps:
            undecided = audit_event_action(
                history,
                since=world.start,
                until=until,
                keeps=lambda _who, _user_id: True,
            )
            insist(not undecided, f"audit: {undecided}")
        if not history.is_of_time:
            continue
        # Where the clock jumps nobody edits; the pause at the end may bear a time
        # before what was decided before it.
        revisions = history.revisions[: 1 if world.clock_jumps else None]
        findings = audit_action(
            replace(history, revisions=revisions),
            since=world.start,
            until=until,
            lookback=world.lookback,
        )
        wrong = [each for each in findings if not _is_excused(world, each)]
        insist(not wrong, f"audit: {wrong}")


def _is_excused(world: World, finding: AuditFault) -> bool:
    """Tell whether the audit, which knows no clock but one that goes on, is wrong."""
    if finding.fault in {Fault.EARLY, Fault.LATE}:
        # Decided by a tick that read the clock before it jumped.
        return world.clock_jumps
    if finding.fault is Fault.DOUBLED and "recorded as missed" in finding.detail:
        # The clock was set back, and an outage followed: what had run before is
        # part of what nobody led through when its time came again.
        return world.clock_jumps
    return False


def _check_missed(world: World) -> None:
    """Nothing inside the window is missed, unless nobody ticked while it was there."""
    if world.clock_jumps:
        return  # a jump forward is an outage as long as itself
    for missed in world.invariants.missed:
        last = datetime.fromisoformat(missed.last)
        recorded_at = datetime.fromisoformat(missed.recorded_at)
        insist(
            last <= recorded_at - world.lookback,
            f"{missed} was recorded as missed inside its window",
        )
        ticks = sorted(map(datetime.fromisoformat, world.invariants.ticks))
        insist(
            not any(
                last <= first and second < last + world.lookback
                for first, second in pairwise(ticks)
            ),
            f"{missed} was recorded as missed, though the leader ticked twice",
        )


def _check_events(world: World) -> None:
    """Every event that an action waits for made one operation."""
    until = world.judged_until - timedelta(minutes=1)
    kept = scheduled_actions.c
    with reading(world.engine) as connection:
        actions = connection.execute(
            sa.select(kept.uid, kept.event, kept.delay, kept.effective_from).where(
                kept.event.is_not(None)
            )
        ).all()
        happened = connection.execute(sa.select(events)).all()
        known = set(connection.execute(sa.select(operations.c.id)).scalars())
    for action in actions:
        delay = Duration.parse(action.delay or "PT0S").elapsed
        for event in happened:
            if event.name != action.event or event.app != APP:
                continue
            occurrence = (event.at + delay).replace(microsecond=0)
            due_at = max(occurrence, event.recorded_at)
            if not action.effective_from <= due_at < until:
                continue
            wanted = make_operation_id(action.uid, occurrence, event.user_id)
            covered = any(m.action_uid == action.uid for m in world.invariants.missed)
            insist(
                wanted in known or covered,
                f"{action.uid}: no decision about {event.user_id} at {occurrence}",
            )


def _check_following(world: World) -> None:
    """Each end that an action waits for started one run, and nothing else did."""
    action = scheduled_actions.c
    with reading(world.engine) as connection:
        rows = connection.execute(sa.select(operations)).all()
        waiting = connection.execute(
            sa.select(
                action.uid, action.follows, action.follows_on, action.effective_from
            ).where(action.follows.is_not(None))
        ).all()
    known = {row.id: row for row in rows}
    for each in waiting:
        for row in rows:
            if (
                row.action_uid != each.follows
                or row.state not in ENDINGS[each.follows_on]
            ):
                continue
            if each.effective_from <= row.finished_at <= world.judged_until:
                wanted = make_after_id(each.uid, row.id)
                insist(wanted in known, f"{each.uid}: nothing followed {row.id}")
    followers = {each.uid: each.follows for each in waiting}
    for row in rows:
        if row.trigger == Trigger.ACTION:
            former = known[UUID(row.details["after"]["operation"])]
            insist(
                followers[row.action_uid] == former.action_uid,
                f"{row.id} follows {former.id} of {former.action_uid}",
            )


def _check_mails(world: World) -> None:
    """Each mail left as its mark says; what nobody knows is marked uncertain."""
    with reading(world.engine) as connection:
        rows = connection.execute(
            sa.select(deliveries, operations.c.state.label("operation_state")).join(
                operations, operations.c.id == deliveries.c.operation_id
            )
        ).all()
    states = {(str(r.operation_id), r.step, r.recipient): r.state for r in rows}
    for message_id, key in world.invariants.mails.items():
        taken = world.mail_server.taken[message_id]
        allowed = {"sent": {1}, "uncertain": {0, 1}, "failed": {0}}
        state = states[key]
        insist(
            state in allowed and taken in allowed[state],
            f"the mail of {key} left {taken} times and is reported as {state}",
        )
    unknown = set(world.mail_server.taken) - set(world.invariants.mails)
    insist(not unknown, f"mails that nobody marked: {unknown}")


def _check_steps(world: World) -> None:
    """Steps of final operations are final; who was to get a mail is accounted for."""
    with reading(world.engine) as connection:
        rows = connection.execute(sa.select(operation_steps)).all()
        marks = connection.execute(
            sa.select(deliveries.c.operation_id, deliveries.c.recipient)
        ).all()
    accounted = {(row.operation_id, row.recipient) for row in marks}
    for row in rows:
        insist(
            row.state in {"succeeded", "failed", "skipped"},
            f"step {row.name} of {row.operation_id} is {row.state} for ever",
        )
        if row.name == "send_email" and row.state == "succeeded":
            ids = (row.memo or {}).get("recipients", {}).get("ids", [])
            lost = [each for each in ids if (row.operation_id, each) not in accounted]
            insist(not lost, f"no mark of {lost} in {row.operation_id}")
