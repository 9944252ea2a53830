"""
The tools of agents: routes of the API, under the words of the command line.

What a tool takes and says of itself is read off the OpenAPI document, and a call is a
request to its route, in this process: roles, bounds and refusals are those of the API.
A post is asked for twice: the first call tells what it would do and stores nothing.
"""

from __future__ import annotations

import hmac
import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import quote, urlencode
from uuid import uuid4

import anyio
import httpx2
from starlette.types import ASGIApp

from api.answers import answer_error
from api.openapi import make_document
from models.fields.strict_model import show, suggest
from models.json_form import write_json
from serving.refusals import HttpError

#: The operations of the OpenAPI document behind the tools that only read.
READING: Mapping[str, str] = {
    "preview": "preview",
    "why": "explain",
    "list_actions": "list_actions",
    "list_operations": "list_operations",
    "show_action": "read_action",
    "show_operation": "read_operation",
    "doctor": "examine",
}

#: How long a call may take; what asks the database has shorter deadlines of its own.
CALL_WITHIN = timedelta(seconds=60)

#: The tool that changes something.
POST = "post"

#: How long a post may be confirmed after its preview: runs that were shown pass by.
CONFIRM_WITHIN = timedelta(minutes=15)

#: Bytes of a path with its query, and of the arguments that it is made of.
_LONGEST_PATH = 16 << 10

_POST_MORE = """

With `uid`, the document replaces that of an existing action. The first call stores
nothing: it answers with the preview, and with `confirm`. Show the preview to whoever
asked for the change. Only a second call with the same arguments and that `confirm`
posts; repeated, it posts nothing twice.
"""

_CONFIRM = {
    "type": "string",
    "description": "What the first call answered with, for 15 minutes. Left out: tell"
    " what the post would do, and store nothing.",
}

_NEXT = (
    "Nothing was stored. Show the preview to whoever asked for the change; if they"
    " agree, call `post` again with the same arguments and this `confirm`."
)


@dataclass(frozen=True, slots=True)
class Tool:
    """
    A tool as an agent sees it.

    Args:
        takes: JSON Schema of its arguments.
        reads: Whether it changes nothing.
    """

    name: str
    description: str
    takes: dict[str, Any]
    reads: bool


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """What a tool answers: the JSON of the API, perhaps a problem."""

    text: str
    is_refused: bool


class _ProblemError(Exception):
    """There is no answer but a problem, which this has as JSON."""


@dataclass(frozen=True, slots=True)
class _Route:
    """An operation of the OpenAPI document."""

    method: str
    path: str
    told: dict[str, Any]

    def describe_arguments(self) -> dict[str, dict[str, Any]]:
        """Return the schema of each argument, by name; the body is ``document``."""
        found = {}
        for each in self.told.get("parameters", ()):
            if each["in"] != "header":
                said = {"description": each.get("description", "")}
                found[each["name"]] = {**each["schema"], **said}
        if "requestBody" in self.told:
            body = self.told["requestBody"]["content"]["application/json"]
            # The first ones have "true" for true, as the original documentation.
            *_, example = body["examples"].values()
            found["document"] = {**body["schema"], "examples": [example["value"]]}
        return found

    def find_needed(self) -> list[str]:
        """Return the arguments that a call must have."""
        parameters = self.told.get("parameters", ())
        found = [p["name"] for p in parameters if p["in"] == "path"]
        return [*found, "document"] if "requestBody" in self.told else found

    def fill(self, given: dict[str, Any]) -> str:
        """
        Return its path with query, made of *given*.

        Raises:
            _ProblemError: An argument is missing, or cannot be part of a path.
        """
        _demand_short(_write(given))
        rest = {name: each for name, each in given.items() if each is not None}
        path = self.path
        for name in re.findall(r"{(\w+)}", path):
            value = rest.pop(name, None)
            if not isinstance(value, str) or value in {"", ".", ".."} or "/" in value:
                raise _refuse(f"{name} is needed: text, without a slash.", name)
            path = path.replace(f"{{{name}}}", quote(value, safe="", errors="replace"))
        pairs = [
            (name, each if isinstance(each, str) else json.dumps(each))
            for name, value in rest.items()
            for each in (value if isinstance(value, list) else [value])
        ]
        found = f"{path}?{urlencode(pairs, errors='replace')}" if pairs else path
        return _demand_short(found)


