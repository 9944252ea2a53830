"""
An action as a form for the common kinds, and the form as an action.

Pure, and no judge of anything: what is written here is read by the door like any other
text. A form shows a part of a document; what it does not show stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

from web.document_text import replace_members
from web.duration_words import read_duration, tell_duration

#: What the names of all fields begin with, beside those of the page.
PREFIX = "f_"

#: Weekdays as cron counts them, from Monday on.
DAYS = ("1", "2", "3", "4", "5", "6", "0")
WORKDAYS = DAYS[:5]

_DAY_NAMES = {
    name: str(number)
    for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))
}

_AT = re.compile(r"(\d{1,2}) (\d{1,2}) \* \* (\S+)", re.ASCII)
_LOCAL = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(?::00)?", re.ASCII)
_TIME = re.compile(r"(\d{1,2}):(\d{2})", re.ASCII)

_Object = dict[str, JsonValue]


class Kind(StrEnum):
    """What people call the common kinds."""

    DAILY = "every day"
    WEEKLY = "on some weekdays"
    INTERVAL = "every so often"
    ONCE = "once"
    CRON = "by a cron rule"
    ON_EVENT = "when something happens"
    AFTER_EVENT = "some time after it happened"
    AS_WRITTEN = "as it is written"


#: The boxes of the steps, in the order in which steps run, and the fields of each.
STEPS: Mapping[str, tuple[str, ...]] = {
    "refresh": ("domains",),
    "publish": ("data", "design", "permissions"),
    "send_email": ("template",),
    "send_execsum": (),
    "call_webhook": ("url",),
    "run_task": ("task", "queue"),
}

_PARTS = STEPS["publish"]

#: Flags of the recipients, by the name of the box.
FLAGS = {
    "not_activated": "include_inactivated_users",
    "inactive": "include_inactive_users",
}

_ON = "on"


@dataclass(frozen=True, slots=True)
class ActionForm:
    """
    What a form shows of an action.

    Args:
        values: Text by the name of the field; a box that is checked has "on".

        days: The weekdays that are checked, of DAYS.

        kept: Members of the document that the form does not show.
    """

    values: Mapping[str, str] = field(default_factory=dict)
    days: tuple[str, ...] = WORKDAYS
    kept: tuple[str, ...] = ()

    def get(self, name: str) -> str:
        """Return the field *name*; empty if there is none."""
        return self.values.get(name, "")

    @property
    def kind(self) -> Kind:
        """The kind that is chosen."""
        return Kind(self.get("kind"))


def show_action(document: Mapping[str, JsonValue]) -> ActionForm:
    """
    Return the form of *document*.

    Args:
        document: Decoded JSON, which the door may refuse.
    """
    values = {
        "kind": Kind.DAILY.value,
        "time": "07:00",
        "name": _tell(document.get("name")),
        "overlap": _tell(document.get("overlap")),
    }
    days: tuple[str, ...] = WORKDAYS
    if "when" in document:
        shown, found = _show_when(document["when"])
        values |= shown
        days = found or days
    values |= _show_steps(document.get("operations"))
    values |= _show_recipients(document.get("recipients"))
    known = {"name", "when", "operations", "recipients", "overlap"}
    kept = tuple(key for key in document if key not in known)
    return ActionForm(values, days, kept)


def apply_form(text: str, document: Mapping[str, JsonValue], form: ActionForm) -> str:
    """
    Return *text* with what was changed in the form.

    Args:
        text: Of *document*; parts that nobody changed stay as they are written.

        document: The same, decoded; empty if there is none yet.

        form: As it was sent.
    """
    old = show_action(document)
    new: _Object = dict(document)
    _write(new, "name", form.get("name"), is_changed=_differ(old, form, "name"))
    if _is_other_when(old, form) or "when" not in document:
        new["when"] = _make_when(form)
    operations = _make_steps(document.get("operations"), old, form)
    if operations != document.get("operations"):
        new["operations"] = operations
    if _differ(old, form, "users", "groups", *FLAGS):
        _write(new, "recipients", _make_recipients(document.get("recipients"), form))
    _write(
        new, "overlap", form.get("overlap"), is_changed=_differ(old, form, "overlap")
    )
    return replace_members(text, document, new)


def _write(
    document: _Object, key: str, value: JsonValue, *, is_changed: bool = True
) -> None:
    """Give *document* the member *key*, or take it away if *value* is empty."""
    if not is_changed:
        return
    if value:
        document[key] = value
    else:
        document.pop(key, None)


def _differ(old: ActionForm, form: ActionForm, *names: str) -> bool:
    return any(old.get(name).strip() != form.get(name).strip() for name in names)


def _tell(value: JsonValue) -> str:
    """Return a text as it is; of anything else, nothing."""
    return value if isinstance(value, str) else ""


# ---------------------------------------------------------------------------- when


def _show_when(when: JsonValue) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the fields of a rule, and its weekdays."""
    kept = {"kind": Kind.AS_WRITTEN.value}
    if not isinstance(when, dict):
        return kept, ()
    if not all(isinstance(value, str) for value in when.values()):
        return kept, ()
    rule = {key: str(value) for key, value in when.items()}
    values = {"zone": rule.pop("timezone", "")}
    days: tuple[str, ...] = ()
    match sorted(rule):
        case ["cron_rule"]:
            found, days = _show_cron(rule["cron_rule"])
        case ["every"] | ["anchor", "every"]:
            every = tell_duration(rule["every"])
            found = {"kind": Kind.INTERVAL.value, "every": every}
            found["anchor"] = rule.get("anchor", "")
        case ["due_date"] if _is_local(rule["due_date"]):
            # Fields for a date and time leave out seconds that are zero.
            date = rule["due_date"][: len("2026-12-01T09:00")]
            found = {"kind": Kind.ONCE.value, "date": date}
        case ["on"] | ["at", "on"]:
            found = {"kind": Kind.ON_EVENT.value, "event": rule["on"]}
            found["at"] = rule.get("at", "")
        case ["after", "delay"] | ["after", "at", "delay"]:
            delay = tell_duration(rule["delay"])
            found = {"kind": Kind.AFTER_EVENT.value, "event": rule["after"]}
            found |= {"delay": delay, "at": rule.get("at", "")}
        case _:
            found = kept
    return values | found, days


