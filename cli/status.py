"""``status``: who leads, what waits, what is wrong, what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actions.leader import (
    Holder,
    SendFailure,
    get_holder,
    get_last_tick_at,
    get_send_failure,
)
from actions.listing import fetch_next_due, fetch_quarantined, find_next_due
from actions.pauses import Pause, fetch_pauses
from cli.connection import get_engine, read_database
from cli.options import JsonOption
from cli.output import (
    describe_pause,
    format_age,
    format_both,
    format_due,
    out,
    print_fields,
    print_json,
    print_table,
)
from models.database import read_clock
from models.operation_state import OperationState, Queue
from operations.store import count_backlog

#: Actions that are named as due next.
_SHOWN = 5

_LIVE = (OperationState.PENDING, OperationState.QUEUED, OperationState.RUNNING)


def status(*, json: JsonOption = False) -> None:
    """
    Show who leads and what waits.

    The backlog is what is recorded and not final, by queue and state. While the
    scheduler cannot send, it says since when, and why.
    """
    with read_database() as connection:
        now = read_clock(connection)
        last_tick_at = get_last_tick_at(connection)
        failure = get_send_failure(connection)
        counts = count_backlog(connection)
        quarantined = fetch_quarantined(connection)
        following = fetch_next_due(connection, limit=_SHOWN)
        whole, paused_apps, paused_actions = fetch_pauses(connection)
    holder = get_holder(get_engine())
    backlog = {
        queue.value: {state.value: counts.get((queue, state), 0) for state in _LIVE}
        for queue in Queue
    }
    if json:
        print_json(
            {
                "now": now,
                "leader": _make_leader_json(holder),
                "last_tick_at": last_tick_at,
                "send_failure": _make_failure_json(failure),
                "backlog": backlog,
                "quarantined": [_make_json(row) for row in quarantined],
                "paused": {
                    "all": None if whole is None else whole.as_json(),
                    "apps": {uid: each.as_json() for uid, each in paused_apps.items()},
                    "actions": paused_actions,
                },
                "next_due": [_make_due_json(row) for row in following],
            }
        )
        return
    age = "-" if last_tick_at is None else f"{format_age(now - last_tick_at)} ago"
    print_fields(
        [
            ("leader", _describe(holder)),
            ("since", None if holder is None else format_both(holder.acquired_at)),
            ("fence", None if holder is None else str(holder.fence)),
            ("heartbeat", _describe_heartbeat(holder)),
            ("last tick", f"{format_both(last_tick_at)} ({age})"),
            ("sending", _describe_failure(failure)),
            ("paused", _describe_pauses(whole, paused_apps, paused_actions)),
        ]
    )
    out().print()
    print_table(
        ("queue", *_LIVE),
        ([queue, *map(str, waiting.values())] for queue, waiting in backlog.items()),
        empty="",
    )
    _print_actions(quarantined, following)


def _print_actions(quarantined: Sequence[Any], following: Sequence[Any]) -> None:
    if quarantined:
        out().print()
        print_table(
            ("quarantined", "app", "name", "reason"),
            (
                [row.uid, row.app, row.name, row.quarantine_reason or ""]
                for row in quarantined
            ),
            empty="",
        )
    out().print()
    print_table(
        ("next due", "app", "name"),
        ([_format_next(row), row.app, row.name] for row in following),
        empty="Nothing is due.",
    )


def _describe(holder: Holder | None) -> str:
    if holder is None:
        return "nobody: start one with minutehand up, or minutehand scheduler"
    stale = "; its lease ran out" if holder.is_stale else ""
    return f"{holder.hostname} (pid {holder.pid}{stale})"


def _describe_heartbeat(holder: Holder | None) -> str | None:
    return None if holder is None else f"{format_age(holder.heartbeat_age)} ago"


def _describe_pauses(
    whole: Pause | None, apps: Mapping[str, Pause], actions: int
) -> str | None:
    if not actions and whole is None and not apps:
        return None
    lines = ["1 action" if actions == 1 else f"{actions:,} actions"]
    if whole is not None:
        lines.append(f"all of the installation {describe_pause(whole)}")
    lines += [f"app {uid} {describe_pause(each)}" for uid, each in apps.items()]
    shown = lines[: _SHOWN + 1]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown):,} more apps")
    return "\n".join(shown)


def _describe_failure(failure: SendFailure | None) -> str | None:
    if failure is None:
        return None
    return f"has failed since {format_both(failure.since)}: {failure.error}"


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


def _make_json(row: Any) -> dict[str, object]:
    return dict(row._mapping)  # noqa: SLF001 - SQLAlchemy's public name for it