class Tools:
    """
    All tools, and how they are called.

    Args:
        app: Answers the requests to the API.
        clock: Returns seconds since 1970, by which confirmations run out.
        within: How long a call may take.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        clock: Callable[[], float] = time.time,
        within: timedelta = CALL_WITHIN,
    ) -> None:
        """Read the OpenAPI document."""
        document = make_document()
        self._app, self._clock, self._within = app, clock, within
        self._routes = routes = {
            told["operationId"]: _Route(method.upper(), path, told)
            for path, methods in document["paths"].items()
            for method, told in methods.items()
        }
        schemas = document["components"]["schemas"]
        #: By name.
        self.listed = {
            name: _make_tool(name, routes[operation], schemas)
            for name, operation in READING.items()
        }
        self.listed[POST] = _make_tool(
            POST,
            routes["create_action"],
            schemas,
            more=_POST_MORE,
            uid=routes["preview"].describe_arguments()["uid"],
            confirm=_CONFIRM,
        )

    async def call(
        self, name: str, given: dict[str, Any], authorization: str | None
    ) -> ToolAnswer:
        """
        Call a tool.

        Args:
            name: One of ``listed``.
            given: Its arguments, whatever they are.
            authorization: The header of that name, of whoever asks.
        """
        asker = _Asker(self._app, self._routes, authorization)
        try:
            with anyio.fail_after(self._within.total_seconds()):
                if name == POST:
                    text = await self._post(asker, given)
                else:
                    text = (await asker.ask(READING[name], given)).text
            return ToolAnswer(text, is_refused=False)
        except _ProblemError as error:
            return ToolAnswer(str(error), is_refused=True)
        except TimeoutError:
            msg = f"there was no answer within {self._within.total_seconds():g} s"
            late = _refuse(msg, status=HTTPStatus.GATEWAY_TIMEOUT)
            return ToolAnswer(str(late), is_refused=True)

    async def _post(self, asker: _Asker, given: dict[str, Any]) -> str:
        """Tell what a post would do; post if that was confirmed."""
        known = self.listed[POST].takes["properties"]
        for name in sorted(given.keys() - known.keys()):
            raise _refuse(f"post takes no {show(name)}. {suggest(name, known)}")
        asked = {name: value for name, value in given.items() if value is not None}
        confirm, uid = asked.pop("confirm", None), asked.get("uid")
        operation = "create_action" if uid is None else "replace_action"
        owner = "app" if uid is None else "uid"
        sent = {name: asked.get(name) for name in (owner, "note", "document")}
        if confirm is not None:
            seen = self._check(asker, asked, confirm := ascii(confirm)[1:-1])
            mark = {"Idempotency-Key": confirm} if uid is None else {"If-Match": seen}
            return (await asker.ask(operation, sent, **mark)).text
        mark = {}
        if uid is not None:
            stored = await asker.ask("read_action", {"uid": uid})
            mark = {"If-Match": stored.headers["etag"]}
        await asker.ask(operation, {**sent, "dry_run": True}, **mark)
        foreseen = {name: value for name, value in asked.items() if name != "note"}
        preview = await asker.ask("preview", foreseen)
        seen = mark.get("If-Match", "new").strip('"')
        confirm = asker.sign(asked, seen, round(self._clock()))
        told = {"next": _NEXT, "confirm": confirm, "preview": preview.json()}
        return write_json(told)

    def _check(self, asker: _Asker, asked: dict[str, Any], confirm: str) -> str:
        """
        Return the entity tag that a preview was made of.

        Raises:
            _ProblemError: It was another one, or too long ago.
        """
        seen, _, rest = confirm.partition(".")
        second = rest.partition(".")[0]
        made_at = int(second) if re.fullmatch(r"[0-9]{1,12}", second) else 0
        expected = asker.sign(asked, seen, made_at)
        is_ours = hmac.compare_digest(expected.encode(), confirm.encode())
        age_s = self._clock() - made_at
        if not is_ours or age_s > CONFIRM_WITHIN.total_seconds():
            msg = (
                "this is not what the preview of these very arguments answered within"
                " the last 15 minutes. Call it without confirm, and look again."
            )
            raise _refuse(msg, "confirm")
        return f'"{seen}"'


@dataclass(frozen=True, slots=True)
class _Asker:
    """Somebody who asks the API, in this process."""

    app: ASGIApp
    routes: Mapping[str, _Route]
    authorization: str | None

    async def ask(
        self, operation: str, given: dict[str, Any], **headers: str
    ) -> httpx2.Response:
        """
        Return what the API answers.

        Raises:
            _ProblemError: That is a problem.
        """
        route = self.routes[operation]
        rest, content = dict(given), b""
        if "requestBody" in route.told:
            headers["Content-Type"] = "application/json"
            if (document := rest.pop("document", None)) is not None:
                content = _write(document)
        if self.authorization is not None:
            headers["Authorization"] = self.authorization
        transport = httpx2.ASGITransport(self.app, raise_app_exceptions=False)
        async with httpx2.AsyncClient(
            transport=transport,
            base_url="http://minutehand",
            headers=headers,
            trust_env=False,  # nothing leaves this process
        ) as client:
            found = await client.request(
                route.method, route.fill(rest), content=content
            )
        if found.is_error:
            raise _ProblemError(found.text)
        return found

    def sign(self, asked: dict[str, Any], seen: str, second: int) -> str:
        """Return what confirms a post; only who has the key could have made it."""
        key = (self.authorization or "").encode()
        digest = hmac.new(key, _write([asked, seen, second]), "sha256").hexdigest()
        return f"{seen}.{second}.{digest}"


def _make_tool(
    name: str,
    route: _Route,
    schemas: dict[str, Any],
    *,
    more: str = "",
    **added: dict[str, Any],
) -> Tool:
    """Return the tool of a route, with its arguments and those that are *added*."""
    properties = {**route.describe_arguments(), **added}
    properties.pop("dry_run", None)
    return Tool(
        name,
        route.told["description"] + more.rstrip(),
        _close(
            {
                "type": "object",
                "properties": properties,
                "required": route.find_needed(),
                "additionalProperties": False,
            },
            schemas,
        ),
        reads=not added,
    )


def _close(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return *schema* with whatever it refers to."""
    prefix = "#/components/schemas/"
    found: dict[str, Any] = {}
    text = json.dumps(schema)
    waiting = [text]
    while waiting:
        for each in re.findall(rf'"{prefix}(\w+)"', waiting.pop()):
            if each not in found:
                found[each] = schemas[each]
                waiting.append(json.dumps(schemas[each]))
    if found:
        text = json.dumps({**schema, "$defs": found})
    closed: dict[str, Any] = json.loads(text.replace(prefix, "#/$defs/"))
    return closed


_Text = TypeVar("_Text", str, bytes)


def _demand_short(text: _Text) -> _Text:
    """Return *text*, unless it is longer than a path with its query may be."""
    if len(text) > _LONGEST_PATH:
        msg = f"the arguments are longer than {_LONGEST_PATH:,} bytes."
        raise _refuse(msg, status=HTTPStatus.REQUEST_URI_TOO_LONG)
    return text


def _write(value: object) -> bytes:
    """Return JSON that is no longer than what it was read from."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode(errors="surrogatepass")  # what that is, the API refuses


def _refuse(
    message: str,
    parameter: str | None = None,
    *,
    status: HTTPStatus = HTTPStatus.UNPROCESSABLE_ENTITY,
) -> _ProblemError:
    """Return what never reaches the API as the problem that it would answer."""
    error = HttpError(status, message, parameter=parameter)
    return _ProblemError(bytes(answer_error(error, str(uuid4())).body).decode())
