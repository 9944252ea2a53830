"""The tools of agents: calls are requests to the API, and posts are confirmed."""

from __future__ import annotations

import asyncio
import json
from copy import copy
from datetime import timedelta
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from starlette.types import Receive, Scope, Send

from api.tools import CONFIRM_WITHIN, POST, READING, ToolAnswer, Tools
from models.role import Role
from tests.integration.api.conftest import APP, Web
from tests.integration.api.test_actions import create
from tests.scheduling import make_document

EDITED = make_document(when={"cron_rule": "0 9 * * 1"})


@pytest.fixture(scope="module")
def tools() -> Tools:
    """Give all tools, once: to read the document takes longer than any call."""
    return Tools(None)  # type: ignore[arg-type]  # who asks something has an application


class Agent:
    """Calls tools with a key, one call after the other."""

    def __init__(self, web: Web, tools: Tools) -> None:
        self.now = 1_800_000_000.0
        self._web = web
        self._tools = copy(tools)
        self._tools._app, self._tools._clock = web.client.app, lambda: self.now

    def call(
        self,
        name: str,
        *,
        role: Role = Role.EDITOR,
        app: str | None = APP,
        **given: Any,
    ) -> ToolAnswer:
        """Return what a tool answers."""
        authorization = f"Bearer {self._web.keys[app, role]}"
        return asyncio.run(self._tools.call(name, given, authorization))

    def preview(self, **given: Any) -> str:
        """Return what confirms a post of *given*."""
        told = json.loads(self.call(POST, **given).text)
        confirm: str = told["confirm"]
        return confirm


@pytest.fixture
def agent(web: Web, tools: Tools) -> Agent:
    return Agent(web, tools)


def read(answer: ToolAnswer) -> tuple[int, str]:
    """Return the status of a refusal and its words."""
    problem = json.loads(answer.text)
    assert answer.is_refused
    return problem["status"], problem["detail"]


def count(web: Web) -> int:
    """Return the number of actions there are."""
    return len(web.get("/actions").json()["items"])


def test_tools_say_what_they_take(tools: Tools):
    """In JSON Schema that refers to nothing outside of itself."""
    listed = tools.listed

    assert [*READING, POST] == list(listed)
    for tool in listed.values():
        Draft202012Validator.check_schema(tool.takes)
        assert "#/components" not in json.dumps(tool.takes)
        assert "dry_run" not in tool.takes["properties"]
        validator = Draft202012Validator(tool.takes)
        for name, schema in tool.takes["properties"].items():
            for example in schema.get("examples", ()):
                given = dict.fromkeys(tool.takes["required"], "x") | {name: example}
                assert [] == list(validator.iter_errors(given))
    assert [POST] == [each.name for each in listed.values() if not each.reads]
    assert {"when", "operations"} <= set(
        listed[POST].takes["$defs"]["ScheduledActionModel"]["properties"]
    )


def test_answers_are_those_of_the_api(web: Web, agent: Agent):
    """The tools that read have no words and no shape of their own."""
    uid = create(web)
    document = {"when": {"cron_rule": "0 7 * * *"}}

    asked: dict[str, tuple[Any, dict[str, Any]]] = {
        "show_action": (web.get(f"/actions/{uid}"), {"uid": uid}),
        "why": (
            web.get(f"/actions/{uid}/why?at=2026-01-01T00:00:00Z"),
            {"uid": uid, "at": "2026-01-01T00:00:00Z"},
        ),
        "list_actions": (web.get("/actions?limit=1&runs=2"), {"limit": 1, "runs": 2}),
        "list_operations": (
            web.get("/operations?state=failed&state=missed"),
            {"state": ["failed", "missed"], "app": None},
        ),
        "preview": (
            web.post("/previews?from=2026-01-01T00:00:00Z&count=2", document),
            {"document": document, "from": "2026-01-01T00:00:00Z", "count": 2},
        ),
    }
    for name, (answer, given) in asked.items():
        assert ToolAnswer(answer.text, is_refused=False) == agent.call(name, **given)
    found = agent.call("doctor", role=Role.ADMIN, app=None)
    assert "findings" in json.loads(found.text)
    unknown = agent.call("show_operation", operation_id="x")
    assert web.get("/operations/x").json()["detail"] == read(unknown)[1]
    assert asked.keys() | {"doctor", "show_operation"} == READING.keys()


def test_post_is_made_only_when_it_was_confirmed(web: Web, agent: Agent):
    """The first call tells what would be; the second posts, and a third does not."""
    asked: dict[str, Any] = {"document": make_document(), "note": "the agent's"}

    told = json.loads(agent.call(POST, **asked).text)
    before = count(web)
    posted = agent.call(POST, **asked, confirm=told["confirm"])
    repeated = agent.call(POST, **asked, confirm=told["confirm"])

    assert {"next", "confirm", "preview"} == told.keys()
    assert "Every day" in told["preview"]["sentence"]
    assert 0 == before
    assert posted == repeated
    assert 1 == count(web)
    uid = json.loads(posted.text)["uid"]
    (revision,) = web.get(f"/actions/{uid}/revisions").json()["items"]
    assert "the agent's" == revision["note"]


