"""``status``: who leads, who works, what waits, what is wrong, what comes next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from actions.leader import Holder, SendFailure
from actions.listing import find_next_due
from cli.connection import read_database
from cli.options import JsonOption
from cli.output import (
    describe_pause,
    format_both,
    format_due,
    out,
    print_fields,
    print_json,
    print_note,
    print_table,
    style_state,
)
from models.operation_state import LIVE_STATES, OperationState, Queue
from operations.fleet.processes import Role, Seen
from overview.figures import Backlog, find_oldest, find_takers
from overview.status import Paused, Status, fetch_status
from overview.words import format_age, format_bytes

#: Apps and queues that people are shown.
_APPS = 20

#: Pauses that people are shown, besides that of all.
_PAUSES = 5

_LIVE = tuple(state for state in OperationState if state in LIVE_STATES)


def status(*, json: JsonOption = False) -> None:
    """
    Show who leads and what waits.

    The backlog is what is recorded and not final, by queue and state; the age is that
    of the oldest that no worker has taken. While the scheduler cannot send, it says
    since when, and why.
    """
    with read_database() as connection:
        found = fetch_status(connection)
    if json:
        print_json(_make_json(found))
        return
    _print_leader(found)
    _print_backlog(found)
    _print_processes(found)
    _print_troubles(found)
    _print_actions(found)


def _print_leader(found: Status) -> None:
    holder, ticked_at = found.leader, found.last_tick_at
    age = "-" if ticked_at is None else f"{format_age(found.now - ticked_at)} ago"
    print_fields(
        [
            ("leader", _describe(holder)),
            ("since", None if holder is None else format_both(holder.acquired_at)),
            ("fence", None if holder is None else str(holder.fence)),
            ("heartbeat", _describe_heartbeat(holder)),
            ("last tick", f"{format_both(ticked_at)} ({age})"),
            ("sending", _describe_failure(found.send_failure)),
            ("paused", _describe_paused(found.paused)),
        ]
    )


def _print_backlog(found: Status) -> None:
    out().print()
    print_table(
        ("queue", "workers", *_LIVE, "oldest waits"),
        (
            [
                queue,
                str(len(find_takers(found.processes, queue))),
                *(str(count) for count in _count_states(of_queue).values()),
                _show_wait(found.now, of_queue),
            ]
            for queue, of_queue in _group_by_queue(found.backlog)
        ),
        empty="",
    )
    by_app: dict[tuple[str, str], list[Backlog]] = defaultdict(list)
    for each in found.backlog:
        by_app[each.app, each.queue].append(each)
    if by_app:
        out().print()
        print_table(
            ("app", "queue", *_LIVE, "oldest waits"),
            (
                [
                    *key,
                    *(str(count) for count in _count_states(of_app).values()),
                    _show_wait(found.now, of_app),
                ]
                for key, of_app in _find_longest_waiting(by_app)
            ),
            empty="",
        )
        if len(by_app) > _APPS:
            print_note(f"{len(by_app) - _APPS} more wait less long: --json has all.")


def _find_longest_waiting(
    by_app: Mapping[tuple[str, str], list[Backlog]],
) -> list[tuple[tuple[str, str], list[Backlog]]]:
    """Return those that wait longest; what does not wait comes last."""

    def order(item: tuple[tuple[str, str], list[Backlog]]) -> tuple[bool, float]:
        oldest = find_oldest(item[1])
        return oldest is None, 0.0 if oldest is None else oldest.timestamp()

    return sorted(by_app.items(), key=order)[:_APPS]


def _print_processes(found: Status) -> None:
    out().print()
    print_table(
        ("process", "takes", "at a time", "last sign", ""),
        (
            [
                each.process.name,
                ", ".join(each.process.queues) or each.process.role.value,
                str(each.process.concurrency or "-"),
                f"{format_age(each.age)} ago",
                _describe_process(each),
            ]
            for each in found.processes
        ),
        empty="No scheduler and no worker runs.",
    )


def _describe_process(seen: Seen) -> str:
    if not seen.is_alive:
        return "gone"
    free = seen.process.free_bytes
    return "" if free is None else f"{format_bytes(free)} free"


def _print_troubles(found: Status) -> None:
    if found.troubles:
        out().print()
        print_table(
            ("last hour", "app", "count", "reason", "latest"),
            (
                [
                    style_state(each.state),
                    each.app,
                    str(each.count),
                    each.reason,
                    f"{format_age(found.now - each.latest_at)} ago",
                ]
                for each in found.troubles
            ),
            empty="",
        )
    if found.uncertain:
        out().print()
        print_fields([("uncertain mails", f"{found.uncertain} in all")])


def _print_actions(found: Status) -> None:
    if found.quarantined:
        out().print()
        print_table(
            ("quarantined", "app", "name", "reason"),
            (
                [row.uid, row.app, row.name, row.quarantine_reason or ""]
                for row in found.quarantined
            ),
            empty="",
        )
    out().print()
    print_table(
        ("next due", "app", "name"),
        ([_format_next(row), row.app, row.name] for row in found.next_due),
        empty="Nothing is due.",
    )


def _group_by_queue(
    backlog: Iterable[Backlog],
) -> Iterator[tuple[Queue, list[Backlog]]]:
    kept = list(backlog)
    for queue in Queue:
        yield queue, [each for each in kept if each.queue is queue]


def _count_states(backlog: Iterable[Backlog]) -> dict[str, int]:
    counts = {state.value: 0 for state in _LIVE}
    for each in backlog:
        counts[each.state.value] += each.count
    return counts


def _show_wait(now: datetime, backlog: Iterable[Backlog]) -> str:
    oldest = find_oldest(backlog)
    return "-" if oldest is None else format_age(now - oldest)


def _describe(holder: Holder | None) -> str:
    if holder is None:
        return "nobody: start one with minutehand up, or minutehand scheduler"
    stale = "; its lease ran out" if holder.is_stale else ""
    return f"{holder.hostname} (pid {holder.pid}{stale})"


def _describe_heartbeat(holder: Holder | None) -> str | None:
    return None if holder is None else f"{format_age(holder.heartbeat_age)} ago"


def _describe_paused(paused: Paused) -> str | None:
    if not paused.actions and paused.whole is None and not paused.apps:
        return None
    lines = ["1 action" if paused.actions == 1 else f"{paused.actions:,} actions"]
    if paused.whole is not None:
        lines.append(f"all of the installation {describe_pause(paused.whole)}")
    lines += [f"app {uid} {describe_pause(each)}" for uid, each in paused.apps.items()]
    shown = lines[: _PAUSES + 1]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown):,} more apps")
    return "\n".join(shown)


def _describe_failure(failure: SendFailure | None) -> str | None:
    if failure is None:
        return None
    return f"has failed since {format_both(failure.since)}: {failure.error}"


def _make_json(found: Status) -> dict[str, object]:
    """Return the contract: fields are only added."""
    return {
        "now": found.now,
        "leader": _make_leader_json(found.leader),
        "last_tick_at": found.last_tick_at,
        "send_failure": _make_failure_json(found.send_failure),
        "backlog": {
            queue.value: _count_states(of_queue)
            for queue, of_queue in _group_by_queue(found.backlog)
        },
        "quarantined": [_as_mapping(row) for row in found.quarantined],
        "paused": _make_paused_json(found.paused),
        "next_due": [_make_due_json(row) for row in found.next_due],
        "queues": {
            queue.value: {
                "workers": len(takers := find_takers(found.processes, queue)),
                "slots": sum(each.process.concurrency or 0 for each in takers),
                "waiting_since": find_oldest(of_queue),
                "oldest_s": _age_s(found.now, find_oldest(of_queue)),
            }
            for queue, of_queue in _group_by_queue(found.backlog)
        },
        "backlog_by_app": [
            {
                "app": each.app,
                "queue": each.queue.value,
                "state": each.state.value,
                "count": each.count,
                "waiting_since": each.waiting_since,
                "oldest_s": _age_s(found.now, each.waiting_since),
            }
            for each in found.backlog
        ],
        "last_hour": [
            {
                "app": each.app,
                "state": each.state,
                "reason": each.reason,
                "count": each.count,
                "latest_at": each.latest_at,
            }
            for each in found.troubles
        ],
        "uncertain_mails": found.uncertain,
        "processes": [_make_process_json(each) for each in found.processes],
        "leaderships": [
            {
                "fence": each.fence,
                "host": each.hostname,
                "pid": each.pid,
                "since": each.acquired_at,
                "released_at": each.released_at,
            }
            for each in found.leaderships
        ],
    }


def _age_s(now: datetime, since: datetime | None) -> float | None:
    return None if since is None else round((now - since).total_seconds(), 3)


def _make_process_json(seen: Seen) -> dict[str, object]:
    process = seen.process
    is_worker = process.role is Role.WORKER
    return {
        "role": process.role.value,
        "name": process.name,
        "host": process.hostname,
        "pid": process.pid,
        "version": process.version,
        "schema": process.revision,
        "queues": list(process.queues) if is_worker else None,
        "concurrency": process.concurrency,
        "clock_skew_s": process.clock_skew_s,
        "free_bytes": process.free_bytes,
        "settings": dict(process.settings),
        "started_at": seen.started_at,
        "heartbeat_at": seen.heartbeat_at,
        "heartbeat_age_s": round(seen.age.total_seconds(), 3),
        "alive": seen.is_alive,
    }


def _make_leader_json(holder: Holder | None) -> dict[str, object] | None:
    if holder is None:
        return None
    return {
        "host": holder.hostname,
        "pid": holder.pid,
        "since": holder.acquired_at,
        "fence": holder.fence,
        "heartbeat_at": holder.heartbeat_at,
        "heartbeat_age_s": round(holder.heartbeat_age.total_seconds(), 3),
        "expires_at": holder.expires_at,
        "stale": holder.is_stale,
    }


def _make_failure_json(failure: SendFailure | None) -> dict[str, object] | None:
    return None if failure is None else {"since": failure.since, "error": failure.error}


def _make_paused_json(paused: Paused) -> dict[str, object]:
    return {
        "all": None if paused.whole is None else paused.whole.as_json(),
        "apps": {uid: each.as_json() for uid, each in paused.apps.items()},
        "actions": paused.actions,
    }


def _make_due_json(row: Any) -> dict[str, object]:
    due = find_next_due(row, count=1)
    return {
        "uid": row.uid,
        "app": row.app,
        "name": row.name,
        "next_due_at": row.next_due_at,
        "occurrence": due[0].occurrence if due else None,
        "event": row.event,
    }


def _format_next(row: Any) -> str:
    """Return the occurrence that comes next, as ``actions list`` does."""
    due = find_next_due(row, count=1)
    return format_due(due[0]) if due else format_both(row.next_due_at)


def _as_mapping(row: Any) -> dict[str, object]:
    return dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
