"""
The JSON Schema of a scheduled action, for editors and for programs that write them.

Made from the models that judge what is posted. A document that the schema accepts may
still be refused: whether a rule can be read, or a template exists, is not a matter of
form. One that is posted well is never refused by the schema.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from models.scheduled_action import ScheduledActionModel

#: What each field is for, by the model and the name in JSON; a test finds omissions.
DESCRIPTIONS: dict[str, dict[str, str]] = {
    "ScheduledActionModel": {
        "name": "For people; unique among the actions of its small app.",
        "uid": "Unique in the installation. Left out: one is made.",
        "active": "Whether it runs at all.",
        "operations": "The steps, which run in a fixed order.",
        "when": "A rule, or up to 20 rules of time, each with its own occurrences.",
        "recipients": "Who gets the mails; whose events count.",
        "starts_at": "No occurrence before it. Local time has the zone of the rule.",
        "ends_at": "No occurrence at or after it.",
        "except": "Local days without occurrences: dates, holiday calendars, weekdays.",
        "instead": "Moves occurrences of these days to the nearest other day.",
        "jitter": "Spreads the sending over so much time, whole minutes, at most P1D.",
        "catch_up": "What happens to occurrences missed during a longer downtime.",
        "overlap": "What happens to an occurrence while the run before it is live.",
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
    "RefreshModel": {
        "domains": "Names of domains. Left out, or all: every domain.",
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
        "every": "ISO 8601 duration, at least PT1M; days are of the calendar.",
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
    "CatchUpModel": {
        "runs": "none: all are missed. latest: the last one runs. all: up to 1,000.",
        "within": "ISO 8601 duration; older ones are missed. Left out: of any age.",
    },
    "DateRangeModel": {"from": "The first day.", "until": "The last day."},
    "WeekdaysModel": {"weekdays": "English names, whole or of three letters."},
    "HolidaysModel": {"calendar": "Name of a holiday calendar of the small app."},
}


@cache
def make_action_schema() -> dict[str, Any]:
    """Return the schema: JSON Schema, draft 2020-12."""
    made = ScheduledActionModel.model_json_schema(mode="validation", by_alias=True)
    for name, part in {"ScheduledActionModel": made, **made["$defs"]}.items():
        # the first paragraph; what follows is for readers of the source
        summary, _, _ = part.get("description", "").partition("\n\n")
        part["description"] = " ".join(summary.split())
        for field, text in DESCRIPTIONS.get(name, {}).items():
            part["properties"][field]["description"] = text
    _take_text_for_booleans(made)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **made,
        "properties": {
            "$schema": {
                "type": "string",
                "description": "Where this schema is, for editors; not stored.",
            },
            **made["properties"],
        },
        "title": "Scheduled action",
    }


def _take_text_for_booleans(schema: Any) -> None:
    """Accept "true" and "false": so documents have always been written (origin.md)."""
    if isinstance(schema, list):
        for each in schema:
            _take_text_for_booleans(each)
    elif isinstance(schema, dict):
        if schema.get("type") == "boolean":
            del schema["type"]
            only = schema.pop("const", None)
            schema["enum"] = [True, "true"] if only else [True, False, "true", "false"]
        for each in schema.values():
            _take_text_for_booleans(each)
