"""The hosts of schedulers and workers: clocks, settings, versions and disk space."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import timedelta

from migrations.schema_revisions import get_newest_revision
from models.database.engine import TOLERATED_SKEW, read_host_clock
from models.units import format_age, format_bytes
from operations.fleet.processes import Seen, fetch_processes, measure_free
from overview.doctor.finding import Finding, Health, View

#: With fewer free bytes an operator should look: a large refresh needs this much.
LITTLE_SPACE = 1024**3

#: With fewer free bytes refreshes fail, or will soon.
NO_SPACE = 100 * 1024**2

#: How long a process that ended without signing off is reported.
_TOLD_FOR = timedelta(hours=1)


def look_at_clocks(view: View) -> Iterator[Finding]:
    """Compare the clocks of this host and of all processes with the database's."""
    own = read_host_clock() - view.now
    yield Finding(
        "clock",
        _judge_clock(own),
        f"this host differs from the database by {own.total_seconds():+.1f} s",
    )
    by_host: dict[str, float] = {}
    for each in _fetch_alive(view):
        skew_s = each.process.clock_skew_s
        if skew_s is not None:
            worst = by_host.get(each.process.hostname, 0.0)
            by_host[each.process.hostname] = max(worst, skew_s, key=abs)
    for host, skew_s in sorted(by_host.items()):
        health = _judge_clock(timedelta(seconds=skew_s))
        if health is not Health.GOOD:
            found = (
                f"host {host} differs from the database by {skew_s:+.1f} s."
                " Synchronize its clock (NTP)."
            )
            yield Finding("clock", health, found)


def _judge_clock(skew: timedelta) -> Health:
    return Health.DOUBTFUL if abs(skew) > TOLERATED_SKEW else Health.GOOD


def look_at_settings(view: View) -> Iterator[Finding]:
    """Look for settings that must be the same in all processes and are not."""
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in _fetch_alive(view):
        for name, value in each.process.settings.items():
            values[name][value].append(each.process.name)
    differing = {name: found for name, found in values.items() if len(found) > 1}
    for name, found in sorted(differing.items()):
        each_value = "; ".join(
            f"{value} ({_enumerate(names)})" for value, names in sorted(found.items())
        )
        detail = (
            f"{name} differs: {each_value}. Give all processes the same value, and"
            " restart them."
        )
        yield Finding("settings", Health.DOUBTFUL, detail)
    if values and not differing:
        yield Finding("settings", Health.GOOD, "all processes have the same")


def look_at_programs(view: View) -> Iterator[Finding]:
    """Look for processes of another version, and for killed ones."""
    seen = fetch_processes(view.connection)
    newest = get_newest_revision()
    alive_names = {each.process.name for each in seen if each.is_alive}
    for each in seen:
        process = each.process
        who = f"{process.role} {process.name} (pid {process.pid})"
        if each.is_alive and process.revision != newest:
            yield Finding(
                "version",
                Health.DOUBTFUL,
                f"{who} is version {process.version} with schema {process.revision}, "
                f"but the database is at {newest}. Restart it with this version.",
            )
        is_gone = not each.is_alive and each.age <= _TOLD_FOR
        # A living process of the same name was started in its place.
        if is_gone and process.name not in alive_names:
            age = format_age(each.age)
            found = (
                f"{who} gave its last sign of life {age} ago: it was killed, or cannot"
                " reach the database"
            )
            yield Finding(process.role.value, Health.DOUBTFUL, found)


def look_at_space(view: View) -> Iterator[Finding]:
    """Look at the free space of the workspace on the workers' hosts, else on this."""
    free = {
        each.process.hostname: each.process.free_bytes
        for each in _fetch_alive(view)
        if each.process.free_bytes is not None
    }
    if not free:
        here = measure_free(view.settings.workspace)
        if here is None:
            return
        free["this host"] = here
    host, least = min(free.items(), key=lambda item: item[1])
    found = f"{format_bytes(least)} free in the workspace ({host})"
    if least < NO_SPACE:
        yield Finding("space", Health.BAD, f"{found}: refreshes fail. Free some space.")
    elif least < LITTLE_SPACE:
        yield Finding("space", Health.DOUBTFUL, f"{found}. Free some space.")
    else:
        yield Finding("space", Health.GOOD, found)


def _fetch_alive(view: View) -> list[Seen]:
    return [each for each in fetch_processes(view.connection) if each.is_alive]


def _enumerate(names: Iterable[str], *, at_most: int = 3) -> str:
    """Return the first *at_most* names, and the number of the others."""
    unique = sorted(set(names))
    others = len(unique) - at_most
    shown = ", ".join(unique[:at_most])
    return f"{shown} and {others} more" if others > 0 else shown
