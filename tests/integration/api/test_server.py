"""The web process, as it listens."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing
from pathlib import Path

from serving.server import listen
from settings import read_settings


def test_answers_leave_at_once(tmp_path: Path):
    """
    No connection waits until the client acknowledges the head of an answer.

    That would be 40 ms, of each request but the first.
    """
    settings = read_settings(
        {"MINUTEHAND_WEB_ADDRESS": "127.0.0.1:0", "MINUTEHAND_HOME": str(tmp_path)},
        env_file=None,
    )

    with closing(listen(settings)) as listener:
        assert asyncio.run(_read_option(listener))


async def _read_option(listener: socket.socket) -> int:
    """Connect to *listener*, and return TCP_NODELAY of the server's end."""
    found: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    class Protocol(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted = transport.get_extra_info("socket")
            option = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            found.set_result(option)
            transport.close()

    loop = asyncio.get_running_loop()
    server = await loop.create_server(Protocol, sock=listener)
    async with server:
        _, writer = await asyncio.open_connection(*listener.getsockname())
        option = await asyncio.wait_for(found, 10)
        writer.close()
    return option
