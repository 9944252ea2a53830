"""``minutehand mcp`` as a process, spoken to by the official client."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

from models.door.json_text import LARGEST_TEXT
from models.role import Role
from serving.access.manage_keys import create_key
from tests.chaos.installation import Installation
from tests.database import write_by
from tests.scheduling import add_app
from tests.servers import ROOT, find_free_port, run_warm, wait_until

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent

#: What its reader pastes: the server as a process, and by HTTP.
PASTED, PASTED_HTTP = (
    json.loads(block)["mcpServers"]["minutehand"]
    for block in re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)

DOCUMENT = {
    "name": "hello",
    "operations": {"maintenance": True},
    "when": {"cron_rule": "0 7 * * 1", "timezone": "Europe/Paris"},
}

#: Seconds until a client gives up: a test that hangs tells less.
PATIENCE_S = 300


def make_key(installation: Installation, role: Role) -> str:
    key = write_by(installation.engine, create_key, app="app", role=role)
    return key.text


def read(result: Any) -> Any:
    """Return the JSON of a result, which it has twice."""
    found = json.loads(result.content[0].text)
    assert found == result.structured_content
    return found


async def post_with_confirmation(session: Client | ClientSession) -> None:
    """Preview, post, and find what was posted."""
    asked = {"document": DOCUMENT}
    told = read(await session.call_tool("post", asked))
    assert "Mondays at 07:00, Europe/Paris" == told["preview"]["sentence"]
    assert [] == read(await session.call_tool("list_actions", {}))["items"]

    confirmed = {**asked, "confirm": told["confirm"]}
    uid = read(await session.call_tool("post", confirmed))["uid"]

    shown = read(await session.call_tool("show_action", {"uid": uid}))
    assert DOCUMENT["name"] == shown["name"]
    (answer,) = read(await session.call_tool("why", {"uid": uid}))["items"]
    assert "will run" == answer["verdict"]


async def check_refusals(session: Client | ClientSession) -> None:
    """See that a viewer posts nothing, and that mistakes are told."""
    post = await session.call_tool("post", {"document": DOCUMENT})
    assert post.is_error
    assert "this needs the role editor" in read(post)["detail"]
    mistaken = await session.call_tool("list_actions", {"stat": "active"})
    assert mistaken.is_error
    assert "Did you mean 'state'?" in read(mistaken)["detail"]
    with pytest.raises(MCPError, match="Did you mean 'doctor'"):
        await session.call_tool("doktor", {})


@asynccontextmanager
async def speak(installation: Installation, key_file: Path) -> AsyncIterator[Any]:
    """Give a session with a process that was started as the page says."""
    server = StdioServerParameters(
        command=str(BIN / PASTED["command"]),
        args=PASTED["args"],
        env={**dict.fromkeys(PASTED["env"], str(key_file)), **installation.environ},
    )
    async with (
        stdio_client(server) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


def run(made: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(made, PATIENCE_S))


def test_process_answers_an_agent(installation: Installation, tmp_path: Path):
    """As the page's configuration starts it, an editor posts."""
    add_app(installation.engine)
    key_file = tmp_path / "assistant.key"
    key_file.write_text(make_key(installation, Role.EDITOR) + "\n")

    async def converse() -> None:
        async with speak(installation, key_file) as session:
            listed = await session.list_tools()
            assert all(f"`{tool.name}`" in PAGE for tool in listed.tools)
            await post_with_confirmation(session)

    run(converse())


def test_message_without_end_ends_the_process(installation: Installation):
    """It is not read on: nobody has memory for all that may come."""
    add_app(installation.engine)
    key = make_key(installation, Role.VIEWER)

    done = subprocess.run(
        [BIN / PASTED["command"], *PASTED["args"]],
        input=b"[" * (2 * LARGEST_TEXT),
        env={**installation.environ, "MINUTEHAND_MCP_KEY": key},
        capture_output=True,
        check=False,
        timeout=PATIENCE_S,
    )

    assert (2, b"") == (done.returncode, done.stdout)
    assert b"error: a message is longer than 1,048,576 characters" in done.stderr


def test_server_answers_agents(installation: Installation):
    """Over streamable HTTP, each request with its own key, in either protocol."""
    add_app(installation.engine)
    port = find_free_port()
    installation.options["WEB_ADDRESS"] = f"127.0.0.1:{port}"
    url = PASTED_HTTP["url"].replace("8400", str(port))
    command = [sys.executable, "-m", "cli.main", "mcp", "--http"]
    log = installation.folder / "mcp.log"

    async def converse() -> None:
        with_key = {
            role: httpx2.AsyncClient(
                headers={"Authorization": f"Bearer {make_key(installation, role)}"},
                timeout=PATIENCE_S,
            )
            for role in (Role.EDITOR, Role.VIEWER)
        }
        async with (
            with_key[Role.EDITOR] as http,
            streamable_http_client(url, http_client=http) as streams,
            ClientSession(*streams[:2]) as session,
        ):
            await session.initialize()
            await post_with_confirmation(session)
            await check_edge(http, url)
        async with (
            with_key[Role.VIEWER] as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            await check_refusals(client)

    with run_warm(command, log=log, environ=installation.environ):
        wait_until(lambda: "answer at" in log.read_text(), what="the server")
        run(converse())


async def check_edge(http: httpx2.AsyncClient, url: str) -> None:
    """See what never reaches a tool."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    many = b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"x" * (32 << 10) + b'"}'
    kind = {"Content-Type": "application/json", "Accept": "application/json"}

    async def ask(method: str = "POST", **changes: Any) -> int:
        headers = {**kind, **changes.pop("headers", {})}
        content = changes.pop("content", json.dumps(message).encode())
        answer = await http.request(method, url, headers=headers, content=content)
        return answer.status_code

    assert 200 == await ask()
    assert 401 == await ask(headers={"Authorization": ""})
    assert 401 == await ask(headers={"Authorization": "Bearer mh_x"})
    assert 421 == await ask(headers={"Host": "evil.example:8400"})
    assert 403 == await ask(headers={"Origin": "http://evil.example"})
    assert 415 == await ask(headers={"Content-Type": "text/plain"})
    assert 405 == await ask("GET")
    assert 413 == await ask(content=many)
    assert 400 == await ask(content=b"[" * 30_000)
    # What takes long to read is read by a process of its own, and told as the rest.
    params = {"name": "preview", "arguments": {"document": [[]] * 4_000}}
    bomb = {**message, "method": "tools/call", "params": params}
    told = await http.post(url, json=bomb, headers=kind)
    assert 422 == told.json()["result"]["structuredContent"]["status"]
    assert 400 == await ask(content=b"{")
