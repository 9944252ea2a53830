"""Whether operations are sent, taken by workers, and succeed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

import sqlalchemy as sa

from actions.pausing.pause_state import Pause
from actions.read_actions import fetch_left_behind, fetch_quarantined
from models.operation_state import OperationState, Queue
from models.units import format_age, format_count
from operations.fleet.processes import ProcessRole, Seen
from operations.list_operations import fetch_stuck
from operations.sending.order import Message, fetch_sendable
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import UNSENT_AFTER, UNTAKEN_AFTER
from overview.installation import figures

#: Operations that are examined for overdue ones.
_LOOKED_AT = 1000

#: The most kinds of trouble that are named one by one.
_NAMED = 10


def look_at_quarantine(view: View) -> Iterator[Finding]:
    """Look for actions in quarantine, which the tick leaves out."""
    for row in fetch_quarantined(view.connection, app=view.app):
        reason = row.quarantine_reason or ""
        end = "" if reason.endswith((".", "?")) else "."
        found = (
            f"{row.name} (uid {row.uid}, app {row.app}): {reason}{end} Post it again."
        )
        title = "an action is quarantined"
        yield Finding("quarantine", Health.DOUBTFUL, found, title)


def look_at_followers(view: View) -> Iterator[Finding]:
    """Look for actions that start after one that is deleted, and so never again."""
    found = fetch_left_behind(view.connection, app=view.app, limit=_NAMED)
    for app, name, deleted in found:
        told = f"{name!r} (app {app}) starts after {deleted!r}, which is"
        told += " deleted. Let it start after another one, or delete it."
        title = "an action never starts"
        yield Finding("followers", Health.DOUBTFUL, told, title)


def look_at_outbox(view: View) -> Iterator[Finding]:
    """Look for operations that should have been sent, if nobody has said why not."""
    unsent = fetch_unsent(view.connection, now=view.now)
    if unsent and view.send_failure is None:
        oldest = unsent[0].send_at
        assert oldest is not None  # a pending operation has an instant to be sent at
        since = view.show(oldest)
        many = format_count(len(unsent), "operation waits", "operations wait")
        found = f"{many} to be sent, the oldest since {since}"
        hint = "Check that a scheduler leads and that the broker answers."
        title = "operations are not sent"
        yield Finding("outbox", Health.BAD, f"{found}. {hint}", title, oldest)


def fetch_unsent(connection: sa.Connection, *, now: datetime) -> list[Message]:
    """Return what nothing hinders and is unsent all the same, the oldest first."""
    limit = now - UNSENT_AFTER
    messages = fetch_sendable(connection, limit=_LOOKED_AT)
    late = [each for each in messages if each.send_at and each.send_at <= limit]
    return sorted(late, key=lambda each: each.send_at or limit)


def look_at_queues(view: View) -> Iterator[Finding]:
    """Look for queues that no worker takes, or that workers do not take fast enough."""
    behind = fetch_stuck(view.connection, older_than=UNTAKEN_AFTER, app=view.app)
    stuck = {queue: (count, oldest) for queue, count, oldest in behind}
    for queue in Queue:
        waiting = [
            each
            for each in view.backlog
            if each.queue is queue and each.state is not OperationState.RUNNING
        ]
        found = _describe_waiting(view, waiting)
        takers = figures.find_takers(view.seen, queue)
        subject = f"queue {queue.value}"
        if pause := view.queue_pauses.get(queue):
            yield Finding(
                subject,
                Health.DOUBTFUL,
                f"{_describe_pause(view, queue, pause)} {found}",
                f"{queue.value} is paused",
                pause.at,
                queue,
            )
        elif queue is Queue.TASKS:
            # Whether anybody takes them at their brokers, look_at_tasks says.
            yield Finding(subject, Health.GOOD, f"sent by the scheduler; {found}")
        elif not takers:
            yield _judge_untaken(view, queue, waiting)
        elif queue in stuck:
            count, oldest = stuck[queue]
            detail = (
                f"{count} sent and not taken, the oldest since {view.show(oldest)}. "
                f"The queue has {_describe_takers(takers)}: too few, or they hang. "
                f"{found}"
            )
            title = f"{queue.value} is behind"
            yield Finding(subject, Health.DOUBTFUL, detail, title, oldest, queue)
        else:
            yield Finding(subject, Health.GOOD, f"{_describe_takers(takers)}; {found}")


def _describe_pause(view: View, queue: Queue, pause: Pause) -> str:
    """Say since and until when *queue* is paused, by whom, why, and how to end it."""
    by = "" if pause.by is None else f" by {pause.by}"
    until = "" if pause.until is None else f" until {view.show(pause.until)}"
    note = "" if pause.note is None else f" ({pause.note})"
    return (
        f"paused since {view.show(pause.at)}{by}{until}{note}: nothing of it is"
        f" sent. To end it: Workers, or minutehand queues resume {queue.value}."
    )


def _judge_untaken(
    view: View, queue: Queue, waiting: Sequence[figures.Backlog]
) -> Finding:
    """Judge a queue without a worker: bad if anything waits or is scheduled there."""
    subject = f"queue {queue.value}"
    found = "no worker takes it"
    if not waiting and not figures.is_scheduled(view.connection, queue, view.app):
        return Finding(subject, Health.GOOD, f"{found}, and no action needs it")
    if queue is Queue.DEFAULT:
        found += ": nothing old is pruned, and no notice is sent"
    if waiting:
        found += f"; {_describe_waiting(view, waiting)}"
    ages = [
        each.age
        for each in view.seen
        if each.process.role is ProcessRole.WORKER
        and queue.value in each.process.queues
    ]
    if ages:
        found += f"; the last worker gave a sign of life {format_age(min(ages))} ago"
    starter = view.settings.name_starter(f"minutehand worker -Q {queue.value}")
    resting = [each for each in view.alive if each.drain_asked_at and not view.app]
    todo = (
        f"Start one: {starter}. (A worker that cannot reach its broker counts as none.)"
    )
    if resting:
        names = ", ".join(sorted(each.process.name for each in resting)[:_NAMED])
        todo = (
            f"Drained workers take nothing: {names}. Resume one: Workers, or minutehand"
            f" workers resume NAME. Or start one: {starter}."
        )
    detail = f"{found}. {_SAFE} {todo}" if waiting else f"{found}. {todo}"
    title = f"no worker takes {queue.value}"
    return Finding(
        subject, Health.BAD, detail, title, figures.find_oldest(waiting), queue
    )


_SAFE = "Nothing is lost: each is recorded, and is sent again under the same id."


def _describe_waiting(view: View, waiting: Sequence[figures.Backlog]) -> str:
    by_app: Counter[str] = Counter()
    for each in waiting:
        by_app[each.app] += each.count
    count = by_app.total()
    if not count:
        return "nothing waits"
    oldest = figures.find_oldest(waiting)
    if oldest is None:
        return f"{count} wait for their next attempt, or for the end of a task"
    (app, most), *others = by_app.most_common(2)
    share = f"all of app {app}" if not others else f"{most} of app {app}"
    return f"{count} wait, {share}, the oldest for {format_age(view.now - oldest)}"


def _describe_takers(takers: Sequence[Seen]) -> str:
    workers = format_count(len(takers), "worker", "workers")
    return f"{workers}, {figures.count_slots(takers)} at a time"


def look_at_held(view: View) -> Iterator[Finding]:
    """Look for operations that wait for the platform, and report one's error."""
    held = figures.fetch_held(view.connection)
    if held is not None:
        many = format_count(held.count, "operation waits", "operations wait")
        apps = format_count(held.apps, "app", "apps")
        age = format_age(view.now - held.since)
        error = held.error.removesuffix(".")
        found = f"{error}; {many} for it, of {apps}, the oldest for {age}"
        found += ". Mend it: each is tried again within five minutes"
        title = "operations wait for the platform"
        yield Finding("platform", Health.BAD, found, title, held.since)