def _is_local(text: str) -> bool:
    """Tell whether *text* is a local time that a field for such can show."""
    return _LOCAL.fullmatch(text) is not None


def _show_cron(rule: str) -> tuple[dict[str, str], tuple[str, ...]]:
    found = _AT.fullmatch(rule.strip())
    values = {"kind": Kind.CRON.value, "rule": rule}
    if found is None or int(found[1]) > 59 or int(found[2]) > 23:
        return values, ()
    values["time"] = f"{int(found[2]):02}:{int(found[1]):02}"
    if found[3] == "*":
        return values | {"kind": Kind.DAILY.value}, ()
    days = _read_days(found[3])
    if not days:
        return {"kind": Kind.CRON.value, "rule": rule}, ()
    return values | {"kind": Kind.WEEKLY.value}, days


def _read_days(text: str) -> tuple[str, ...]:
    """Return the weekdays of a cron field, from Monday on; none if it has others."""
    chosen: set[str] = set()
    for part in text.casefold().split(","):
        first, dash, last = part.partition("-")
        ends = [
            _DAY_NAMES.get(each, each) for each in ([first, last] if dash else [first])
        ]
        if not all(each in {*DAYS, "7"} for each in ends):
            return ()
        start, stop = int(ends[0]), int(ends[-1])
        chosen |= {str(number % 7) for number in range(start, stop + 1)}
        if start > stop:
            return ()
    return tuple(day for day in DAYS if day in chosen)


def _is_other_when(old: ActionForm, form: ActionForm) -> bool:
    if form.kind is Kind.AS_WRITTEN:
        return False
    names = {
        Kind.DAILY: ("time",),
        Kind.WEEKLY: ("time",),
        Kind.INTERVAL: ("every", "anchor"),
        Kind.ONCE: ("date",),
        Kind.CRON: ("rule",),
        Kind.ON_EVENT: ("event", "at"),
        Kind.AFTER_EVENT: ("event", "delay", "at"),
    }[form.kind]
    if form.kind is Kind.WEEKLY and old.days != form.days:
        return True
    return _differ(old, form, "kind", "zone", *names)


def _make_when(form: ActionForm) -> JsonValue:
    rule: _Object = {}
    match form.kind:
        case Kind.DAILY:
            rule["cron_rule"] = _make_rule(form.get("time"), "*")
        case Kind.WEEKLY:
            rule["cron_rule"] = _make_rule(form.get("time"), _write_days(form.days))
        case Kind.INTERVAL:
            rule["every"] = read_duration(form.get("every"))
            if form.get("anchor").strip():
                rule["anchor"] = form.get("anchor").strip()
        case Kind.ONCE:
            date = form.get("date").strip()
            rule["due_date"] = f"{date}:00" if _LOCAL.fullmatch(date) else date
        case Kind.CRON:
            rule["cron_rule"] = form.get("rule").strip()
        case Kind.ON_EVENT:
            rule["on"] = form.get("event").strip()
        case Kind.AFTER_EVENT:
            rule["after"] = form.get("event").strip()
            rule["delay"] = read_duration(form.get("delay"))
        case Kind.AS_WRITTEN:
            return {}
    if form.kind in (Kind.ON_EVENT, Kind.AFTER_EVENT) and form.get("at").strip():
        rule["at"] = form.get("at").strip()
    if form.get("zone").strip():
        rule["timezone"] = form.get("zone").strip()
    return rule


