"""Jobs of APScheduler 3, as its job stores keep them. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from actions.importing.origins.apscheduler_fields import (
    Stored,
    TriggerFields,
    read_fields,
)
from actions.importing.origins.clock_fields import EVERY_MONTH, EVERY_WEEKDAY, spell
from actions.importing.origins.durations import (
    name_offset,
    read_interval,
    write_elapsed,
)
from actions.importing.origins.imported import ActionDraft, CannotBeError, Defaults
from actions.importing.origins.tasks import UNREADABLE, Task, run_task
from models.fields.wall_clock import first_instant_at
from models.fields.zone import load_zone
from models.occurrence import LOOKBACK
from models.when import MOST_RULES

_MINUTE_S = 60
_SECOND = timedelta(seconds=1)
_ODD, _EVEN = frozenset(range(1, 54, 2)), frozenset(range(2, 54, 2))

_OTHER_CLOCK = (
    "APScheduler goes by its own rules there, which leave some runs out and do others"
    " twice."
)

Rules = list[dict[str, JsonValue]]


@dataclass(frozen=True, slots=True)
class JobEntry:
    """
    A row of a job store.

    Args:
        id: Of the job.
        state: What ``Job.__getstate__`` gave; objects are Stored. None: unreadable.
        problem: Why it is unreadable.
    """

    id: str
    state: Mapping[str, Any] | None
    problem: str = ""

    @property
    def title(self) -> str:
        """Return its id, and its name unless that is the function's."""
        name = (self.state or {}).get("name")
        func = str((self.state or {}).get("func", ""))
        is_own = isinstance(name, str) and name and not func.endswith(name)
        return str(name) if is_own else self.id


def fill_from_job(draft: ActionDraft, entry: JobEntry, defaults: Defaults) -> None:
    """Write the action that does what *entry* did; see ``import_each``."""
    if entry.state is None:
        raise CannotBeError(entry.problem)
    state = entry.state
    trigger = state["trigger"]
    if not isinstance(trigger, Stored):
        raise CannotBeError("Its trigger could not be read. Write the action by hand.")
    draft.rule = trigger.kind.rpartition(":")[2]
    rules = _find_rules(draft, trigger, defaults)
    if len(rules) > MOST_RULES:
        msg = f"It takes {len(rules)} rules; an action has at most {MOST_RULES}."
        told = f"{msg} Write several actions."
        raise CannotBeError(told)
    draft.document["when"] = rules[0] if len(rules) == 1 else list(rules)
    if state.get("next_run_time") is None:
        draft.document["active"] = False
        draft.remarks.append("It is paused there, so it is not active here.")
    _add_policies(draft, state)
    func = str(state["func"])
    task = Task(
        func.replace(":", "."),
        [make_plain(each) for each in state.get("args") or ()],
        {str(key): make_plain(each) for key, each in (state["kwargs"] or {}).items()},
    )
    run_task(draft, task, defaults)


def _add_policies(draft: ActionDraft, state: Mapping[str, Any]) -> None:
    """Write what becomes of late and overlapping runs."""
    grace = state.get("misfire_grace_time")
    runs = "latest" if state.get("coalesce", True) else "all"
    if grace is None:
        draft.document["catch_up"] = {"runs": runs}
    elif grace > LOOKBACK.total_seconds():
        draft.document["catch_up"] = {"runs": runs, "within": write_elapsed(int(grace))}
    most = state.get("max_instances", 1)
    draft.document["overlap"] = "skip" if most == 1 else "allow"
    if most > 1:
        draft.remarks.append(
            f"At most {most} run at a time there; here your workers are the bound."
        )


def _find_rules(draft: ActionDraft, trigger: Stored, defaults: Defaults) -> Rules:
    """Return the rules of *trigger*; its bounds and jitter go into *draft*."""
    state = trigger.state
    if trigger.kind.endswith(":CronTrigger"):
        return _read_cron(draft, state, defaults)
    if trigger.kind.endswith(":IntervalTrigger"):
        return _read_interval(draft, state)
    if trigger.kind.endswith(":CalendarIntervalTrigger"):
        return _read_calendar_interval(draft, state)
    if trigger.kind.endswith(":DateTrigger"):
        return _read_date(draft, state, defaults)
    if trigger.kind.endswith(":OrTrigger"):
        return _read_or(draft, state, defaults)
    if trigger.kind.endswith(":AndTrigger"):
        msg = (
            "An action is due when any of its rules is, not when all are. Write what"
            " they have in common as one rule."
        )
        raise CannotBeError(msg)
    msg = f"{trigger.kind} is not a trigger of APScheduler's own. Write it by hand."
    raise CannotBeError(msg)