def look_at_troubles(view: View) -> Iterator[Finding]:
    """Report what failed, was missed or became uncertain within the last hour."""
    for each in view.troubles[:_NAMED]:
        many = format_count(each.count, each.state, each.state)
        if each.state == "uncertain":
            many = format_count(each.count, "mail uncertain", "mails uncertain")
        ago = format_age(view.now - each.latest_at)
        why = f" ({each.reason})" if each.reason else ""
        found = f"app {each.app}: {many}{why}, the last {ago} ago"
        yield Finding("last hour", Health.DOUBTFUL, found)
    more = len(view.troubles) - _NAMED
    if more > 0:
        found = f"{more} more kinds: see Now, or minutehand status --json"
        yield Finding("last hour", Health.DOUBTFUL, found)
    if not view.troubles:
        found = "nothing failed, was missed or is uncertain"
        yield Finding("last hour", Health.GOOD, found)


def look_at_uncertain(view: View) -> Iterator[Finding]:
    """Look for mails that somebody has to decide about, however old."""
    if view.uncertain:
        many = format_count(view.uncertain, "mail is", "mails are")
        where = "Mails, or minutehand mails list --state uncertain"
        todo = f"See {where}, and then confirm or resend them"
        found = f"{many} uncertain: sent, or perhaps not. {todo}"
        yield Finding("mails", Health.DOUBTFUL, found, "mails are uncertain")