def _make_rule(time: str, days: str) -> str:
    found = _TIME.match(time.strip())
    # The door says what is wrong with a rule that lacks its time.
    hour, minute = (int(found[1]), int(found[2])) if found else ("", "")
    return f"{minute} {hour} * * {days}".strip()


def _write_days(days: tuple[str, ...]) -> str:
    if days == WORKDAYS:
        return "1-5"
    return ",".join(days) if len(days) < len(DAYS) else "*"


# --------------------------------------------------------------------------- steps


def _show_steps(operations: JsonValue) -> dict[str, str]:
    """Return the boxes and fields of the steps that are asked for."""
    values: dict[str, str] = {}
    steps = operations if isinstance(operations, dict) else {}
    for step in STEPS:
        value = steps.get(step)
        if _is_asked(value):
            values[step] = _ON
            values |= _show_step(step, value)
    return values


def _is_asked(value: JsonValue) -> bool:
    return value not in (None, False, "false", "False", "no", "off", "0", 0)


def _show_step(step: str, value: JsonValue) -> dict[str, str]:
    given = value if isinstance(value, dict) else {}
    match step:
        case "refresh":
            shown = {"domains": _join(given.get("domains", "all"))}
        case "publish":
            chosen = [
                part for part in _PARTS if not given or _is_asked(given.get(part))
            ]
            shown = dict.fromkeys(chosen, _ON)
        case "send_email":
            shown = {"template": _tell(given.get("template"))}
        case "call_webhook":
            shown = {"url": _tell(given.get("url"))}
        case "run_task":
            queue = _tell(given.get("queue"))
            shown = {"task": _tell(given.get("name")), "queue": queue}
        case _:
            shown = {}
    return shown


def _join(value: JsonValue) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return _tell(value)


def _split(text: str) -> list[JsonValue]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _make_steps(operations: JsonValue, old: ActionForm, form: ActionForm) -> JsonValue:
    """Return the steps; those that nobody changed are as they were written."""
    steps: _Object = dict(operations) if isinstance(operations, dict) else {}
    for step, fields in STEPS.items():
        if not form.get(step):
            if old.get(step):
                del steps[step]
        elif _differ(old, form, step, *fields):
            steps[step] = _make_step(step, steps.get(step), form)
    return steps or operations


def _make_step(step: str, value: JsonValue, form: ActionForm) -> JsonValue:
    given: _Object = dict(value) if isinstance(value, dict) else {}
    if step == "refresh":
        domains = _split(form.get("domains"))
        return {**given, "domains": "all" if domains in ([], ["all"]) else domains}
    if step == "publish":
        chosen: _Object = {part: bool(form.get(part)) for part in _PARTS}
        # Just checked, and nothing said: the data, which everybody has.
        return chosen if any(chosen.values()) else {"data": True}
    if step == "send_email":
        return {**given, "template": form.get("template").strip()}
    if step == "call_webhook":
        return {**given, "url": form.get("url").strip()}
    if step == "run_task":
        task: _Object = {**given, "name": form.get("task").strip()}
        _write(task, "queue", form.get("queue").strip())
        return task
    return True


# ---------------------------------------------------------------------- recipients


def _show_recipients(recipients: JsonValue) -> dict[str, str]:
    who = recipients if isinstance(recipients, dict) else {}
    values = {"users": _join(who.get("users")), "groups": _join(who.get("groups"))}
    return values | {
        box: _ON for box, flag in FLAGS.items() if _is_asked(who.get(flag))
    }


def _make_recipients(recipients: JsonValue, form: ActionForm) -> JsonValue:
    """Return who gets the mails; flags that the form does not show stay."""
    who: _Object = dict(recipients) if isinstance(recipients, dict) else {}
    for key in ("users", "groups"):
        _write(who, key, _split(form.get(key)))
    for box, flag in FLAGS.items():
        _write(who, flag, bool(form.get(box)))
    return who
