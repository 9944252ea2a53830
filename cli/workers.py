"""The commands ``workers list|drain|resume``."""

from __future__ import annotations

from typing import Annotated

from cli.connection import ask_database, get_actor, get_settings, write_database
from cli.options import NoteOption, argument, complete_worker, read_note, takes_json
from cli.output import err, out
from models.units import format_count, format_seconds
from operations.fleet.processes import RENEW_EVERY, find_worker
from overview.installation.workers import ShownWorker, fetch_workers, set_drained

_NameArgument = Annotated[
    str,
    argument(
        "NAME", "Of a worker, such as quick@host.", autocompletion=complete_worker
    ),
]


@takes_json
def list_workers() -> None:
    """
    List the workers, and what each of them does.

    A drained worker takes nothing and runs nothing, so that it can be stopped.
    """
    found = ask_database(fetch_workers)
    out().listed(
        found,
        lambda each: {
            "worker": each.name,
            "state": each.state,
            "takes": ", ".join(each.queues or ()) or "nothing",
            "runs": f"{len(each.running)} of {each.concurrency or '-'}",
            "taken 1 h": str(each.taken_1_h),
            "last sign": f"{format_seconds(each.heartbeat_age_s)} ago",
            "version": each.version,
        },
        empty="No worker is running. Start one: "
        + get_settings().name_starter("minutehand worker"),
    )


@takes_json
def drain(name: _NameArgument, *, note: NoteOption = None) -> None:
    """
    Drain a worker: it finishes what it runs, and takes nothing new.

    It does so within 20 seconds, until it is resumed or started again. Other workers of
    its queues go on.
    """
    drained = _set(name, drained=True, note=read_note(note))
    if drained is None:
        return
    many = format_count(len(drained.running), "operation", "operations")
    out().say(f"Draining {name}: it finishes {many}.")
    err().say(
        f"It takes nothing new {_WITHIN}. When it is drained (minutehand workers list),"
        f" it can be stopped. To undo: minutehand workers resume {name}"
    )


@takes_json
def resume(name: _NameArgument) -> None:
    """
    Let a drained worker take operations again.

    It does so within 20 seconds, from the queues that it took before.
    """
    if _set(name, drained=False, note=None) is not None:
        out().say(f"Resumed {name}: it takes operations {_WITHIN}.")


_WITHIN = f"within {RENEW_EVERY.total_seconds():.0f} seconds"


def _set(name: str, *, drained: bool, note: str | None) -> ShownWorker | None:
    """Drain or resume the worker *name*; None: it was printed as JSON."""
    with write_database() as connection:
        worker_id = find_worker(connection, name)
        found = set_drained(
            connection, worker_id, drained=drained, by=get_actor(), note=note
        )
    return None if out().gave_json(found) else found
