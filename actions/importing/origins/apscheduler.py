"""Jobs of APScheduler 3, as its job stores keep them. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from actions.importing.origins.celery_schedules import BOTH_DAYS
from actions.importing.origins.clock_times import (
    EVERY,
    WEEKDAY_NAMES,
    ClockFields,
    Dialect,
    name_counted_day,
    name_offset,
    read_interval,
    spell,
)
from actions.importing.origins.imported import ActionDraft, Stored, Table, refuse
from actions.importing.origins.tasks import run_task
from models.fields.duration import write_elapsed
from models.fields.field_types import WEEKDAYS
from models.fields.zone import load_zone
from models.occurrence import LOOKBACK

_MINUTE_S = 60

_OTHER_CLOCK = (
    "APScheduler goes by its own rules there, which leave some runs out and do others"
    " twice."
)

#: The numbers of each field; an ISO year has up to 53 weeks. Monday is 0.
_FIELDS = {
    "year": frozenset(range(1970, 10_000)),
    "month": EVERY.months,
    "day": EVERY.days,
    "week": frozenset(range(1, 54)),
    "day_of_week": EVERY.weekdays,
    "hour": EVERY.hours,
    "minute": EVERY.minutes,
    "second": EVERY.minutes,
}

#: Of numbers; the others name days of the month.
_EXPRESSIONS = {
    *("AllExpression", "RangeExpression", "MonthRangeExpression"),
    "WeekdayRangeExpression",
}
_BAD = "APScheduler refuses {} in a trigger. Write the action by hand."
_DIALECT = Dialect(_BAD, has_open_steps=True)

#: The places of a weekday in a month, in the order by which a store has them.
_PLACES = {"1st": 1, "2nd": 2, "3rd": 3, "4th": 4, "5th": 5, "last": -1}

_Rules = list[JsonValue]
_State = Mapping[str, Any]


def get_title(name: str, state: _State) -> str:
    """Return the id of a job, or its *name* unless that is the function's."""
    own = state.get("name")
    is_own = isinstance(own, str) and own and not str(state.get("func")).endswith(own)
    return str(own) if is_own else name


def _read_trigger(draft: ActionDraft, trigger: Any) -> None:
    """Read the rule of *trigger*; its bounds and jitter go into *draft*, too."""
    if not isinstance(trigger, Stored):
        refuse("Its trigger could not be read. Write the action by hand.")
    draft.rule = kind = trigger.kind.rpartition(":")[2]
    read = _TRIGGERS.get(kind)
    if read is None:
        other = f"{trigger.kind} is not a trigger of APScheduler's own."
        refuse(_BY_HAND.get(kind, f"{other} Write it by hand."))
    draft.set_rules(read(draft, trigger.state))


def _read_date(draft: ActionDraft, state: _State) -> _Rules:
    instant = state["run_date"]
    return [draft.make_due_date(instant, instant.isoformat(), "Remove the job")]


def _read_interval(draft: ActionDraft, state: _State) -> _Rules:
    draft.rule = f"every {state['interval']}"
    anchor = draft.floor(state["start_date"]).astimezone(UTC)
    _add_bounds(draft, {"end_date": state.get("end_date")})
    _add_jitter(draft, state)
    zone = _name_zone(state["timezone"])
    every = write_elapsed(read_interval(state["interval"].total_seconds()))
    return [{"every": every, "anchor": anchor.isoformat(), "timezone": zone}]


def _read_cron(draft: ActionDraft, state: _State) -> _Rules:
    fields = {each.state["name"]: each.state for each in state["fields"]}
    texts = {
        name: [_write(each) for each in fields[name]["expressions"]] for name in _FIELDS
    }
    numbers = {name: _read_numbers(texts[name], _FIELDS[name]) for name in _FIELDS}
    zone = _name_zone(state["timezone"])
    given = [name for name in _FIELDS if not fields[name].get("is_default")]
    said = [f"{name}={','.join(texts[name])}" for name in given]
    draft.rule = f"{' '.join(said)} {zone}"
    draft.other_clock = _OTHER_CLOCK
    _add_bounds(draft, state)
    clock = ClockFields(
        *(numbers["minute"], numbers["hour"], numbers["day"], numbers["month"]),
        weekdays=frozenset((day + 1) % 7 for day in numbers["day_of_week"]),
        seconds=numbers["second"],
        years=_find_coming_years(draft, numbers["year"], zone),
    )
    _add_jitter(draft, state)
    if numbers["week"] != _FIELDS["week"]:
        weeks = spell(numbers["week"], _FIELDS["week"])
        refuse(
            f"Weeks {weeks} of the year are no rule of ours. Name days and months, or a"
            ' step from a day on: {"every": "P2W", "anchor": ...}.'
        )
    found = _make_rules(clock, texts["day"], zone)
    has_both = clock.weekdays != EVERY.weekdays and clock.days != EVERY.days
    if has_both and any("calendar" in rule for rule in found):
        draft.differences.append(BOTH_DAYS)
    return [*found]


def _read_numbers(texts: Sequence[str], every: frozenset[int]) -> frozenset[int]:
    """Return the numbers of a field, but for the days that are named by words."""
    plain = ",".join(each for each in texts if not each[-1:].isalpha())
    return _DIALECT.read(plain, every, {}) if plain else frozenset()


