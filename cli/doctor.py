"""``doctor``: look for what will cause trouble, before it does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from importlib import import_module
from typing import Annotated
from urllib.request import urlopen

import typer
from rich.text import Text

from actions.leader import get_holder, get_last_tick_at, get_send_failure
from actions.listing import fetch_quarantined
from actions.task_queues import fetch_task_queues
from actions.zones import find_moved, find_unreadable
from cli.connection import get_engine, get_settings, read_database
from cli.options import JsonOption
from cli.output import format_age, format_both, print_json, print_table
from migrations.schema import check_schema
from models.database import TOLERATED_SKEW, read_clock, read_host_clock
from models.errors import BrokerUnreachableError, UsageError
from models.grants import find_missing_grants
from operations.store import fetch_stuck
from operations.waiting import fetch_unsent

#: A leader ticks each minute; this many are missing if the last is older.
_LATE_TICK = timedelta(minutes=3)

#: To be sent for so long, with nothing in the way; the leader looks each second.
_UNSENT = timedelta(minutes=1)

#: Sent and not claimed for so long: is there a worker?
_UNCLAIMED = timedelta(minutes=5)

#: For metrics, which a process gives from memory.
_ANSWERS_WITHIN_S = 3


class Health(StrEnum):
    """How a thing is."""

    GOOD = "ok"
    DOUBTFUL = "look"
    BAD = "bad"


_STYLES = {Health.GOOD: "green", Health.DOUBTFUL: "yellow", Health.BAD: "bold red"}


@dataclass(frozen=True, slots=True)
class Result:
    """What one look found, and what to do."""

    subject: str
    health: Health
    detail: str


def doctor(
    *,
    tzdata: Annotated[
        bool,
        typer.Option("--tzdata", help="Look only at what a new tz database moves."),
    ] = False,
    scheduler: Annotated[
        bool,
        typer.Option("--scheduler", help="Look only at the scheduler of this host."),
    ] = False,
    json: JsonOption = False,
) -> None:
    """
    Look for what will cause trouble.

    Exits 1 if something is bad: no leader, no tick, a broker that does not answer,
    operations that are not sent, a schema of another version.
    """
    if scheduler:
        results = [look_at_own_scheduler(get_settings().metrics_port)]
    else:
        results = list(_look_at_zones() if tzdata else _look_at_all())
    if json:
        print_json(
            [
                {"subject": r.subject, "health": r.health.value, "detail": r.detail}
                for r in results
            ]
        )
    else:
        print_table(
            ("", "subject", "found"),
            (
                [Text(r.health.value, style=_STYLES[r.health]), r.subject, r.detail]
                for r in results
            ),
            empty="",
        )
    if any(result.health is Health.BAD for result in results):
        raise typer.Exit(1)


def _look_at_all() -> Iterator[Result]:
    grants = list(_look_at_grants())
    if any(each.health is Health.BAD for each in grants):
        yield from grants
        return  # what comes next may not be looked at
    schema = _look_at_schema()
    yield schema
    if schema.health is Health.BAD:
        return  # the tables to look at may not be there
    yield from grants
    yield from _look_at_scheduler()
    yield _look_at_broker()
    yield from _look_at_task_queues()
    yield from _look_at_work()
    yield from _look_at_zones()


def _look_at_schema() -> Result:
    try:
        check_schema(get_engine())
    except UsageError as error:
        return Result("schema", Health.BAD, str(error))
    return Result("schema", Health.GOOD, "that of this version")


def _look_at_grants() -> Iterator[Result]:
    with read_database() as connection:
        missing = find_missing_grants(connection)
    for each in missing:
        yield Result("grants", Health.BAD, each)
    if not missing:
        yield Result("grants", Health.GOOD, "the database lets us do what we need")


def _look_at_scheduler() -> Iterator[Result]:
    holder = get_holder(get_engine())
    with read_database() as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection)
        failure = get_send_failure(connection)
    if holder is None or holder.is_stale:
        yield Result("leader", Health.BAD, "no scheduler leads: start one")
    else:
        age = format_age(holder.heartbeat_age)
        found = f"{holder.hostname} (pid {holder.pid}), heartbeat {age} ago"
        yield Result("leader", Health.GOOD, found)
    if ticked_at is None:
        yield Result("tick", Health.BAD, "there never was one")
    else:
        late = now - ticked_at > _LATE_TICK
        found = f"the last was {format_age(now - ticked_at)} ago"
        yield Result("tick", Health.BAD if late else Health.GOOD, found)
    if failure is not None:
        found = (
            f"the scheduler's attempts have failed since {format_both(failure.since)}"
        )
        yield Result("sending", Health.BAD, f"{found}: {failure.error}")
    skew = read_host_clock() - now
    skewed = abs(skew) > TOLERATED_SKEW
    yield Result(
        "clock",
        Health.DOUBTFUL if skewed else Health.GOOD,
        f"this host is {skew.total_seconds():+.1f} s off the database",
    )


def look_at_own_scheduler(port: int | None) -> Result:
    """
    Look at the one scheduler that serves its metrics on *port* of this host.

    If it leads, it must have ticked; a standby is well if somebody has.

    Raises:
        UsageError: *port* is None.
    """
    if port is None:
        msg = "--scheduler asks for its metrics. Set MINUTEHAND_METRICS_PORT."
        raise UsageError(msg)
    try:
        metrics = _read_metrics(port)
    except (OSError, ValueError) as error:
        return Result("scheduler", Health.BAD, f"no answer on port {port}: {error}")
    with read_database() as connection:
        now = read_clock(connection)
        ticked_at = get_last_tick_at(connection)
    role = "stands by, and somebody"
    if metrics["minutehand_is_leader"]:
        role = "leads, and"
        stamp = metrics["minutehand_last_tick_timestamp_seconds"]
        # What others did does not count: it may have lost the lease in its sleep.
        ticked_at = datetime.fromtimestamp(stamp, UTC) if stamp else None
    if ticked_at is None:
        return Result("scheduler", Health.BAD, f"{role} has not ticked yet")
    late = now - ticked_at > _LATE_TICK
    found = f"{role} ticked {format_age(now - ticked_at)} ago"
    return Result("scheduler", Health.BAD if late else Health.GOOD, found)


def _read_metrics(port: int) -> dict[str, float]:
    """Return the metrics without labels that a process of this host serves."""
    url = f"http://127.0.0.1:{port}/metrics"
    with urlopen(url, timeout=_ANSWERS_WITHIN_S) as answer:
        lines = answer.read().decode().splitlines()
    pairs = [line.split(" ") for line in lines if line.startswith("minutehand_")]
    return {pair[0]: float(pair[1]) for pair in pairs if "{" not in pair[0]}


def _look_at_broker() -> Result:
    settings = get_settings()
    if settings.broker_url.startswith("memory"):
        return Result("broker", Health.GOOD, "within minutehand up")
    # Celery takes half a second to import.
    app = import_module("celery_app.app").make_app(settings)
    sender = import_module("celery_app.sender").CelerySender(
        app, timeout=settings.broker_timeout
    )
    try:
        sender.find_empty_queues()
    except BrokerUnreachableError as error:
        found = str(error).removesuffix(".")
        return Result("broker", Health.BAD, f"{found}. Start it, or mend its URL.")
    finally:
        sender.close()
    return Result("broker", Health.GOOD, "answers, and has all queues")


def _look_at_task_queues() -> Iterator[Result]:
    """Say whether anybody takes the tasks that actions send elsewhere."""
    with read_database() as connection:
        queues = fetch_task_queues(connection)
    if not queues:
        return
    # Celery takes half a second to import.
    look = import_module("celery_app.task_queues").look_at_task_queues
    for found in look(queues, get_settings()):
        bad = Health.DOUBTFUL if found.is_reachable else Health.BAD
        health = Health.GOOD if found.is_well else bad
        yield Result(found.subject, health, found.detail)


def _look_at_work() -> Iterator[Result]:
    with read_database() as connection:
        quarantined = fetch_quarantined(connection)
        unsent = fetch_unsent(connection, older_than=_UNSENT)
        stuck = fetch_stuck(connection, older_than=_UNCLAIMED)
    for row in quarantined:
        reason = row.quarantine_reason
        end = "" if reason.endswith((".", "?")) else "."
        found = f"{row.uid} ({row.app}): {reason}{end} Post it again."
        yield Result("quarantine", Health.DOUBTFUL, found)
    if unsent:
        found = f"{len(unsent)} wait to be sent, the oldest since"
        hint = "Does a scheduler lead, and does the broker answer?"
        since = format_both(unsent[0].send_at)
        yield Result("outbox", Health.BAD, f"{found} {since}. {hint}")
    for queue, count, oldest in stuck:
        found = f"{count} sent and not claimed, the oldest {format_both(oldest)}"
        yield Result(f"queue {queue}", Health.DOUBTFUL, f"{found}: is a worker there?")
    if not quarantined and not unsent and not stuck:
        yield Result("work", Health.GOOD, "nothing is quarantined, nothing is stuck")


def _look_at_zones() -> Iterator[Result]:
    with read_database() as connection:
        moved = find_moved(connection, now=read_clock(connection))
        unreadable = find_unreadable(connection)
    for lost in unreadable:
        found = f"{lost.action_uid}: {lost.reason} Post it again."
        yield Result("tzdata", Health.DOUBTFUL, found)
    for each in moved:
        found = (
            f"{each.action_uid}: {format_both(each.before)} becomes "
            f"{format_both(each.after)} ({each.zone})"
        )
        yield Result("tzdata", Health.DOUBTFUL, found)
    if not moved and not unreadable:
        found = "moves no instant of a stored action within a year"
        yield Result("tzdata", Health.GOOD, found)
