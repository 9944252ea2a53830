"""Requests to addresses of others over TLS: who answers must be who was named."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

import pytest

from operations.adapters.guarded_http import HostGuard
from operations.adapters.sources.http_source import HttpSource
from operations.adapters.webhooks import RealWebhooks
from operations.domains import DomainLimits
from operations.mail.message import Fate, Sending, WebhookRequest
from tests.servers import PATIENCE_S, run_in_thread
from tests.unit.operations.fakes import failing

NOW = datetime(2026, 11, 23, 6, 0, tzinfo=UTC)

#: An authority of ours, and the key and certificate that it gave hooks.example and
#: hooks.xn--fa-hia.example; valid until 2126.
CERTIFICATES = Path(__file__).parent / "certificates"

AUTHORITY = CERTIFICATES / "authority.pem"


@dataclass
class TlsServer:
    """What clients asked for: the name while shaking hands, then the host."""

    port: int
    asked: list[tuple[str | None, str | None]] = field(default_factory=list)


@contextmanager
def run_tls_server() -> Iterator[TlsServer]:
    """Run a server on 127.0.0.1 that has the certificate of hooks.example."""
    names: list[str | None] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            state.asked.append((names[-1], self.headers["host"]))
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(204)
            self.end_headers()

    class Server(ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """Clients that do not trust us leave, as they should."""

    def note_name(_socket: object, name: str | None, _context: object) -> None:
        names.append(name)

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATES / "hooks.example.pem")
    context.sni_callback = note_name
    server = Server(("127.0.0.1", 0), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    state = TlsServer(server.server_port)
    with run_in_thread(server):
        yield state


@pytest.fixture(scope="module")
def running() -> Iterator[TlsServer]:
    with run_tls_server() as server:
        yield server


@pytest.fixture
def tls(running: TlsServer) -> TlsServer:
    running.asked.clear()
    return running


def post(tls: TlsServer, host: str, *names: str) -> Sending:
    """Send a webhook to *host*; only *names* can be resolved, to 127.0.0.1."""

    def resolve(name: str, _port: int) -> tuple[str, ...]:
        if name in names:
            return ("127.0.0.1",)
        raise OSError(f"no such host: {name}")

    webhooks = RealWebhooks(
        secret="abc",
        allowed_hosts=("127.0.0.0/8",),
        timeout=timedelta(seconds=60),
        resolve=resolve,
    )
    url = f"https://{host}:{tls.port}/hook"
    return webhooks.post(WebhookRequest(url, "1", b"{}"), now=NOW)


def test_certificate_is_checked_against_the_name(
    tls: TlsServer, monkeypatch: pytest.MonkeyPatch
):
    """It connects to an address; name, certificate and host are those asked for."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))

    sending = post(tls, "hooks.example", "hooks.example")

    assert (Fate.SENT, "204 No Content") == (sending.outcome, sending.detail)
    assert [("hooks.example", f"hooks.example:{tls.port}")] == tls.asked


@pytest.mark.parametrize(
    ("host", "trusted", "said"),
    [
        # Who can make a name lead to himself does not become it.
        ("other.example", str(AUTHORITY), "other.example"),
        # Only authorities of the host, or of SSL_CERT_FILE, vouch for a name.
        ("hooks.example", None, "CERTIFICATE_VERIFY_FAILED"),
    ],
    ids=["another name", "an unknown authority"],
)
def test_certificate_of_another_is_refused(
    tls: TlsServer,
    monkeypatch: pytest.MonkeyPatch,
    host: str,
    trusted: str | None,
    said: str,
):
    """Nothing is asked for there."""
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    if trusted is not None:
        monkeypatch.setenv("SSL_CERT_FILE", trusted)

    sending = post(tls, host, host)

    assert Fate.UNREACHABLE is sending.outcome
    assert said in sending.detail
    assert [] == tls.asked


@pytest.mark.parametrize("host", ["hooks.faß.example", "hooks.xn--fa-hia.example"])
def test_name_in_other_letters_leads_to_nobody_else(
    tls: TlsServer, monkeypatch: pytest.MonkeyPatch, host: str
):
    """Python alone would resolve faß as fass, which may belong to others."""
    monkeypatch.setenv("SSL_CERT_FILE", str(AUTHORITY))
    ours = "hooks.xn--fa-hia.example"

    sending = post(tls, host, ours)

    assert (Fate.SENT, "204 No Content") == (sending.outcome, sending.detail)
    assert [(ours, f"{ours}:{tls.port}")] == tls.asked


@contextmanager
def run_dripping_server(head: bytes) -> Iterator[tuple[str, Callable[[], bool]]]:
    """
    Run a server that answers with *head*, then a byte now and then, for ever.

    Yields:
        Its place, and what waits until whoever came has left: on a busy machine the
        time may be over before anybody comes.
    """
    came, left = threading.Event(), threading.Event()

    class Answer(StreamRequestHandler):
        def handle(self) -> None:
            came.set()
            with suppress(OSError):
                self.wfile.write(head)
                while not left.wait(0.01):
                    self.wfile.write(b"x")
            left.set()

    with run_in_thread(ThreadingTCPServer(("127.0.0.1", 0), Answer)) as place:
        try:
            yield place, lambda: not came.is_set() or left.wait(PATIENCE_S)
        finally:
            left.set()


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 204 "])
def test_webhook_that_drips_is_left(head: bytes):
    """Each byte comes in time, and the answer never does."""
    webhooks = RealWebhooks(
        secret="abc", allowed_hosts=("127.0.0.1",), timeout=timedelta(seconds=1)
    )
    with run_dripping_server(head) as (place, is_left):
        url = f"http://{place}/"
        sending = webhooks.post(WebhookRequest(url, "1", b"x" * 100_000), now=NOW)

        assert is_left()
    assert Fate.UNREACHABLE is sending.outcome
    assert "it took longer than 1 s" in sending.detail


def test_name_that_is_never_resolved_is_left():
    """The resolver has no deadline; it gets what is left of that of the whole."""
    over = threading.Event()

    def hang(_name: str, _port: int) -> tuple[str, ...]:
        over.wait(PATIENCE_S)
        raise OSError("nobody left")

    webhooks = RealWebhooks(
        secret="abc",
        allowed_hosts=("127.0.0.1",),
        timeout=timedelta(milliseconds=10),
        resolve=hang,
    )
    sending = webhooks.post(WebhookRequest("http://a.example/", "1", b"x"), now=NOW)

    over.set()
    assert Fate.UNREACHABLE is sending.outcome
    assert "it took longer than 0.01 s" in sending.detail


@pytest.mark.parametrize("head", [b"", b"HTTP/1.1 200 OK\r\n\r\n"])
def test_source_that_drips_is_left(head: bytes, tmp_path: Path):
    """In its head and in its body; the message names the setting."""
    guard = HostGuard(("127.0.0.1",), setting="X")
    limits = DomainLimits(time=timedelta(seconds=1))
    with run_dripping_server(head) as (place, is_left):
        url = f"http://{place}/a.csv"
        source = HttpSource(url, "digest", "domain a", guard, limits)
        with failing("MINUTEHAND_SOURCE_TIMEOUT", permanent=False):
            source.fetch(None, tmp_path / "a")

        assert is_left()
