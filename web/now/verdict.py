"""
How it is, in one sentence, and what must be done at once. Pure.

Somebody who is woken at night reads this and nothing else, so it must be true: it is
what the looks of overview/doctor/ found, the gravest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from models.units import capitalize, format_count
from overview.doctor.finding import Finding, Health, find_worst


@dataclass(frozen=True, slots=True)
class DayCounts:
    """
    How many did not run as they should within a day.

    Args:
        causes: Of how many causes operations failed.
        uncertain: Mails.
        late: Operations that began late.
    """

    failed: int = 0
    causes: int = 0
    missed: int = 0
    skipped: int = 0
    uncertain: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class NowVerdict:
    """
    What is wrong and what is fine.

    Args:
        headline: One short sentence.
        text: The figures behind it, in a sentence or two.
        alarms: What must be looked at at once, the gravest first.
        doubts: What else needs a look.
    """

    health: Health
    headline: str
    text: str
    alarms: Sequence[Finding]
    doubts: Sequence[Finding] = ()


#: Of these, doubts are to be seen at once, too.
_PROMINENT = frozenset({"leader", "queue", "pause"})

#: While one of these is bad, nothing is scheduled.
_VITAL = frozenset({"schema", "database", "leader", "tick"})


def judge(
    findings: Sequence[Finding], day: DayCounts | None, *, has_actions: bool = True
) -> NowVerdict:
    """
    Return what it all means.

    Args:
        findings: Of all looks, in their order.
        day: What did not run as it should. None: that cannot be read.
        has_actions: Whether there is any action but the scheduler's own.
    """
    bad = [each for each in findings if each.health is Health.BAD]
    doubtful = [each for each in findings if each.health is Health.DOUBTFUL]
    prominent = [each for each in doubtful if each.kind in _PROMINENT]
    doubts = [each for each in doubtful if each.kind not in _PROMINENT]
    if any(each.kind == "broker" for each in bad):
        # Their workers are silent because of it, and need no others.
        doubts += [each for each in bad if each.kind == "queue"]
        bad = [each for each in bad if each.kind != "queue"]
    troubles = ["what went wrong cannot be read"]
    if day is not None:
        troubles = list(_list_troubles(day))
    health = find_worst(findings)
    if health is Health.GOOD and troubles:
        health = Health.DOUBTFUL
    # The scheduler is above what depends on it.
    alarms = sorted([*bad, *prominent], key=lambda each: each.kind not in _VITAL)
    headline = _make_headline(alarms, doubts, troubles, has_actions=has_actions)
    text = _make_text(alarms, day, troubles, has_actions=has_actions)
    return NowVerdict(health, headline, text, alarms, doubts)


def _make_headline(
    alarms: Sequence[Finding],
    doubts: Sequence[Finding],
    troubles: Sequence[str],
    *,
    has_actions: bool,
) -> str:
    """Name the gravest thing alone: the rest of the page has the others."""
    if alarms:
        first = alarms[0]
        if first.kind in _VITAL or first.kind == "pause":
            return f"{capitalize(first.name)}."
        return f"Ticking, but {first.name}."
    if not has_actions:
        return "Ticking. Nothing is scheduled yet."
    for late in (each.name for each in doubts if each.kind == "lag"):
        return f"Ticking, but {late}."
    for trouble in [*troubles, *(each.name for each in doubts)]:
        return f"On time, but {trouble}."
    return "On time, and nothing went wrong since yesterday."


def _list_troubles(day: DayCounts) -> Iterator[str]:
    """Say what went wrong within a day, the gravest first."""
    if day.failed:
        runs = format_count(day.failed, "run", "runs")
        yield f"{runs} failed, of {format_count(day.causes, 'cause', 'causes')}"
    if day.missed:
        yield f"{format_count(day.missed, 'occurrence was', 'occurrences were')} missed"
    if day.uncertain:
        yield f"{format_count(day.uncertain, 'mail is', 'mails are')} uncertain"


def _make_text(
    alarms: Sequence[Finding],
    day: DayCounts | None,
    troubles: Sequence[str],
    *,
    has_actions: bool,
) -> str:
    fine = "The scheduler ticks and records everything. "
    if any(each.kind in _VITAL | {"sending", "outbox", "pause"} for each in alarms):
        fine = ""
    if not has_actions and not troubles:
        return f"{fine}Nothing is due, for nobody has posted an action yet."
    if day is None:
        return f"{fine}What failed or was missed could not be read just now."
    told = [*troubles]
    if day.skipped:
        told.append(f"{format_count(day.skipped, 'was', 'were')} skipped")
    if day.late:
        told.append(f"{day.late:,} began late")
    if not told:
        return f"{fine}Since yesterday at this time nothing failed or was missed."
    return f"{fine}Since yesterday at this time {'; '.join(told)}."
