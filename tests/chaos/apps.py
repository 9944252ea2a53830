"""Small apps with a hundred scheduled actions each, as real ones are mixed."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from actions.posting.post import post_actions
from actions.small_apps.apply import ApplyTerms, apply_small_app
from models.database.engine import writing
from models.database.tables import scheduled_action_revisions, scheduled_actions
from models.door.documents import read_action_object
from models.small_app import SmallAppModel
from tests.database import execute
from tests.scheduling import SELDOM, get_now

USERS = ("ada", "ben")

#: What the event-driven actions wait for.
EVENT = "app.ordered"

#: The project that ``run_task`` sends to, which is not ours, and has its own broker.
PROJECT = "shop"

#: Names of one action in each app, which the faults run by hand: a mail, data, a task
#: by a worker of ours, one straight from the leader.
MAIL, DATA, SEND, TASK = "mail by hand", "data by hand", "send by hand", "task by hand"


#: How long every action has been there when the work begins; inside the window, so that
#: much is due at once.
BACKDATED = timedelta(minutes=3)

_MAIL = {"send_email": {"template": "hello"}}
_TO_PROJECT = {"name": "shop.report", "queue": PROJECT, "connection": PROJECT}
_TASK = {"run_task": {**_TO_PROJECT, "wait": True, "within": "PT2M"}}
_SEND = {"run_task": {**_TO_PROJECT, "wait": False}}
_HEAVY = {"refresh": True, "publish": True}
_ALL = {"recipients": {"groups": ["all"]}}
_LINE = {**_ALL, "overlap": "queue"}

#: Kinds: what, for whom, when (``{n}`` is a minute), and how many in each app.
_SHARES: tuple[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], int], ...] = (
    ("mail each minute", _MAIL, _ALL, {"cron_rule": "* * * * *"}, 3),
    ("mails in line", _MAIL, _LINE, {"cron_rule": "* * * * *"}, 1),
    ("mail", _MAIL, _ALL, {"cron_rule": "{five}-59/5 * * * *"}, 15),
    ("mail and task", _MAIL | _TASK, _ALL, {"cron_rule": "{five}-59/5 * * * *"}, 2),
    ("task each minute", _TASK, {}, {"cron_rule": "* * * * *"}, 3),
    ("task", _TASK, {}, {"cron_rule": "{four}-59/4 * * * *"}, 16),
    ("unwaited task", _SEND, {}, {"cron_rule": "{four}-59/4 * * * *"}, 5),
    ("every two minutes", _TASK, {}, {"every": "PT2M"}, 4),
    ("data", _HEAVY, {}, {"cron_rule": "{five}-59/5 * * * *"}, 2),
    ("refresh", {"refresh": True}, {}, {"cron_rule": "{three}-59/3 * * * *"}, 1),
    ("data and mail", _HEAVY | _MAIL, _ALL, {"cron_rule": "{five}-59/5 * * * *"}, 1),
    ("mail on event", _MAIL, {}, {"on": EVENT}, 2),
    ("task on event", _TASK, {}, {"on": EVENT}, 2),
    ("daily", _MAIL, _ALL, {"cron_rule": "{n} 7 * * 1", "timezone": "Asia/Tokyo"}, 20),
    ("weekdays", _TASK, {}, {"calendar": "Mon..Fri *-*-* 09:{n}:00"}, 19),
    (MAIL, _MAIL, _ALL, SELDOM, 1),
    (DATA, _HEAVY, {}, SELDOM, 1),
    (SEND, _SEND, {}, SELDOM, 1),
    (TASK, _TASK, {}, SELDOM, 1),
)


def make_documents(rng: random.Random) -> list[dict[str, Any]]:
    """Return the hundred actions of an app, at minutes that *rng* chooses."""
    documents = []
    for name, operations, more, when, count in _SHARES:
        for number in range(count):
            minutes = {
                "n": f"{rng.randrange(60):02}",
                "three": rng.randrange(3),
                "four": rng.randrange(4),
                "five": rng.randrange(5),
            }
            documents.append(
                {
                    "name": name if count == 1 else f"{name} {number}",
                    "operations": operations,
                    "when": {k: v.format(**minutes) for k, v in when.items()},
                    **more,
                }
            )
    return documents


def find_source(folder: Path, app: str) -> Path:
    """Return the file from which *app* reads its sales."""
    return folder / "apps" / app / "sales.csv"


def add_apps(
    engine: sa.Engine, folder: Path, rng: random.Random, count: int
) -> dict[str, dict[str, str]]:
    """
    Add *count* apps with all actions, and a file for each below *folder*.

    Returns:
        Uids of the actions, by app and name.
    """
    uids = {}
    for app in (f"app-{number:02}" for number in range(1, count + 1)):
        source = find_source(folder, app)
        source.parent.mkdir(parents=True)
        source.write_text("day,sales\n2026-01-01,1\n")
        model = SmallAppModel.model_validate(
            {
                "uid": app,
                "users": [
                    {
                        "id": user,
                        "email": f"{user}@{app}.example",
                        "activated_at": "2026-01-01T00:00:00Z",
                    }
                    for user in USERS
                ],
                "domains": [{"name": "sales", "source": {"file": source.name}}],
                "templates": {"hello": {"subject": "Hello", "text": "{{ user.id }}"}},
                "documents": {"design": {}, "permissions": {}},
            }
        )
        documents = make_documents(rng)
        actions = [read_action_object(document) for document in documents]
        with writing(engine) as connection:
            apply_small_app(connection, model, ApplyTerms(source.parent))
            posted = post_actions(connection, app, actions)
        names = (document["name"] for document in documents)
        uids[app] = {name: p.uid for name, p in zip(names, posted, strict=True)}
    return uids


def backdate_actions(engine: sa.Engine) -> datetime:
    """Let every action have been there for a while; return since when."""
    since = get_now(engine).replace(second=0, microsecond=0) - BACKDATED
    is_due = scheduled_actions.c.next_due_at.is_not(None)
    dates = {"created_at": since, "effective_from": since}
    actions = sa.update(scheduled_actions).values(dates)
    execute(engine, actions.values(next_due_at=sa.case((is_due, since))))
    dates = {"recorded_at": since, "effective_from": since}
    execute(engine, sa.update(scheduled_action_revisions).values(dates))
    return since