def test_edit_shows_the_runs_that_it_moves(web: Web, agent: Agent):
    """And is refused if somebody changed the action since the preview."""
    uid = create(web)
    asked: dict[str, Any] = {"document": EDITED, "uid": uid, "app": APP}

    told = json.loads(agent.call(POST, **asked).text)
    assert told["preview"]["changes"]["removed"]
    assert 1 == web.get(f"/actions/{uid}").json()["revision"]
    other = agent.preview(**asked)
    assert not agent.call(POST, **asked, confirm=told["confirm"]).is_refused

    assert 412 == read(agent.call(POST, **asked, confirm=other))[0]
    assert 412 == read(agent.call(POST, **asked, confirm=told["confirm"]))[0]
    assert 2 == web.get(f"/actions/{uid}").json()["revision"]


def test_confirmation_is_of_one_preview(web: Web, agent: Agent):
    """With other arguments, another key, or too late, nothing is posted."""
    asked: dict[str, Any] = {"document": make_document(), "note": "one"}
    confirm = agent.preview(**asked)

    def post(**change: Any) -> tuple[int, str]:
        return read(agent.call(POST, **{**asked, "confirm": confirm, **change}))

    found = [
        post(document=make_document(name="another")),
        post(note="another"),
        post(note=None),
        post(app=None, role=Role.ADMIN),
        post(confirm="new.1800000000.0"),
        post(confirm="new.99999999999999.0"),
        post(confirm="é\ud800"),
        post(confirm={"a": 1}),
    ]
    agent.now += CONFIRM_WITHIN.total_seconds() + 1
    found.append(post())

    assert {422} == {status for status, _ in found}
    assert all(
        words.endswith("Call it without confirm, and look again.") for _, words in found
    )
    assert 0 == count(web)


def test_first_call_is_refused_as_the_post_would_be(web: Web, agent: Agent):
    """Nobody is asked to confirm what would not be taken."""
    expected: list[tuple[dict[str, Any], int, str]] = [
        ({"role": Role.VIEWER}, 403, "this needs the role editor"),
        ({"role": Role.OPERATOR}, 403, "this needs the role editor"),
        ({"app": None, "role": Role.ADMIN}, 400, "must name the small app"),
        ({"document": {"name": "x"}}, 422, "'operations' is missing"),
        ({"document": None}, 422, "It is empty"),
        ({"document": "{}"}, 422, "is not an object"),
        ({"uid": "nothing"}, 404, "no scheduled action 'nothing'"),
        ({"uid": "../keys"}, 422, "uid is needed: text, without a slash"),
        ({"uid": 7}, 422, "uid is needed"),
        ({"note": "x" * 3000}, 422, "note"),
        ({"dokument": 1}, 422, "post takes no 'dokument'"),
        ({"dry_run": True}, 422, "post takes no 'dry_run'"),
        ({"\ud800": True}, 422, "post takes no"),
    ]
    for given, status, words in expected:
        found = read(agent.call(POST, **{"document": make_document(), **given}))

        assert (status, True) == (found[0], words in found[1]), found
    assert 0 == count(web)


def test_bad_arguments_are_refused(agent: Agent):
    """In the form of the API's problems, whatever they are."""
    expected: list[tuple[str, dict[str, Any], int]] = [
        ("show_action", {}, 422),
        ("show_action", {"uid": ".."}, 422),
        ("show_action", {"uid": "a\ud800"}, 404),
        ("show_action", {"uid": "?x=1#é%2F"}, 404),
        ("list_actions", {"stat": "active"}, 422),
        ("list_actions", {"state": {"a": 1}}, 422),
        ("list_actions", {"limit": True}, 422),
        ("list_actions", {"limit": float("nan")}, 422),
        ("list_actions", {"text": "a\0"}, 422),
        ("list_actions", {"text": "x" * 20_000}, 414),
        ("list_actions", {"state": [1] * 20_000}, 414),
        ("list_operations", {"recorded_until": [1] * 8_000}, 414),
        ("show_action", {"uid": "é" * 5_000}, 414),
        ("preview", {"document": {"\ud800": 1}}, 422),
        ("preview", {"document": {"name": "x" * 2_000_000}}, 413),
    ]
    for name, given, status in expected:
        found = read(agent.call(name, **given))

        assert status == found[0], (name, found)


def test_call_has_a_deadline(tools: Tools):
    """An API that does not answer is told of; nobody waits for ever."""

    async def hang(_scope: Scope, _receive: Receive, _send: Send) -> None:
        await asyncio.Event().wait()

    hanging = copy(tools)
    hanging._app, hanging._within = hang, timedelta(milliseconds=1)

    status, words = read(asyncio.run(hanging.call("doctor", {}, None)))

    assert (504, "there was no answer within 0.001 s") == (status, words)