def _write(expression: Stored) -> str:
    """Return an expression as people write it."""
    kind, state = expression.kind.rpartition(":")[2], expression.state
    if kind == "LastDayOfMonthExpression":
        return "last"
    if kind == "WeekdayPositionExpression":
        place, weekday = [*_PLACES][state["option_num"]], WEEKDAYS[state["weekday"]]
        return f"{place} {weekday.lower()}"
    if kind not in _EXPRESSIONS:
        refuse(f"{kind} is not an expression of APScheduler's own. Write it by hand.")
    first, last, step = state.get("first"), state.get("last"), state.get("step")
    text = "*" if first is None else str(first)
    if last is not None and last != first:
        text += f"-{last}"
    return f"{text}/{step}" if step else text


def _make_rules(
    clock: ClockFields, days: Sequence[str], zone: str
) -> list[dict[str, JsonValue]]:
    """Return a rule for each way in which *days* of the month are named."""
    zoned: dict[str, JsonValue] = {"timezone": zone}
    is_last = "last" in days
    counted = [
        name_counted_day(WEEKDAY_NAMES[day], _PLACES[place])
        for place, _, day in (each.partition(" ") for each in days)
        if WEEKDAY_NAMES.get(day) in clock.weekdays
    ]
    found = [clock.make_rule(zone)] if clock.days else []
    counts_days = counted or is_last
    if counts_days and (clock.seconds != EVERY.seconds or clock.years is not None):
        refuse(
            "Counted days with a second or single years are no rule of ours."
            " Leave out the second, or set start and end dates."
        )
    if is_last and clock.weekdays != EVERY.weekdays:
        found.append({"calendar": clock.spell_calendar("~01"), **zoned})
    elif is_last:
        found.append({"cron_rule": clock.spell_cron("L", "*"), **zoned})
    if counted:
        found.append({"cron_rule": clock.spell_cron("*", ",".join(counted)), **zoned})
    if not found:
        refuse("No day matches all of its fields, so it never runs.")
    return found


def _find_coming_years(
    draft: ActionDraft, years: frozenset[int], zone: str
) -> frozenset[int] | None:
    """Return those of the next hundred years in which it runs; None: in all."""
    if years == _FIELDS["year"]:
        return None
    this_year = draft.defaults.now.astimezone(load_zone(zone)).year
    coming = years & frozenset(range(this_year, this_year + 100))
    if not coming:
        refuse("Its years have passed. Remove the job.")
    return coming


def _add_bounds(draft: ActionDraft, state: _State) -> None:
    """Keep the first instant, and the last one, which is included there."""
    start, end = state.get("start_date"), state.get("end_date")
    if start is not None:
        draft.document["starts_at"] = start.astimezone(UTC).isoformat()
    if end is not None:
        after = end.astimezone(UTC).replace(microsecond=0) + timedelta(seconds=1)
        draft.document["ends_at"] = after.isoformat()


def _add_jitter(draft: ActionDraft, state: _State) -> None:
    jitter = state.get("jitter")
    if not jitter:
        return
    draft.document["jitter"] = f"PT{math.ceil(jitter / _MINUTE_S)}M"
    draft.differences.append(
        f"Jitter of {jitter:g} s is drawn anew each time there; here each action keeps"
        " its delay, in whole minutes."
    )


def _name_zone(zone: tzinfo) -> str:
    """
    Return the name of *zone*.

    Raises:
        CannotBeError: If no zone of ours is the same.
    """
    if isinstance(zone, ZoneInfo) and zone.key:
        return zone.key
    if not isinstance(zone, timezone):
        refuse(f"Its zone, {zone}, has no name. Give the trigger a zone by name first.")
    return name_offset(zone.utcoffset(None))


def _read_next_run(draft: ActionDraft, value: Any) -> None:
    if value is None:
        draft.switch_off("paused there")


def _read_grace(draft: ActionDraft, seconds: Any) -> None:
    """Make up for what may be late there; None: however late."""
    runs = "latest" if draft.fields.get("coalesce", True) else "all"
    if seconds is None or seconds > LOOKBACK.total_seconds():
        within = {} if seconds is None else {"within": write_elapsed(int(seconds))}
        draft.document["catch_up"] = {"runs": runs, **within}


def _read_instances(draft: ActionDraft, most: Any) -> None:
    is_one = most is None or most == 1
    draft.document["overlap"] = "skip" if is_one else "allow"
    if not is_one:
        draft.remarks.append(
            f"At most {most} run at a time there; here your workers are the bound."
        )


def _read_function(draft: ActionDraft, func: Any) -> None:
    args, kwargs = draft.fields.get("args") or (), draft.fields["kwargs"] or {}
    named = {str(key): value for key, value in kwargs.items()}
    task = func.replace(":", ".")
    run_task(draft, task, args, named)


_TRIGGERS: Mapping[str, Callable[[ActionDraft, _State], _Rules]] = {
    "CronTrigger": _read_cron,
    "IntervalTrigger": _read_interval,
    "DateTrigger": _read_date,
}

#: What to write instead of the others.
_BY_HAND = {
    "AndTrigger": "An action is due when any of its rules is, not when all are. Write"
    " what they have in common as one rule.",
    "CalendarIntervalTrigger": "Write it by hand: every takes days, weeks, months and"
    " years, such as P1M, with an anchor.",
    "OrTrigger": "Write it by hand: when takes a list of rules.",
}

#: What ``Job.__getstate__`` gave; objects are Stored.
APSCHEDULER: Table = {
    "trigger": _read_trigger,
    "next_run_time": _read_next_run,
    "misfire_grace_time": _read_grace,
    "max_instances": _read_instances,
    "func": _read_function,
}
