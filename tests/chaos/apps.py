"""Twenty small apps with a hundred scheduled actions each, as real ones are mixed."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from actions.posting.post import post_actions
from actions.small_apps.apply import ApplyTerms, apply_small_app
from models.database.engine import writing
from models.door.documents import read_action_object
from models.small_app import SmallAppModel

APPS = tuple(f"app-{number:02}" for number in range(1, 21))
USERS = ("ada", "ben")

#: What the event-driven actions wait for.
EVENT = "app.ordered"

#: Of the project that ``run_task`` sends to, which is not ours.
TASK = "shop.report"
TASK_QUEUE = "shop"

#: Names of one action in each app, which the faults run by hand.
MAIL, DATA, SEND = "mail by hand", "data by hand", "task by hand"

_MAIL = {"send_email": {"template": "hello"}}
# It does not wait: FLUSHALL takes some of them.
_TASK = {"run_task": {"name": TASK, "queue": TASK_QUEUE, "wait": False}}
_HEAVY = {"refresh": True, "publish": True}
_ALL = {"recipients": {"groups": ["all"]}}

#: Kinds: what, for whom, when (``{n}`` is a minute), and how many in each app.
_SHARES: tuple[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any], int], ...] = (
    ("mail each minute", _MAIL, _ALL, {"cron_rule": "* * * * *"}, 4),
    ("mail", _MAIL, _ALL, {"cron_rule": "{five}-59/5 * * * *"}, 16),
    ("task each minute", _TASK, {}, {"cron_rule": "* * * * *"}, 3),
    ("task", _TASK, {}, {"cron_rule": "{four}-59/4 * * * *"}, 22),
    ("every two minutes", _TASK, {}, {"every": "PT2M"}, 4),
    ("data", _HEAVY, {}, {"cron_rule": "{five}-59/5 * * * *"}, 2),
    ("refresh", {"refresh": True}, {}, {"cron_rule": "{three}-59/3 * * * *"}, 1),
    ("data and mail", _HEAVY | _MAIL, _ALL, {"cron_rule": "{five}-59/5 * * * *"}, 1),
    ("mail on event", _MAIL, {}, {"on": EVENT}, 2),
    ("task on event", _TASK, {}, {"on": EVENT}, 2),
    ("daily", _MAIL, _ALL, {"cron_rule": "{n} 7 * * 1", "timezone": "Asia/Tokyo"}, 20),
    ("weekdays", _TASK, {}, {"calendar": "Mon..Fri *-*-* 09:{n}:00"}, 20),
    (MAIL, _MAIL, _ALL, {"cron_rule": "0 0 29 2 *"}, 1),
    (DATA, _HEAVY, {}, {"cron_rule": "0 0 29 2 *"}, 1),
    (SEND, _TASK, {}, {"cron_rule": "0 0 29 2 *"}, 1),
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


def add_apps(engine: sa.Engine, folder: Path, rng: random.Random) -> dict[str, str]:
    """
    Add all apps with all actions, and a file for each below *folder*.

    Returns:
        Uids of the actions, by ``app/name``.
    """
    uids = {}
    for app in APPS:
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
        for document, each in zip(documents, posted, strict=True):
            uids[f"{app}/{document['name']}"] = each.uid
    return uids
