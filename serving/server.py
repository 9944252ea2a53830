"""Serve the application: uvicorn behind our edge, with deadlines and bounds."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from types import FrameType
from typing import Any

import structlog
import uvicorn
from starlette.types import ASGIApp

from celery_app.worker_start import spare_what_stays
from models.door.documents import LARGEST_BULK
from models.errors import UsageError
from serving.apart import Apart
from serving.edge import BACKLOG, Edge, EdgeSettings, fit_connections
from serving.services import Services, make_services
from settings import Settings
from telemetry import Event, configure_logging

log = structlog.get_logger()

#: How long requests may take to end when the server stops.
_GRACE_S = 5

#: Between two requests of a connection.
_IDLE_S = 15

#: Of a request's head, and of what comes between parts of a body.
_HEAD_BYTES = 16 << 10


class WebServer:
    """
    The web process, or the part of ``minutehand up`` that is one.

    Args:
        settings: Where to listen, and all else.
        make_app: Returns the application that answers; a function of a module.

    Raises:
        UsageError: The address cannot be listened on.
    """

    def __init__(
        self, settings: Settings, make_app: Callable[[Services], ASGIApp]
    ) -> None:
        """Listen; ``run`` answers."""
        self._socket = listen(settings)
        #: Where it answers, as seen from this host, or as the settings say.
        self.url = settings.make_web_url(self._socket.getsockname()[1])
        edge = Edge(
            EdgeSettings(
                connections=fit_connections(settings.web_connections),
                connections_per_address=max(1, settings.web_connections // 2),
                body_bytes=LARGEST_BULK,
                proxies=frozenset(
                    str(each.network_address)
                    for each in settings.web_proxies
                    if each.num_addresses == 1
                ),
            )
        )
        apart = Apart(partial(_make_apart, settings, make_app))
        services = make_services(settings, apart=apart)
        app = make_app(services)
        config = uvicorn.Config(
            app,
            http=edge.make_protocol_class(),
            ws="none",
            lifespan="on",
            # Ours tell what is worth telling; a line a request is a proxy's business.
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=_IDLE_S,
            h11_max_incomplete_event_size=_HEAD_BYTES,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = EdgeServer(config, before_shutdown=services.send_away)
        self._thread: threading.Thread | None = None

    def run(self) -> None:
        """Answer until ``stop`` is called, or a signal comes to the main thread."""
        with closing(self._socket):
            spare_what_stays()
            log.info(Event.WEB_STARTED, url=self.url)
            self._server.run(sockets=[self._socket])

    def start(self) -> None:
        """Answer in a thread of its own, until ``end``."""
        self._thread = threading.Thread(target=self.run, name="web", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """End what ``start`` began, after the requests that are under way."""
        self._server.should_exit = True
        if self._thread is not None:
            self._thread.join(_GRACE_S * 2)


def _make_apart(settings: Settings, make_app: Callable[[Services], ASGIApp]) -> ASGIApp:
    """Return the application of a process that answers requests with large bodies."""
    configure_logging(
        level=settings.log_level, log_format=settings.log_format, color=False
    )
    return make_app(make_services(settings))


class EdgeServer(uvicorn.Server):
    """A server that ends streams before it waits for what is under way."""

    def __init__(
        self, config: uvicorn.Config, *, before_shutdown: Callable[[], None]
    ) -> None:
        """Call *before_shutdown* once no new connections are taken."""
        super().__init__(config)
        self._before_shutdown = before_shutdown

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002
        """End on a signal, and at once on the second one; that is no failure."""
        # uvicorn's own remembers the signal, and in the end kills the process with it.
        self.force_exit = self.should_exit
        self.should_exit = True

    async def shutdown(self, sockets: Any = None) -> None:
        """End; streams have no end of their own, so they are told."""
        self._before_shutdown()
        await super().shutdown(sockets)


def listen(settings: Settings) -> socket.socket:
    """
    Return a socket that clients can already connect to.

    Raises:
        UsageError: The address cannot be listened on.
    """
    host, port = settings.web_host, settings.web_port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol, asyncio would not take its connections for TCP, and leave it
    # to the kernel to hold back the body of an answer until the client has acknowledged
    # the head: some 40 ms of each request.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise UsageError(
            f"cannot listen on {settings.web_address}: {error.strerror}. Set"
            " MINUTEHAND_WEB_ADDRESS to another address and port."
        ) from None
    return listener
