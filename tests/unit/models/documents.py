"""Valid documents, and ways to change one thing of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import pytest

from models.errors import InvalidDocumentError, Problem


class Bad(NamedTuple):
    """A document and what must be said of it."""

    text: str | bytes
    pointer: str
    reason: str
    hint: str


ACTION: dict[str, object] = {
    "name": "weekly update",
    "active": "true",
    "operations": {"send_email": {"template": "hello"}},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
    "recipients": {"groups": ["all"]},
}
ON_EVENT: dict[str, object] = {**ACTION, "when": {"on": "instance.user.created"}}
APP: dict[str, object] = {"uid": "shop", "name": "Shop", "timezone": "Europe/Paris"}
EVENT: dict[str, object] = {"event": "instance.user.last_seen", "user": "u1"}


def find_problems(
    read: Callable[..., object], *given: object, **how: object
) -> tuple[Problem, ...]:
    """Return what *read* says of what it must refuse."""
    with pytest.raises(InvalidDocumentError) as caught:
        read(*given, **how)
    return caught.value.problems


def action(**changes: object) -> str:
    """Return the valid action with some fields changed; ``except_`` is "except"."""
    named = {key.removesuffix("_"): value for key, value in changes.items()}
    return json.dumps({**ACTION, **named})


def without(key: str) -> str:
    """Return the valid action without one of its fields."""
    return json.dumps({name: value for name, value in ACTION.items() if name != key})


def steps(**asked: object) -> str:
    """Return the valid action with other steps."""
    return action(operations=asked)


def when(**rule: object) -> str:
    """Return the valid action, due otherwise."""
    return action(when=rule)


def on_event(**changes: object) -> str:
    """Return an action that follows an event, with some fields changed."""
    return json.dumps(
        {**ON_EVENT, **{key.removesuffix("_"): changes[key] for key in changes}}
    )


def recipients(**changes: object) -> str:
    """Return the valid action with other recipients."""
    return action(recipients=changes)


def app(**changes: object) -> str:
    """Return the valid small app with some parts added."""
    return json.dumps({**APP, **changes})


def event(**changes: object) -> str:
    """Return the valid event with some fields changed."""
    return json.dumps({**EVENT, **changes})


def user(**changes: object) -> str:
    """Return the valid small app with one user."""
    return app(users=[{"id": "u1", **changes}])


def source(**given: object) -> str:
    """Return the valid small app with one domain."""
    return app(domains=[{"name": "sales", "source": given}])


def domain(**given: object) -> str:
    """Return the valid small app with one domain, which has what is *given*."""
    return app(domains=[{"name": "sales", "source": {"file": "a.csv"}, **given}])
