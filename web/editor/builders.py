"""
What people say of an action in a few fields, and the same as parts of its document.

Pure, and no judge of anything: what is put into a document is read by the door like any
other text. Fields show only what they can say whole; whatever else a document has stays
as it is written.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, time, timedelta
from typing import NamedTuple, cast

from pydantic import JsonValue

from models.door.json_text import decode_json
from models.errors import InvalidDocumentError, RuleError
from models.fields.delay import parse_time_of_day, read_clock
from models.fields.duration_words import read_duration, tell_duration
from web.forms import Form, read_number

_Document = Mapping[str, JsonValue]
_Object = dict[str, JsonValue]
_Fields = list[tuple[str, str]]

#: The kinds of ``when`` that have fields, in words.
KINDS: Mapping[str, str] = {
    "daily": "every day",
    "weekdays": "on weekdays",
    "working": "on working days",
    "monthly": "every month",
    "interval": "every so often",
    "once": "once",
    "event": "on an event",
    "after": "after another action",
    "cron": "by a cron rule",
    "calendar": "by a calendar rule of systemd",
}

#: Weekdays as cron counts them, from Monday on.
DAYS: Mapping[str, str] = dict(
    zip(
        "1234560",
        ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"],
        strict=True,
    )
)
_MONDAY_TO_FRIDAY = "1-5"

#: Which of a month is the last, and what is counted beside weekdays.
_LAST, _DAY, _WORKDAY = "-1", "day", "workday"

_CRON = re.compile(
    r"(\d\d?) (\d\d?) (\*|L|\d\d?) \* (?:([0-6])(?:#([1-5])|L)|(\S+))", re.ASCII
)

#: A time of day that is kept as it is: with its offset, or to the second.
_EXACT = re.compile(
    r"\d\d:\d\d(:\d\d)?(Z|[+-]\d\d:\d\d)|\d\d:\d\d:(?!00)\d\d", re.ASCII
)

#: The steps in the order in which they run; what their fields hold, by their names.
STEPS: Mapping[str, Mapping[str, type]] = {
    "refresh": {"domains": list, "force": bool},
    "publish": {"data": bool, "design": bool, "permissions": bool},
    "send_email": {"template": str},
    "send_execsum": {},
    "call_webhook": {"url": str},
    "run_task": {"name": str, "queue": str, "kwargs": dict},
}

#: Whom else the mails may reach.
FLAGS: Mapping[str, str] = {
    "include_inactivated_users": "never activated their account",
    "include_inactive_users": "are disabled or expired",
}
_WHO: Mapping[str, type] = {"groups": list, "users": list, **dict.fromkeys(FLAGS, bool)}
_WHAT: Mapping[str, type] = {"name": str, "overlap": str}
_IF: Mapping[str, type] = {"refreshed": bool}


class Field(NamedTuple):
    """A field of a builder: what it holds, and what people read beside it."""

    kind: type
    label: str
    hint: str


#: What becomes of a run that fails.
FAILING: Mapping[str, Field] = {
    "retries": Field(int, "If it fails, try again", "0 to 10 times; empty: as usual"),
    "retry_after": Field(
        timedelta, "for the first time after", "1 minute ...; then after twice as long"
    ),
    "rest_after": Field(
        int, "Pause it after failures in a row", "such as 3; empty: never"
    ),
}
_FAILING = {name: each.kind for name, each in FAILING.items()}

#: What is offered of a step that is not asked for, and for ``when``.
_FIRST: _Document = {"refresh": {"domains": "all"}, "publish": {"data": True}}
_FIRST_WHEN = (("when_nth", _LAST), ("when_of", _WORKDAY))


def _set(document: _Document, members: _Document) -> _Object:
    """Return *document* with *members*, without those that are empty; 0 says much."""
    empty = {k for k, value in members.items() if not value and type(value) is not int}
    return {k: v for k, v in {**document, **members}.items() if k not in empty}


def _get_object(value: JsonValue) -> _Object:
    return value if isinstance(value, dict) else {}


def _get_list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _tell(value: JsonValue) -> str:
    """Return a text or number, a list with commas, an object as JSON; else nothing."""
    if type(value) is int:
        return str(value)
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return value if isinstance(value, str) else ""


def _split(text: str) -> list[JsonValue]:
    return [each.strip() for each in text.split(",") if each.strip()]


def _is_asked(value: JsonValue) -> bool:
    return value not in (None, False, "false", "False", "no", "off", "0", 0)


# ---------------------------------------------------------------------------- when


def put_when(document: _Document, form: Form) -> _Object:
    """
    Return *document* with the rule of the fields, and the holidays of working days.

    Raises:
        RuleError: A field cannot be read, or is missing.
    """
    days = _get_list(document.get("except"))
    has_weekdays = any("weekdays" in _get_object(each) for each in days)
    rule = _make_rule(form, "*" if has_weekdays else _MONDAY_TO_FRIDAY)
    made = _set(document, {"when": _set(rule, {"timezone": form.get("when_zone")})})
    named = _split(form.get("when_holidays"))
    if form.get("when_kind") != "working" and "working_day" not in rule:
        return made
    if named == _list_calendars(document):
        return made
    others = [each for each in days if "calendar" not in _get_object(each)]
    return _set(made, {"except": [*others, *({"calendar": name} for name in named)]})


def _list_calendars(document: _Document) -> list[JsonValue]:
    days = map(_get_object, _get_list(document.get("except")))
    return [each["calendar"] for each in days if "calendar" in each]


#: What a kind cannot do without, beside a time of day.
_NEEDED = {
    "interval": "interval",
    "once": "date",
    "event": "event",
    "after": "action",
    "cron": "rule",
    "calendar": "rule",
}


def _make_rule(form: Form, working_days: str) -> _Object:
    rule: _Object
    match form.get("when_kind"):
        case "daily":
            rule = _make_cron(form, "* * *")
        case "weekdays":
            rule = _make_cron(form, f"* * {_write_days(form.get_all('when_day'))}")
        case "working":
            rule = _make_cron(form, f"* * {working_days}")
        case "monthly":
            rule = _make_monthly(form, form.get("when_nth"), form.get("when_of"))
        case "interval" if form.get("when_every"):
            every = read_duration(form.get("when_every"))
            rule = _set({"every": every}, {"anchor": form.get("when_anchor")})
        case "once" if form.get("when_date"):
            typed = form.get("when_time")
            clock = typed if _EXACT.fullmatch(typed) else _read_time(form)
            rule = {"due_date": f"{form.get('when_date')}T{clock}"}
        case "event" if form.get("when_event"):
            at = f"{_read_time(form):%H:%M}" if form.get("when_time") else ""
            event, delay = form.get("when_event"), read_duration(form.get("when_delay"))
            begun: _Object = (
                {"after": event, "delay": delay} if delay else {"on": event}
            )
            rule = _set(begun, {"at": at})
        case "after" if form.get("when_former"):
            delay = read_duration(form.get("when_delay"))
            rule = {"after_action": form.get("when_former")}
            rule = _set(rule, {"on": form.get("when_ending"), "delay": delay})
        case "cron" if form.get("when_rule"):
            rule = {"cron_rule": form.get("when_rule")}
        case "calendar" if form.get("when_calendar"):
            rule = {"calendar": form.get("when_calendar")}
        case kind:
            raise RuleError(
                f"No {_NEEDED.get(kind, 'kind')} is chosen.", "Choose when it runs."
            )
    return rule


def _make_monthly(form: Form, nth: str, counted: str) -> _Object:
    if counted == _WORKDAY:
        number = read_number(nth.removeprefix("-"))
        if isinstance(number, int) and nth.startswith("-"):
            number = -number
        return {"working_day": number, "at": f"{_read_time(form):%H:%M}"}
    if nth.startswith("-") and nth != _LAST:
        msg = "Only working days are counted from the end of a month."
        raise RuleError(msg, "Choose working days, or the last one.")
    if counted == _DAY:
        return _make_cron(form, f"{'L' if nth == _LAST else nth} * *")
    return _make_cron(form, f"* * {counted}{'L' if nth == _LAST else f'#{nth}'}")


def _make_cron(form: Form, days: str) -> _Object:
    at = _read_time(form)
    return {"cron_rule": f"{at.minute} {at.hour} {days}"}


def _read_time(form: Form) -> time:
    typed = form.get("when_time")
    if not typed:
        hint = "Write hours and minutes, such as 17:00 or 5 pm."
        raise RuleError("No time is chosen.", hint)
    at = read_clock(typed)
    return parse_time_of_day(typed) if at is None or at.second else at


def _write_days(days: Sequence[str]) -> str:
    chosen = [day for day in DAYS if day in days]
    if not chosen:
        raise RuleError("No weekday is chosen.", "Choose at least one.")
    return _MONDAY_TO_FRIDAY if chosen == [*DAYS][:5] else ",".join(chosen)


def show_when(document: _Document) -> _Fields | None:
    """Return the fields that say when *document* is due. None: no fields can."""
    rule = dict(_get_object(document.get("when")))
    zone = ("zone", str(rule.pop("timezone", "")))
    for guess in _guess({key: str(value) for key, value in rule.items()}, document):
        fields = [(f"when_{name}", value) for name, value in (*guess, zone)]
        try:
            if put_when(document, Form(tuple(fields))) == document:
                return fields
        except RuleError:
            pass
    return None if document.get("when") else []


def _guess(rule: Mapping[str, str], document: _Document) -> Iterator[_Fields]:
    """Yield the fields that may say *rule*, the closest words first."""
    holidays = ("holidays", _tell(_list_calendars(document)))
    at = ("time", rule.get("at", ""))
    match sorted(rule):
        case ["cron_rule"]:
            if found := _CRON.fullmatch(rule["cron_rule"]):
                yield from _guess_cron(found, document, holidays)
            yield [("kind", "cron"), ("rule", rule["cron_rule"])]
        case ["calendar"]:
            yield [("kind", "calendar"), ("calendar", rule["calendar"])]
        case ["at", "working_day"]:
            counted = [("nth", rule["working_day"]), ("of", _WORKDAY)]
            yield [("kind", "monthly"), *counted, at, holidays]
        case ["every"] | ["anchor", "every"]:
            for every in (tell_duration(rule["every"]), rule["every"]):
                anchor = ("anchor", rule.get("anchor", ""))
                yield [("kind", "interval"), ("every", every), anchor]
        case ["due_date"] if _is_date(rule["due_date"][:10]):
            day, clock = rule["due_date"][:10], rule["due_date"][11:]
            clock = clock if _EXACT.fullmatch(clock) else clock[:5]
            yield [("kind", "once"), ("date", day), ("time", clock)]
        case ["on"] | ["at", "on"] | ["after", "delay"] | ["after", "at", "delay"]:
            event = ("event", rule.get("on") or rule.get("after", ""))
            for delay in (tell_duration(rule.get("delay", "")), rule.get("delay", "")):
                yield [("kind", "event"), event, ("delay", delay), at]
        case ["after_action", *_]:
            former = ("former", rule["after_action"])
            ending = ("ending", rule.get("on", ""))
            for delay in (tell_duration(rule.get("delay", "")), rule.get("delay", "")):
                yield [("kind", "after"), former, ending, ("delay", delay)]


def _guess_cron(
    found: re.Match[str], document: _Document, holidays: tuple[str, str]
) -> Iterator[_Fields]:
    if document.get("except"):
        yield [("kind", "working"), _show_time(found), holidays]
    yield _show_cron(found)


def _is_date(text: str) -> bool:
    try:
        return bool(date.fromisoformat(text))
    except ValueError:
        return False


def _show_time(found: re.Match[str]) -> tuple[str, str]:
    return "time", f"{found[2]:0>2}:{found[1]:0>2}"


def _show_cron(found: re.Match[str]) -> _Fields:
    day, weekday, nth, days = found.groups()[2:]
    at = _show_time(found)
    if day != "*":
        nth, weekday = (_LAST if day == "L" else day), _DAY
    if weekday:
        return [("kind", "monthly"), ("nth", nth or _LAST), ("of", weekday), at]
    if days == "*":
        return [("kind", "daily"), at]
    chosen = [*DAYS][:5] if days == _MONDAY_TO_FRIDAY else days.split(",")
    return [("kind", "weekdays"), *(("day", each) for each in chosen), at]


# ------------------------------------------------------------ steps and recipients


def _read(name: str, form: Form, kinds: Mapping[str, type]) -> _Object:
    """Return what the fields whose names begin with *name* say."""
    found: _Object = {}
    for key, kind in kinds.items():
        text = form.get(f"{name}_{key}")
        found[key] = bool(text) if kind is bool else text
        if kind is int:
            found[key] = read_number(text)
        elif kind is timedelta:
            found[key] = read_duration(text)
        elif kind is list:
            # Of domains it is no name; of groups it is one.
            is_all = key == "domains" and text == "all"
            found[key] = text if is_all else _split(text)
        elif kind is dict and text:
            with suppress(InvalidDocumentError):  # the door says what is wrong
                found[key] = cast("JsonValue", decode_json(text))
    return found


def _show(name: str, value: JsonValue, kinds: Mapping[str, type]) -> _Fields:
    """Return the fields whose names begin with *name*, and that say *value*."""
    given = _get_object(value)
    if not isinstance(value, dict):  # a step that is just `true` does all it can
        every: _Object = {key: value for key in kinds if key != "force"}
        given = {key: "all" if kinds[key] is list else v for key, v in every.items()}
    fields = []
    for key, kind in kinds.items():
        told = key if kind is bool else _tell(given.get(key))
        if kind is timedelta and read_duration(tell_duration(told)) == told:
            told = tell_duration(told)
        if kind is not bool or _is_asked(given.get(key)):
            fields.append((f"{name}_{key}", told))
    return fields


def _put(
    name: str, document: _Document, form: Form, kinds: Mapping[str, type]
) -> _Object:
    """Return *document* with what the fields do not say of it already."""
    read = _read(name, form, kinds)
    some = [{key: kind} for key, kind in kinds.items()]
    old = dict(document)
    typed = [k for k in some if _show(name, read, k) != _show(name, old, k)]
    return _set(document, {key: read[key] for each in typed for key in each})


def put_what(document: _Document, form: Form) -> _Object:
    """Return *document* with the name and the steps of the fields."""
    steps = _get_object(document.get("operations"))
    for step, kinds in STEPS.items():
        box, old = f"what_{step}", steps.get(step)
        made: JsonValue = None
        if form.has(box):
            made = _set(_get_object(old), _read(box, form, kinds)) or True
        if _is_asked(made) != _is_asked(old) or (
            made and _show(box, made, kinds) != _show(box, old, kinds)
        ):
            steps = _set(steps, {step: made})
    made = _set(_put("what", document, form, _WHAT), {"operations": steps})
    condition = _put("what_if", _get_object(made.get("if")), form, _IF)
    return _put("what", _set(made, {"if": condition}), form, _FAILING)


def show_what(document: _Document) -> _Fields | None:
    """Return the fields that say the name and the steps of *document*."""
    fields = _show("what", dict(document), {**_WHAT, **_FAILING})
    fields += _show("what_if", _get_object(document.get("if")), _IF)
    for step, kinds in STEPS.items():
        value = _get_object(document.get("operations")).get(step)
        if _is_asked(value):
            fields.append((f"what_{step}", step))
        else:
            value = _FIRST.get(step)
        fields += _show(f"what_{step}", value, kinds)
    return fields


def put_who(document: _Document, form: Form) -> _Object:
    """Return *document* with the recipients of the fields."""
    who = _put("who", _get_object(document.get("recipients")), form, _WHO)
    return _set(document, {"recipients": who})


def show_who(document: _Document) -> _Fields | None:
    """Return the fields that say who gets the mails of *document*."""
    return _show("who", _get_object(document.get("recipients")), _WHO)


# ------------------------------------------------------------------------ builders


@dataclass(frozen=True, slots=True)
class Builder:
    """
    A few fields that say a part of a document.

    Args:
        title: What it says, in a word or two.
        show: Returns the fields that say what a document says. None: no fields can.
        put: Returns a document with what the fields say.
    """

    title: str
    show: Callable[[_Document], _Fields | None]
    put: Callable[[_Document, Form], _Object]


#: By what the names of their fields begin with.
BUILDERS: Mapping[str, Builder] = {
    "what": Builder("Name and steps", show_what, put_what),
    "when": Builder("When", show_when, put_when),
    "who": Builder("Recipients", show_who, put_who),
}


def open_builders(
    document: _Document, sent: Form, *, holidays: str = "", anew: str = ""
) -> Form:
    """
    Return the fields of the builders; what somebody typed into them stays.

    Args:
        document: What they show, if nobody typed.
        sent: The fields that were sent, if any.
        holidays: The calendars of its small app, whose names nobody need know.
        anew: The builder that is to show the document, whatever was typed.
    """
    fields: _Fields = []
    for name, builder in BUILDERS.items():
        found = builder.show(document) or []
        known = {key for key, _ in found}
        first = [*_FIRST_WHEN, ("when_holidays", holidays)] if name == "when" else []
        found += [each for each in first if each[0] not in known]
        fields.append((f"{name}_shown", _digest(name, found)))
        if name != anew and is_typed(name, sent):
            found = [each for each in sent.fields if each[0].startswith(f"{name}_")]
        fields += found
    return Form(tuple(fields))


def is_typed(name: str, sent: Form) -> bool:
    """Tell whether somebody typed into the builder *name* of the page that was sent."""
    return sent.find(f"{name}_shown") not in {None, _digest(name, sent.fields)}


def _digest(name: str, fields: Sequence[tuple[str, str]]) -> str:
    """Return what tells whether fields were changed, however a browser sends them."""
    said = sorted(
        (key, "".join(value.splitlines()).strip())
        for key, value in fields
        if key.startswith(f"{name}_") and key != f"{name}_shown" and value.strip()
    )
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