def _read_or(draft: ActionDraft, state: Mapping[str, Any], defaults: Defaults) -> Rules:
    found: Rules = []
    texts = []
    for kind, inner in state["triggers"]:
        part = ActionDraft(draft.entry, "")
        found += _find_rules(part, Stored(str(kind), dict(inner)), defaults)
        if part.document:
            msg = "One of its triggers has bounds or jitter of its own."
            told = f"{msg} Write an action for each trigger."
            raise CannotBeError(told)
        texts.append(part.rule)
        draft.differences += part.differences
        draft.other_clock = part.other_clock or draft.other_clock
    draft.rule = " or ".join(texts)
    _add_jitter(draft, state.get("jitter"))
    return found


def _read_date(
    draft: ActionDraft, state: Mapping[str, Any], defaults: Defaults
) -> Rules:
    instant = state["run_date"]
    draft.rule = f"at {instant.isoformat()}"
    if instant <= defaults.now:
        msg = f"{instant.isoformat()} has passed. Remove the job, or set a new date."
        raise CannotBeError(msg)
    return [{"due_date": _floor(draft, instant).isoformat()}]


def _read_interval(draft: ActionDraft, state: Mapping[str, Any]) -> Rules:
    seconds = state["interval"].total_seconds()
    draft.rule = f"every {state['interval']}"
    anchor = _floor(draft, state["start_date"]).astimezone(UTC)
    _add_bounds(draft, anchor, state.get("end_date"))
    draft.document.pop("starts_at", None)  # the anchor is the first one
    _add_jitter(draft, state.get("jitter"))
    zone = name_zone(state["timezone"])
    every = write_elapsed(read_interval(seconds))
    return [{"every": every, "anchor": anchor.isoformat(), "timezone": zone}]


def _read_calendar_interval(draft: ActionDraft, state: Mapping[str, Any]) -> Rules:
    years, months, weeks, days = state["interval"]
    zone = name_zone(state["timezone"])
    units = ((years, "Y"), (months, "M"), (weeks, "W"), (days, "D"))
    every = "P" + "".join(f"{count}{unit}" for count, unit in units if count)
    start, at = state["start_date"], time(*state["time"])
    draft.rule = f"every {every}, {at}, from {start}"
    draft.other_clock = _OTHER_CLOCK
    if (years or months) and (start.day > 28 or weeks or days):
        draft.differences.append(
            "A month without that day has its last day instead, counted from the first"
            " run; there the month is left out."
        )
    if state.get("end_date") is not None:
        draft.document["ends_at"] = _midnight(
            state["end_date"] + timedelta(days=1), zone
        )
    _add_jitter(draft, state.get("jitter"))
    anchor = datetime.combine(start, at)
    return [{"every": every, "anchor": anchor.isoformat(), "timezone": zone}]


def _read_cron(
    draft: ActionDraft, state: Mapping[str, Any], defaults: Defaults
) -> Rules:
    fields = read_fields(state["fields"])
    zone = name_zone(state["timezone"])
    draft.rule = f"{fields} {zone}"
    draft.other_clock = _OTHER_CLOCK
    _add_bounds(draft, state.get("start_date"), state.get("end_date"))
    _add_years(draft, fields, zone, defaults)
    _add_jitter(draft, state.get("jitter"))
    if fields.second:
        draft.differences.append(
            f"Second {fields.second} is sent by the tick after it, at the full minute."
        )
    if fields.weeks is not None:
        return _make_fortnights(draft, fields, zone, defaults)
    found = _make_rules(fields, zone)
    if any("calendar" in rule for rule in found) and fields.needs_both:
        draft.differences.append(
            "Day of month and weekday must both hold, so it is a calendar rule: a cron"
            " rule would run on either."
        )
    return found


def _make_rules(fields: TriggerFields, zone: str) -> Rules:
    """Return a rule for each way in which the days of the month are named."""
    found: Rules = []
    if fields.clock.days:
        found.append(fields.clock.make_rule(zone))
    special = bool(fields.second) or fields.clock.years is not None
    words = [f"{(day + 1) % 7}#{nth}".replace("#-1", "L") for day, nth in fields.nths]
    if (words or fields.is_last) and special:
        msg = "Counted days with a second or single years are no rule of ours."
        told = f"{msg} Leave out the second, or set start and end dates."
        raise CannotBeError(told)
    if fields.is_last and fields.clock.weekdays != EVERY_WEEKDAY:
        found.append({"calendar": fields.spell_last_day(), "timezone": zone})
    elif fields.is_last:
        found.append({"cron_rule": fields.spell_cron("L", "*"), "timezone": zone})
    if words:
        text = fields.spell_cron("*", ",".join(words))
        found.append({"cron_rule": text, "timezone": zone})
    if not found:
        raise CannotBeError("No day matches all of its fields, so it never runs.")
    return found


