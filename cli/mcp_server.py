"""
The tools of agents behind the Model Context Protocol, by the package ``mcp``.

On standard input and output, each call is made with one key; over HTTP with that of
its own request, which the guard of the API lets in. No session is kept.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import closing
from functools import partial
from importlib.metadata import version
from io import TextIOWrapper
from typing import Any
from urllib.parse import urlsplit

import anyio
from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, FastAPI
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import MCPError
from mcp.types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.responses import Response
from starlette.types import Message

from api.guarding import ApiRoute
from api.tools import Tools
from cli.connection import get_engine, get_settings
from cli.web import log_as_set, serve
from cli.web_app import make_app
from models.door.json_text import LARGEST_TEXT
from models.errors import UsageError
from models.fields.strict_model import show, suggest
from serving.access.keys import read_key
from serving.context import Viewer
from serving.guarding import Body
from serving.services import Services, make_services
from settings import Settings

PATH = "/mcp"

#: Bytes of a message over HTTP: some ten times an action. It is read several times, by
#: the package and by the API.
_LARGEST = 32 << 10

_INSTRUCTIONS = (
    "Minutehand runs scheduled actions of small apps. Actions have uids, which"
    " list_actions finds by a part of their names. Ask why if something ran or did not"
    " run. Times are UTC. Nothing is changed but by post, and by that only after a"
    " preview that was confirmed."
)

#: The thread that reads standard input, and the one that writes standard output.
_OWN_THREADS = 2

router = APIRouter(route_class=ApiRoute)


def make_server(tools: Tools, authorization: str | None = None) -> Server[Any]:
    """
    Return the server of *tools*.

    Args:
        authorization: The header of calls that come by no HTTP request of their own.
    """

    async def list_tools(
        _context: ServerRequestContext[Any], _params: PaginatedRequestParams | None
    ) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(
                    name=each.name,
                    description=each.description,
                    input_schema=each.takes,
                    annotations=ToolAnnotations(
                        read_only_hint=each.reads, open_world_hint=False
                    ),
                )
                for each in tools.listed.values()
            ]
        )

    async def call_tool(
        context: ServerRequestContext[Any], params: CallToolRequestParams
    ) -> CallToolResult:
        if params.name not in tools.listed:
            hint = suggest(params.name, tools.listed)
            msg = f"there is no tool {show(params.name)}. {hint}"
            raise MCPError(INVALID_PARAMS, msg)
        request = context.request
        sender = (
            authorization if request is None else request.headers.get("authorization")
        )
        answer = await tools.call(params.name, params.arguments or {}, sender)
        return CallToolResult(
            content=[TextContent(text=answer.text)],
            structured_content=json.loads(answer.text),
            is_error=answer.is_refused,
        )

    return Server(
        "minutehand",
        version=version("minutehand"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


class _Lines(TextIOWrapper):
    """Standard input; a line that is too long is its end."""

    is_cut = False

    # As typed as that of TextIOWrapper itself.
    def readline(self, _size: int = -1, /) -> str:  # type: ignore[override]
        line = super().readline(LARGEST_TEXT + 1)
        self.is_cut = len(line) > LARGEST_TEXT
        return "" if self.is_cut else line


def serve_stdio() -> None:
    """
    Answer on standard input and output until the former ends.

    Raises:
        UsageError: There is no key, or it has a typo; or a message is too long.
    """
    settings = get_settings()
    key = settings.mcp_key.get_secret_value() if settings.mcp_key else ""
    if read_key(key) is None:
        said = "is no API key, or one with a typo" if key else "is not set"
        raise UsageError(
            f"MINUTEHAND_MCP_KEY {said}: an agent may do what its key may do. Make one:"
            " minutehand keys create --app UID --role viewer"
        )
    log_as_set(settings)
    get_engine()  # it creates the embedded database
    # The thread that reads standard input would keep Ctrl-C waiting for a line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with closing(make_services(settings)) as services:
        anyio.run(_answer_stdio, services, f"Bearer {key}")


async def _answer_stdio(services: Services, authorization: str) -> None:
    threads = services.settings.web_threads + _OWN_THREADS
    current_default_thread_limiter().total_tokens = threads
    server = make_server(Tools(make_app(services)), authorization)
    lines = _Lines(sys.stdin.buffer, encoding="utf-8", errors="replace")
    async with stdio_server(anyio.wrap_file(lines)) as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())
    if lines.is_cut:
        raise UsageError(
            f"a message is longer than {LARGEST_TEXT:,} characters, and so is no"
            " action. Post what is as large by the API."
        )


def serve_http() -> None:
    """Serve what ``minutehand web`` serves, and the tools at ``PATH``."""
    serve(make_app_with_tools, f"The pages, the HTTP API and, at {PATH}, MCP answer")


def make_app_with_tools(services: Services) -> FastAPI:
    """Return the application of a web process, with the tools at ``PATH``."""
    app = make_app(services)
    app.router.routes.extend(router.routes)
    # One for each request: it keeps nothing, and may be of a process of its own.
    app.state.mcp = partial(
        StreamableHTTPSessionManager,
        make_server(Tools(app)),
        json_response=True,
        stateless=True,
        security_settings=_make_security(services.settings),
        max_request_body_size=_LARGEST,
    )
    return app


def _make_security(settings: Settings) -> TransportSecuritySettings:
    """Return the names of this server: a page of another site calls it by its own."""
    listening = settings.web_address.rpartition(":")[0]
    hosts = [f"{name}:*" for name in ("127.0.0.1", "localhost", "[::1]", listening)]
    origins = [f"http://{host}" for host in hosts]
    if settings.web_url is not None:
        outside = urlsplit(settings.web_url)
        hosts.append(outside.netloc)
        origins.append(f"{outside.scheme}://{outside.netloc}")
    return TransportSecuritySettings(allowed_hosts=hosts, allowed_origins=origins)


@router.post(PATH, include_in_schema=False)
@Body({"type": "object"}, examples={}, largest=_LARGEST)
async def speak(context: Viewer) -> Response:
    """Answer one message of the protocol."""
    manager: StreamableHTTPSessionManager = context.request.app.state.mcp()
    body = [context.body]
    answer = Response()
    parts: list[bytes] = []

    async def receive() -> Message:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        return await context.request.receive()  # that the client is gone

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status_code = message["status"]
            answer.raw_headers = list(message["headers"])
        else:
            parts.append(message.get("body", b""))

    async with manager.run():
        await manager.handle_request(context.request.scope, receive, send)
    answer.body = b"".join(parts)
    return answer
