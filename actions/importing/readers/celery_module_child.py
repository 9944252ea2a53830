"""
Print the beat_schedule of an application as JSON; run by the Python of its project.

Importing a project runs its code, so this is a process of its own. It may be another
Python, which has Celery and the project and nothing of ours: so this file imports none
of our packages, and Celery by name only.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

_FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")

_OF_TASKS = ("queue", "priority", "expires", "routing_key", "exchange", "serializer")

#: Options whose value is an object of Celery's or of the project.
_LONGEST_TEXT = 200


def main() -> None:
    """Answer on what was standard output; the project may print what it likes."""
    answer = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # as celery -A does: the project is found where one is, not where this file is
    sys.path[0] = str(Path.cwd())
    json.dump(read_application(sys.argv[1]), answer)
    answer.close()


def read_application(name: str) -> dict[str, Any]:
    """Return zone and entries of the application in the module *name*."""
    find_app = importlib.import_module("celery.app.utils").find_app
    app = find_app(name)
    # as celery beat does, so that all signals have had their say
    app.loader.import_default_modules()
    app.finalize()
    entries = app.conf.beat_schedule or {}
    return {
        "timezone": get_zone_name(app.timezone),
        "entries": [read_entry(app, key, entries[key]) for key in entries],
    }


def read_entry(app: Any, name: Any, entry: Any) -> dict[str, Any]:
    """Return an entry as JSON has it, or why it cannot be read."""
    try:
        given = dict(entry)
        task = str(given.pop("task"))
        options = dict(given.pop("options", None) or {})
        # beat sends by the task itself where it knows it, with what the task says
        registered = app.tasks.get(task)
        for option in _OF_TASKS:
            value = getattr(registered, option, None)
            if value is not None:
                options.setdefault(option, value)
        options = add_route(app, task, options)
        options.setdefault("serializer", app.conf.task_serializer)
        return {
            "name": str(name),
            "task": task,
            "args": [make_plain(each) for each in given.pop("args", None) or ()],
            "kwargs": make_plain(dict(given.pop("kwargs", None) or {})),
            "options": {key: make_option(each) for key, each in options.items()},
            "schedule": read_schedule(given.pop("schedule")),
        }
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        problem = f"It could not be read ({type(error).__name__}: {error})."
        return {"name": str(name), "problem": problem[:_LONGEST_TEXT]}


def add_route(app: Any, task: str, options: dict[str, Any]) -> dict[str, Any]:
    """Return *options* with what the application's routes add to them, as Celery."""
    route = app.amqp.router.route({}, task, (), {})
    given = {key: each for key, each in options.items() if each is not None}
    return {"queue": app.conf.task_default_queue, **route, **given}


def read_schedule(schedule: Any) -> dict[str, Any]:
    """Return the kind and the fields of a schedule."""
    if isinstance(schedule, (int, float)):
        return {"kind": "interval", "seconds": schedule}
    if isinstance(schedule, timedelta):
        return {"kind": "interval", "seconds": schedule.total_seconds()}
    kinds = {each.__name__ for each in type(schedule).__mro__}
    own = type(schedule).__module__ == "celery.schedules"
    if own and "crontab" in kinds:
        given = {name: getattr(schedule, f"_orig_{name}") for name in _FIELDS}
        fields = {name: make_field(each) for name, each in given.items()}
        return {"kind": "crontab", **fields}
    if own and "solar" in kinds:
        place = {"latitude": float(schedule.lat), "longitude": float(schedule.lon)}
        return {"kind": "solar", "event": schedule.event, **place}
    if own and "schedule" in kinds:
        return {"kind": "interval", "seconds": schedule.run_every.total_seconds()}
    return {"kind": "unknown", "text": repr(schedule)[:_LONGEST_TEXT]}


def make_field(value: Any) -> Any:
    """Return a field of a crontab: text, a number, or a list of numbers."""
    return value if isinstance(value, (int, str)) else sorted(value)


def make_option(value: Any) -> Any:
    """Return an option as JSON has it; a queue or exchange by its name."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else make_plain(value)


def make_plain(value: Any) -> Any:
    """Return *value* as JSON has it; what JSON has not is marked."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [make_plain(each) for each in value]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: make_plain(each) for key, each in value.items()}
    return {"__unreadable__": repr(value)[:_LONGEST_TEXT]}


def get_zone_name(zone: Any) -> Any:
    """Return the name of a zone; None if it is that of the host."""
    name = getattr(zone, "key", None) or getattr(zone, "zone", None)
    if name is None and zone.utcoffset(None) == timedelta(0):
        return "UTC"
    return name


if __name__ == "__main__":
    main()
