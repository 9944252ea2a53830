"""The hosts of schedulers and workers: clocks, settings, versions and disk space."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta

from migrations.schema_revisions import fetch_revision
from models.database.engine import TOLERATED_SKEW, compare_clocks
from models.units import format_age, format_bytes
from operations.adapters.confinement import find_version
from operations.fleet.processes import ProcessRole, Seen
from overview.doctor.finding import Finding, Health, View
from overview.doctor.thresholds import LITTLE_SPACE, NO_SPACE, SILENT_FOR


def look_at_clocks(view: View) -> Iterator[Finding]:
    """Compare the clocks of this host and of all processes with the database's."""
    _now, own = compare_clocks(view.connection)
    by_host: dict[str, float] = {}
    for each in view.alive:
        skew_s = each.process.clock_skew_s
        if skew_s is not None:
            worst = by_host.get(each.process.hostname, 0.0)
            by_host[each.process.hostname] = max(worst, skew_s, key=abs)
    health, title = _judge_clock(own), ""
    found = f"this host differs from the database by {own.total_seconds():+.1f} s"
    if health is not Health.GOOD:
        skews = [own, *(timedelta(seconds=each) for each in by_host.values())]
        agree = _judge_clock(max(skews) - min(skews)) is Health.GOOD
        if Health.GOOD in map(_judge_clock, skews):
            title = "this host's clock is wrong"
            found += ". Synchronize it (NTP)."
        elif len(by_host) > 1 and agree:
            title, by_host = "the database's clock is wrong", {}
            found += (
                ", as do all others. Synchronize the database's clock (NTP), or this"
                " machine's if all of them run on it."
            )
        else:
            title = "a clock is wrong, this host's or the database's"
            found += ". Synchronize both clocks (NTP)."
    yield Finding("clock", health, found, title)
    for host, skew_s in sorted(by_host.items()):
        health = _judge_clock(timedelta(seconds=skew_s))
        if health is not Health.GOOD:
            found = (
                f"host {host} differs from the database by {skew_s:+.1f} s."
                " Synchronize its clock (NTP)."
            )
            yield Finding("clock", health, found, "a host's clock is wrong")


def _judge_clock(skew: timedelta) -> Health:
    return Health.DOUBTFUL if abs(skew) > TOLERATED_SKEW else Health.GOOD


def look_at_settings(view: View) -> Iterator[Finding]:
    """Look for settings that must be the same in all processes and are not."""
    values: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for each in view.alive:
        for name, value in each.process.settings.items():
            values[name][value].append(each.process.name)
    differing = {name: found for name, found in values.items() if len(found) > 1}
    for name, found in sorted(differing.items()):
        each_value = "; ".join(
            f"{value} ({_list_first(names)})" for value, names in sorted(found.items())
        )
        detail = (
            f"{name} differs: {each_value}. Give all processes the same value, and"
            " restart them."
        )
        yield Finding("settings", Health.DOUBTFUL, detail, "settings differ")
    if values and not differing:
        yield Finding("settings", Health.GOOD, "all processes have the same")


def look_at_programs(view: View) -> Iterator[Finding]:
    """Look for processes of another version, and for killed ones."""
    schema = fetch_revision(view.connection)
    for each in view.alive:
        process = each.process
        if process.revision != schema:
            yield Finding(
                "version",
                Health.DOUBTFUL,
                f"{_name(each)} is version {process.version} with schema"
                f" {process.revision}, but the database is at {schema}. Restart it"
                " with the newer version.",
                "a program is of another version",
            )
    for each in find_silent(view.seen):
        role = each.process.role.value
        broker = " or its broker" if role == ProcessRole.WORKER else ""
        found = (
            f"{_name(each)} gave its last sign of life {format_age(each.age)} ago: it"
            f" was killed, or cannot reach the database{broker}"
        )
        title = f"a {role} is silent"
        yield Finding(role, Health.DOUBTFUL, found, title, each.heartbeat_at)


def find_silent(seen: Sequence[Seen]) -> list[Seen]:
    """Return those that ended without signing off lately, and were not replaced."""
    return [
        each
        for each in seen
        if not each.is_alive
        and each.age <= SILENT_FOR
        and not any(_replaces(other, each) for other in seen)
    ]


def _replaces(other: Seen, silent: Seen) -> bool:
    is_later = silent.started_at < silent.heartbeat_at < other.started_at
    return other.process.name == silent.process.name and (other.is_alive or is_later)


def _name(each: Seen) -> str:
    process = each.process
    return f"{process.role} {process.name} (pid {process.pid})"


def look_at_confinement(_view: View) -> Iterator[Finding]:
    """Ask this host's kernel whether children can give up what they may open."""
    if sys.platform.startswith("linux") and find_version() < 1:
        found = (
            "this host lets no process give up rights (Landlock): what reads tenants'"
            " files and renders their templates can open what its worker can. Use Linux"
            " 5.13 or later, and for containers Docker 23 or a profile that allows"
            " landlock_*."
        )
        title = "children are not confined"
        yield Finding("confinement", Health.DOUBTFUL, found, title)


def look_at_space(view: View) -> Iterator[Finding]:
    """Look at the free space of the workspace on the workers' hosts."""
    free = [
        (each.process.free_bytes, each.process.hostname)
        for each in view.alive
        if each.process.free_bytes is not None
    ]
    if not free:
        return
    least, host = min(free)
    found = f"{format_bytes(least)} free in the workspace ({host})"
    if least < NO_SPACE:
        detail = f"{found}: refreshes wait. Free some space."
        yield Finding("space", Health.BAD, detail, "the workspace is full")
    elif least < LITTLE_SPACE:
        detail = f"{found}. Free some space."
        yield Finding("space", Health.DOUBTFUL, detail, "the workspace is filling up")
    else:
        yield Finding("space", Health.GOOD, found)


def _list_first(names: Iterable[str]) -> str:
    """Return the first three names, and the number of the others."""
    first, others = sorted(set(names))[:3], len(set(names)) - 3
    shown = ", ".join(first)
    return f"{shown} and {others} more" if others > 0 else shown
