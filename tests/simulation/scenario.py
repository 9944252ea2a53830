"""What is scheduled in a simulated world: few actions, one of every kind."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from actions.posting.post import post_action
from models.database.engine import writing
from models.database.tables import memberships, small_apps, templates, users
from models.door.documents import read_action_object

APP = "shop"
OTHER_APP = "news"
PEOPLE = ("ann", "bob", "cem")
SIGNUP = "app.signup"
SEEN = "instance.user.last_seen"

_MAIL = {"send_email": {"template": "hello"}}
_TASK = {"run_task": {"name": "tests.nothing"}}
_AWAITED = {"run_task": {"name": "tests.nothing", "wait": True, "within": "PT15M"}}
_EVERYBODY = {"groups": ["all"]}

#: By uid; *start* is filled in where a document needs the date.
ACTIONS: dict[str, dict[str, Any]] = {
    "mail": {
        "operations": _MAIL,
        "when": {"cron_rule": "*/3 * * * *"},
        "recipients": _EVERYBODY,
    },
    "refresh": {
        "operations": {"refresh": True},
        "when": {"cron_rule": "* * * * *", "timezone": "Europe/Paris"},
    },
    "publish": {
        "operations": {"refresh": True, "publish": {"data": True}, **_MAIL},
        "when": {"every": "PT10M"},
        "overlap": "queue",
        "recipients": {"users": ["ann"]},
    },
    "task": {
        "operations": _AWAITED,
        "when": {"every": "PT2M"},
        "overlap": "queue",
        "catch_up": {"runs": "latest"},
    },
    "hook": {
        "operations": {"call_webhook": {"url": "https://example.com/hook"}, **_AWAITED},
        "when": {"calendar": "*-*-* *:0/7:00"},
        "catch_up": {"runs": "all", "within": "PT20M"},
        "jitter": "PT3M",
        "overlap": "skip",
    },
    "welcome": {"operations": _MAIL, "when": {"on": SIGNUP}},
    "absent": {"operations": _MAIL, "when": {"after": SEEN, "delay": "PT5M"}},
    "once": {"operations": _TASK},
    "other": {
        "operations": {"refresh": True, **_TASK},
        "when": {"cron_rule": "30 * * * *"},
    },
}

#: Due more often than once a minute; not in every world, for it takes long.
OFTEN: dict[str, Any] = {
    "uid": "often",
    "name": "often",
    "operations": _TASK,
    "when": {"every": "PT20S"},
    "overlap": "allow",
}

#: After the runs of another action, whoever ends them; not in every world, so that the
#: others stay as they are.
THEN: tuple[dict[str, Any], ...] = (
    {
        "uid": "then",
        "name": "then",
        "operations": _MAIL,
        "when": {"after_action": "task", "on": "end", "delay": "PT1M"},
        "recipients": _EVERYBODY,
    },
    {
        "uid": "last",
        "name": "last",
        "operations": _TASK,
        "when": {"after_action": "then", "on": "success"},
    },
)

#: Of the actions that have many runs, in some worlds: some of them keep to it.
EXPECT = {"within": "PT2M", "takes": "PT40S"}
EXPECTING = frozenset({"mail", "refresh", "publish", "task", "welcome"})

#: The actions with a task of somebody's own.
TASKED = frozenset({"task", "hook", "once", "other", "often", "last"})

#: Those whose operations end as their tasks do.
WAITING = frozenset({"task", "hook"})

#: The one app that is not APP has this action.
_ELSEWHERE = "other"


def make_document(uid: str, **changes: Any) -> dict[str, Any]:
    """Return the JSON of action *uid*, with *changes*."""
    return {"uid": uid, "name": uid, **ACTIONS[uid], **changes}


def set_up(
    engine: sa.Engine, start: datetime, *, seconds: bool, follow: bool, expects: bool
) -> None:
    """
    Make the small apps, their people and their actions; the clock shows *start*.

    Args:
        seconds: Whether one is due more often than once a minute.
        follow: Whether some begin as others end.
        expects: Whether some expect to end soon.
    """
    due_date = (start + timedelta(minutes=20)).isoformat()
    with writing(engine) as connection:
        for app in (APP, OTHER_APP):
            connection.execute(sa.insert(small_apps).values(uid=app, name=app))
        for person in PEOPLE:
            email = f"{person}@example.org"
            values = {"app": APP, "id": person, "email": email, "activated_at": start}
            connection.execute(sa.insert(users).values(values))
        connection.execute(
            sa.insert(memberships).values(app=APP, group_name="crew", user_id="ann")
        )
        template: Mapping[str, str] = {"subject": "Hello", "text": "{{ user.name }}"}
        connection.execute(
            sa.insert(templates).values(app=APP, name="hello", **template)
        )
        for uid in ACTIONS:
            changes: dict[str, Any] = {}
            if uid == "once":
                changes["when"] = {"due_date": due_date}
            if expects and uid in EXPECTING:
                changes["expect"] = EXPECT
            action = read_action_object(make_document(uid, **changes))
            app = OTHER_APP if uid == _ELSEWHERE else APP
            post_action(connection, app, action)
        if seconds:
            post_action(connection, APP, read_action_object(OFTEN))
        for document in THEN if follow else ():
            post_action(connection, APP, read_action_object(document))
