"""``status`` shows how it goes; ``doctor`` finds problems; ``support-bundle`` tells."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import typer
from rich.text import Text

from actions.read_rules import NextDue
from cli.connection import ask_database, get_engine, get_settings
from cli.options import flag, takes_json
from cli.output import describe_pause, format_both, format_due, out, style_state
from models.errors import UsageError
from models.units import format_age, format_bytes, format_count, format_seconds
from overview.doctor.checks import LOOKS
from overview.doctor.examine import find_trouble, look_at_own_scheduler
from overview.doctor.finding import Finding, Health, find_worst
from overview.installation.figures import Backlog, count_live
from overview.installation.installed import make_bundle
from overview.installation.status import Paused, Status, fetch_status
from overview.installation.workers import ShownProcess, WorkerState

#: What has a table of its own.
_SHOWN_BELOW = frozenset({"last", "quarantine"})

#: The most rows of apps that people are shown.
_APPS = 20

#: The most pauses that people are shown, besides that of the installation.
_PAUSES = 5


@takes_json
def status() -> None:
    """
    Show who leads and what is waiting.

    The backlog counts the operations that are not final, by queue and state; "oldest
    waits" is the age of the oldest one that no worker has taken. What is wrong is told
    as doctor tells it, as far as the database knows of it.
    """
    found = ask_database(fetch_status, get_settings())
    if out().gave_json(found):
        return
    _print_leader(found)
    _print_wrong(found)
    _print_backlog(found)
    _print_processes(found)
    _print_troubles(found)
    _print_actions(found)


def _print_leader(found: Status) -> None:
    holder, ticked_at = found.leader, found.last_tick_at
    tick = "never"
    if ticked_at is not None:
        tick = f"{format_both(ticked_at)} ({format_seconds(found.tick_age_s)} ago)"
    beat = None if holder is None else f"{format_seconds(holder.heartbeat_age_s)} ago"
    leads = holder is not None and not holder.stale
    out().fields(
        [
            ("health", Text(found.health.value, style=STYLES[found.health])),
            (
                "leader",
                f"{holder.host} (pid {holder.pid})" if holder and leads else "nobody",
            ),
            ("since", None if holder is None else format_both(holder.since)),
            ("fence", None if holder is None else str(holder.fence)),
            ("heartbeat", beat),
            ("last tick", tick),
            ("paused", _describe_paused(found.paused)),
        ]
    )


def _print_wrong(found: Status) -> None:
    """Print what is not well, as doctor would; what failed has a table of its own."""
    wrong = [
        each
        for each in found.findings
        if each.health is not Health.GOOD and each.kind not in _SHOWN_BELOW
    ]
    print_findings(wrong, apart=True)


def _print_backlog(found: Status) -> None:
    out().table(
        found.queues.items(),
        lambda each: {
            "queue": each[0],
            "workers": str(each[1].workers),
            **{state: str(n) for state, n in found.backlog[each[0]].items()},
            "oldest waits": format_seconds(each[1].oldest_s),
        },
        apart=True,
    )
    by_app = group_by_app(found.backlog_by_app)
    out().table(by_app[:_APPS], dict, apart=True)
    if len(by_app) > _APPS:
        out().say(f"{len(by_app) - _APPS} more rows, which wait less long: see --json.")


def group_by_app(backlog: Sequence[Backlog]) -> list[dict[str, str]]:
    """Return a row for each app and queue, what waits longest first. Pure."""
    groups: defaultdict[tuple[str, str], list[Backlog]] = defaultdict(list)
    for each in backlog:
        groups[each.app, each.queue].append(each)
    rows = []
    for (app, queue), group in groups.items():
        # Groups in which nothing waits come last.
        waits = [each.oldest_s for each in group if each.oldest_s is not None]
        oldest_s = max(waits, default=-1.0)
        row = {
            "app": app,
            "queue": queue,
            **{str(state): str(n) for state, n in count_live(group).items()},
            "oldest waits": format_seconds(None if oldest_s < 0 else oldest_s),
        }
        rows.append((oldest_s, row))
    return [row for _, row in sorted(rows, key=lambda each: -each[0])]


def _print_processes(found: Status) -> None:
    out().table(
        found.processes,
        lambda each: {
            "process": f"{each.name} (pid {each.pid})",
            "takes": ", ".join(each.queues or ()) or each.role.value,
            "at a time": str(each.concurrency or "-"),
            "last sign": f"{format_seconds(each.heartbeat_age_s)} ago",
            "": _describe_process(each),
        },
        empty="No scheduler or worker is running.",
        apart=True,
    )


def _describe_process(shown: ShownProcess) -> str:
    if not shown.alive:
        return WorkerState.SILENT.value
    if shown.drain_asked_at is not None:
        return "draining" if shown.queues else "takes nothing new"
    return "" if shown.free_bytes is None else f"{format_bytes(shown.free_bytes)} free"


def _print_troubles(found: Status) -> None:
    out().table(
        found.last_hour,
        lambda each: {
            "last hour": style_state(each.state),
            "app": each.app,
            "count": str(each.count),
            "reason": each.reason,
            "latest": f"{format_age(found.now - each.latest_at)} ago",
        },
        apart=True,
    )


def _print_actions(found: Status) -> None:
    out().table(
        found.quarantined,
        lambda each: {
            "quarantined": each.uid,
            "app": each.app,
            "name": each.name,
            "reason": each.quarantine_reason or "",
        },
        apart=True,
    )
    out().table(
        found.next_due,
        lambda each: {
            "next due": _format_next(each),
            "app": each.app,
            "name": each.name,
        },
        empty="Nothing is due.",
        apart=True,
    )


def _describe_paused(paused: Paused) -> str | None:
    if not (paused.actions or paused.all or paused.apps or paused.queues):
        return None
    lines = [format_count(paused.actions, "action", "actions")]
    if paused.all is not None:
        lines.append(f"the whole installation {describe_pause(paused.all)}")
    lines += [
        f"queue {queue} {describe_pause(each)}" for queue, each in paused.queues.items()
    ]
    lines += [f"app {uid} {describe_pause(each)}" for uid, each in paused.apps.items()]
    shown = lines[: _PAUSES + 1]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown):,} more apps")
    return "\n".join(shown)


def _format_next(due: NextDue) -> str:
    """Return the next occurrence, as ``actions list`` shows it."""
    if due.due is None:
        return format_both(due.next_due_at, due.zone)
    return format_due(due.due, due.zone)


#: Colours; the words say the same without them.
STYLES = {Health.GOOD: "green", Health.DOUBTFUL: "yellow", Health.BAD: "bold red"}


@takes_json
def doctor(
    *,
    tzdata: bool = flag(
        "--tzdata", "Check only what a new time zone database would move."
    ),
    scheduler: bool = flag("--scheduler", "Check only the scheduler of this host."),
) -> None:
    """
    Check the installation for problems.

    Exits with 1 if something is bad: no leader, no tick, a broker that does not answer,
    a queue without a worker, operations that are not sent, a missing grant, a full
    disk, or a schema of another version.
    """
    findings = list(_find(tzdata=tzdata, scheduler=scheduler))
    out().found(findings, print_findings)
    if find_worst(findings) is Health.BAD:
        raise typer.Exit(1)


def print_findings(findings: Iterable[Finding], *, apart: bool = False) -> None:
    """Print *findings* as a table for people; see ``Output.table``."""
    out().table(
        findings,
        lambda f: {
            "": Text(f.health.value, style=STYLES[f.health]),
            "subject": f.subject,
            "found": f.detail,
        },
        apart=apart,
    )


def _find(*, tzdata: bool, scheduler: bool) -> Iterator[Finding]:
    settings = get_settings()
    if not scheduler:
        names = ["tzdata"] if tzdata else tuple(LOOKS)
        yield from find_trouble(get_engine(), settings, names=names)
        return
    url = settings.metrics_url
    if url is None:
        raise UsageError(
            "--scheduler reads the metrics of the scheduler, which are switched off."
            " Set MINUTEHAND_METRICS_PORT."
        )
    yield look_at_own_scheduler(get_engine(), url)


def support_bundle() -> None:
    """
    Print a support bundle as JSON, without secrets and data of small apps.

    It has what doctor finds, status, versions, settings, who led, and the failures of a
    day by reason.
    """
    settings = get_settings()
    findings = list(find_trouble(get_engine(), settings))
    out().json(ask_database(make_bundle, settings, findings), indented=True)