def _make_fortnights(
    draft: ActionDraft, fields: TriggerFields, zone: str, defaults: Defaults
) -> Rules:
    """Return a step of two weeks for each weekday and time, if it means that."""
    clock = fields.clock
    plain = not (fields.nths or fields.is_last or clock.years or fields.second)
    plain = plain and len(clock.days) == 31 and clock.months == EVERY_MONTH
    if fields.weeks not in (_ODD, _EVEN) or not plain:
        weeks = spell(fields.weeks or (), frozenset(range(1, 54)))
        msg = (
            f"Weeks {weeks} of the year are no rule of ours. Name days and months, or a"
            ' step from a day on: {"every": "P2W", "anchor": ...}.'
        )
        raise CannotBeError(msg)
    draft.differences.append(
        "Every two weeks from its next run on; there the count starts again with each"
        " year, which after a week 53 leaves one week or three between two runs."
    )
    found: Rules = []
    today = defaults.now.astimezone(load_zone(zone)).date()
    for offset in range(14):
        day = today + timedelta(days=offset)
        if day.isocalendar().week not in (fields.weeks or ()):
            continue
        if day.isoweekday() % 7 not in clock.weekdays:
            continue
        for hour in sorted(clock.hours):
            for minute in sorted(clock.minutes):
                anchor = datetime.combine(day, time(hour, minute)).isoformat()
                found.append({"every": "P2W", "anchor": anchor, "timezone": zone})
    return found


def _add_years(
    draft: ActionDraft, fields: TriggerFields, zone: str, defaults: Defaults
) -> None:
    """Turn years without a hole into bounds; others stay in the rule."""
    years = fields.years
    if years is None:
        return
    this_year = defaults.now.astimezone(load_zone(zone)).year
    coming = sorted(year for year in years if year >= this_year)
    if not coming:
        raise CannotBeError("Its years have passed. Remove the job.")
    fields.limit_to(coming)
    if fields.clock.years is not None:
        return
    starts = draft.document.get("starts_at")
    first = _midnight(date(coming[0], 1, 1), zone)
    if coming[0] > this_year and (starts is None or str(starts) < first):
        draft.document["starts_at"] = first
    if coming[-1] < 2199:
        last = _midnight(date(coming[-1] + 1, 1, 1), zone)
        ends = draft.document.get("ends_at")
        if ends is None or str(ends) > last:
            draft.document["ends_at"] = last


def _midnight(day: date, zone: str) -> str:
    """Return the instant at which *day* begins, as UTC text."""
    return first_instant_at(datetime.combine(day, time()), load_zone(zone)).isoformat()


def _add_bounds(
    draft: ActionDraft, start: datetime | None, end: datetime | None
) -> None:
    """Keep the first instant, and the last one, which is included there."""
    if start is not None:
        draft.document["starts_at"] = start.astimezone(UTC).isoformat()
    if end is not None:
        after = end.astimezone(UTC).replace(microsecond=0) + _SECOND
        draft.document["ends_at"] = after.isoformat()


def _add_jitter(draft: ActionDraft, jitter: float | None) -> None:
    if not jitter:
        return
    minutes = math.ceil(jitter / _MINUTE_S)
    draft.document["jitter"] = f"PT{minutes}M"
    draft.differences.append(
        f"Jitter of {jitter:g} s is drawn anew each time there; here each action keeps"
        " its delay, in whole minutes."
    )


def _floor(draft: ActionDraft, instant: datetime) -> datetime:
    if instant.microsecond:
        draft.differences.append("It runs on the whole second before.")
    return instant.replace(microsecond=0)


def name_zone(zone: tzinfo) -> str:
    """
    Return the name of *zone*.

    Raises:
        CannotBeError: If no zone of ours is the same.
    """
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    if isinstance(zone, timezone):
        return name_offset(zone.utcoffset(None))
    msg = f"Its zone, {zone}, has no name. Give the trigger a zone by name first."
    raise CannotBeError(msg)


def make_plain(value: object) -> object:
    """Return *value* as JSON has it; what JSON has not is marked."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [make_plain(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: make_plain(each) for key, each in value.items()}
    kind = value.kind if isinstance(value, Stored) else type(value).__name__
    return {UNREADABLE: f"a {kind}"}
