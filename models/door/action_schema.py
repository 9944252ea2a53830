"""
The JSON Schema of a scheduled action, for editors and for programs that write them.

Made from the models that judge what is posted. A document that the schema accepts may
still be refused: whether a rule can be read, or a template exists, is not a matter of
form. One that is posted well is never refused by the schema.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from models.back_off import ATTEMPTS, LOSS_DELAY, RETRY_DELAY
from models.fields.duration import Duration
from models.fields.field_types import DAY_NAMES
from models.operation import EVERY_DOMAIN
from models.scheduled_action import ScheduledActionModel
from models.when import MOST_RULES

#: What each field is for, by the model and the name in JSON; a test finds omissions.
DESCRIPTIONS: dict[str, dict[str, str]] = {
    "ScheduledActionModel": {
        "name": "For people; unique among the actions of its small app.",
        "uid": "Unique in the installation. Left out: one is made.",
        "active": "Whether it runs at all.",
        "operations": "The steps, which run in a fixed order.",
        "if": "When the steps after refresh run. Left out: always.",
        "when": "A rule, or up to 20 rules of time, each with its own occurrences.",
        "recipients": "Who gets the mails; whose events count.",
        "starts_at": "No occurrence before it. Local time has the zone of the rule.",
        "ends_at": "No occurrence at or after it.",
        "except": "Local days without occurrences: dates, holiday calendars, weekdays.",
        "instead": "Moves occurrences of these days to the nearest other day.",
        "jitter": "Spreads the sending over so much time, whole minutes, at most P1D.",
        "catch_up": "What happens to occurrences missed during a longer downtime.",
        "overlap": "What happens to an occurrence while the run before it is live.",
        "retries": f"Attempts after the first. Left out: {ATTEMPTS - 1}.",
        "retry_after": "ISO 8601 duration before the second attempt, at most PT24H;"
        f" then twice that. Left out: {Duration.from_elapsed(RETRY_DELAY)}, of a lost"
        f" worker {Duration.from_elapsed(LOSS_DELAY)}.",
        "expect": "What is told of if it is not so. Left out: nothing is.",
        "rest_after": "Failures in a row that pause it. Left out: it goes on.",
        "ping": "Address of a monitor (Healthchecks, Sentry) that hears of its runs.",
    },
    "OperationModel": {
        "refresh": "Rebuild data of the small app in staging.",
        "publish": "Make what is staged live.",
        "send_email": "Send a template to each recipient.",
        "send_execsum": "Send a summary of the live data, as PDF, to each recipient.",
        "maintenance": "Remove what is old. Of the installation's own action alone.",
        "call_webhook": "POST to an address, signed.",
        "run_task": "Send a task to a Celery application of yours.",
        "notify": "Report failures. Of the installation's own actions alone.",
    },
    "ConditionModel": {"refreshed": "true: only if refresh brought something new."},
    "RefreshModel": {
        "domains": 'Names of domains; "all": every domain.',
        "force": "Read sources that have not changed, too.",
    },
    "PublishModel": {
        "data": "The staged versions of the domains.",
        "design": "The staged design.",
        "permissions": "The staged permissions.",
    },
    "SendEmailModel": {"template": "Name of a template of the small app."},
    "CallWebhookModel": {"url": "An http or https address that is not internal."},
    "RunTaskModel": {
        "name": "Full name of the task.",
        "args": "Its positional arguments.",
        "kwargs": "Its keyword arguments.",
        "headers": "More headers of its message.",
        "exchange": "An exchange of RabbitMQ, instead of a queue.",
        "routing_key": "For the exchange.",
        "queue": "A queue that your workers take. Left out: that of the settings.",
        "connection": "Name of another broker in the settings. Left out: our own.",
        "priority": "0 to 255, as the broker understands it.",
        "expires": "ISO 8601 duration since it is sent; nobody begins it later.",
        "time_limit": "ISO 8601 duration after which its worker ends it.",
        "soft_time_limit": "ISO 8601 duration after which its worker warns it.",
        "wait": "Whether the operation ends as the task does. Left out: it does.",
        "within": "ISO 8601 duration; how long to wait. Left out: PT1H.",
        "returned": "Whether to keep what the task returns, which must be JSON.",
    },
    "RecipientFilterModel": {
        "users": "Ids or addresses of users.",
        "groups": "Names of groups; all is everybody.",
        "include_inactivated_users": "Also those who never activated their account.",
        "include_inactive_users": "Also those who are disabled or expired.",
        "only_inactivated_users": "Only those who never activated their account.",
        "only_inactive_users": "Only those who are disabled or expired.",
    },
    "CronModel": {
        "cron_rule": "Five fields: minute, hour, day, month, weekday.",
        "timezone": "IANA name of the zone in which the rule is read.",
    },
    "CalendarModel": {
        "calendar": "A calendar expression of systemd.",
        "timezone": "IANA name of its zone, unless the expression names one.",
    },
    "IntervalModel": {
        "every": "ISO 8601 duration, at least PT1M, of a lone run_task PT1S; days"
        " are of the calendar.",
        "timezone": "IANA name of the zone whose calendar and clocks it follows.",
        "anchor": "An instant of the grid. Left out: the creation of the action.",
    },
    "DueDateModel": {
        "due_date": "The one instant; local time if it has no offset.",
        "timezone": "IANA name of the zone of a local time.",
    },
    "WorkingDayModel": {
        "working_day": "Which of each month: 1 is the first, -1 the last.",
        "at": "Local time of day: hour and minute.",
        "timezone": "IANA name of the zone of days and time.",
    },
    "OnEventModel": {
        "on": "Name of an event of users.",
        "at": "Waits for this local time of day, HH:MM.",
        "timezone": "IANA name of the zone in which times are shown.",
    },
    "AfterEventModel": {
        "after": "Name of an event of users.",
        "delay": "ISO 8601 duration since the event; days are of the calendar.",
        "at": "Then waits for this local time of day, HH:MM.",
        "timezone": "IANA name of the zone in which days and months are counted.",
    },
    "AfterActionModel": {
        "after_action": "Uid or name of another action of the same small app.",
        "on": "How its run has to end. end: in success, failure or cancellation.",
        "delay": "ISO 8601 duration since that end; days are of the calendar.",
        "timezone": "IANA name of the zone in which days and months are counted.",
    },
    "CatchUpModel": {
        "runs": "none: all are missed. latest: the last one runs. all: up to 1,000.",
        "within": "ISO 8601 duration; older ones are missed. Left out: of any age.",
    },
    "ExpectModel": {
        "within": "ISO 8601 duration from its time to the end of a run.",
        "takes": "ISO 8601 duration from the beginning to the end of a run.",
    },
    "DateRangeModel": {"from": "The first day.", "until": "The last day."},
    "WeekdaysModel": {"weekdays": "English names, whole or of three letters."},
    "HolidaysModel": {"calendar": "Name of a holiday calendar of the small app."},
}


#: What is read as true or false (``read_boolean``): so documents have always been
#: written (origin.md). Other JSON numbers and texts are refused.
_ON, _OFF = ("1", "t", "true", "on", "y", "yes"), ("0", "f", "false", "off", "n", "no")


def _in_any_case(words: Iterable[str]) -> str:
    """Return a pattern of *words*, for JSON Schema cannot pass over the case."""
    letters = (
        "".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in word)
        for word in words
    )
    return "|".join(letters)


_SWITCHES: dict[str, Any] = {
    "Switch": {
        "description": "true or false; other spellings are read, too.",
        "anyOf": [
            {"type": "boolean"},
            {"enum": [0, 1]},
            {"type": "string", "pattern": f"^({_in_any_case([*_ON, *_OFF])})$"},
        ],
    },
    "Off": {
        "description": "The step is not requested.",
        "anyOf": [
            {"enum": [False, 0, None]},
            {"type": "string", "pattern": f"^({_in_any_case(_OFF)})$"},
        ],
    },
}
_SWITCH, _OFF_STEP = {"$ref": "#/$defs/Switch"}, {"$ref": "#/$defs/Off"}

#: How each step may be written beside its object.
_SHORT: dict[str, list[dict[str, Any]]] = {
    "refresh": [_SWITCH, {"const": EVERY_DOMAIN}],
    "publish": [_SWITCH],
    "send_email": [_OFF_STEP],
    "call_webhook": [_OFF_STEP],
    "run_task": [_OFF_STEP],
}

_WEEKDAY = rf"^\s*({_in_any_case(DAY_NAMES)})\s*$"
_TIME_OF_DAY = "^([01][0-9]|2[0-3]):[0-5][0-9]$"

#: "instead" needs a day to move from.
_INSTEAD = {
    "if": {"properties": {"instead": {"type": "string"}}, "required": ["instead"]},
    "then": {"properties": {"except": {"minItems": 1}}, "required": ["except"]},
}


@cache
def make_action_schema() -> dict[str, Any]:
    """Return the schema: JSON Schema, draft 2020-12. Not to be changed."""
    made = ScheduledActionModel.model_json_schema(mode="validation", by_alias=True)
    for name, part in {"ScheduledActionModel": made, **made["$defs"]}.items():
        # the first paragraph; what follows is for readers of the source
        summary, _, _ = part.get("description", "").partition("\n\n")
        part["description"] = " ".join(summary.split())
        for field, text in DESCRIPTIONS.get(name, {}).items():
            part["properties"][field]["description"] = text
    _take_switches(made)
    made["$defs"] |= _SWITCHES
    _say_what_validators_say(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        **_INSTEAD,
        "properties": {
            "$schema": {
                "type": "string",
                "description": "Where this schema is, for editors; not stored.",
            },
            **made["properties"],
        },
        "title": "Scheduled action",
    }


def _take_switches(schema: Any) -> None:
    """Accept all that is read as a boolean where there is one, or a step without."""
    if isinstance(schema, list):
        for each in schema:
            _take_switches(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "boolean":
            del schema["type"]
            schema.pop("const", None)
            schema |= _SWITCH
        for each in schema.values():
            _take_switches(each)


def _say_what_validators_say(made: dict[str, Any]) -> None:
    """Put into *made* what the models judge by functions, which pydantic cannot see."""
    fields = {name: part.get("properties", {}) for name, part in made["$defs"].items()}
    steps = fields["OperationModel"]
    for step, forms in _SHORT.items():
        steps[step]["anyOf"] += forms
    refresh = fields["RefreshModel"]
    (names, _null) = refresh["domains"].pop("anyOf")
    del refresh["domains"]["default"]
    refresh["domains"]["anyOf"] = [{**names, "minItems": 1}, {"const": EVERY_DOMAIN}]
    made["$defs"]["RefreshModel"]["required"] = ["domains"]

    fields["WorkingDayModel"]["working_day"]["not"] = {"const": 0}
    fields["WorkingDayModel"]["at"]["pattern"] = _TIME_OF_DAY
    for kind in ("OnEventModel", "AfterEventModel"):
        fields[kind]["at"]["anyOf"][0]["pattern"] = _TIME_OF_DAY
    weekdays = fields["WeekdaysModel"]["weekdays"]
    weekdays["minItems"] = 1
    weekdays["items"]["pattern"] = _WEEKDAY
    # read as a number, as each number of a document is
    numbers = [made["properties"][name] for name in ("retries", "rest_after")]
    for number in (fields["RunTaskModel"]["priority"], *numbers):
        number["anyOf"] += [
            {"type": "string", "pattern": r"^\s*[+-]?[0-9][0-9_]*(\.0+)?\s*$"},
            {"type": "boolean"},
        ]
    made["properties"]["when"]["anyOf"][-1] |= {"minItems": 1, "maxItems": MOST_RULES}
    for bound in ("starts_at", "ends_at"):
        # editors take the format to demand an offset
        del made["properties"][bound]["anyOf"][0]["format"]
