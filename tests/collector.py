"""A collector of OpenTelemetry for tests: keeps what it is sent over HTTP, as OTLP."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
)

from tests.servers import run_in_thread


@dataclass(frozen=True)
class Received:
    """
    A span that arrived.

    Args:
        links: Trace id and span id of each span that it points to.
        parent: Its span id; empty: none.
    """

    name: str
    trace_id: str
    span_id: str
    parent: str
    links: tuple[tuple[str, str], ...]
    facts: dict[str, Any]
    error: str
    began_ns: int
    ended_ns: int
    resource: dict[str, Any]

    @property
    def place(self) -> tuple[str, str]:
        """As others point to it."""
        return self.trace_id, self.span_id


@dataclass
class Collector:
    """
    What listens for OTLP.

    Args:
        url: For ``OTEL_EXPORTER_OTLP_ENDPOINT``.
        hangs: Whether it takes requests, and never answers them.
        asked: Set by the first request.
    """

    url: str = ""
    hangs: bool = False
    asked: threading.Event = field(default_factory=threading.Event)
    spans: list[Received] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    closed: threading.Event = field(default_factory=threading.Event)

    def take(self, path: str, body: bytes) -> None:
        """Keep what a request says."""
        if path == "/v1/metrics":
            told = ExportMetricsServiceRequest.FromString(body)
            for of_resource in told.resource_metrics:
                for scope in of_resource.scope_metrics:
                    self.metrics += scope.metrics
            return
        assert path == "/v1/traces"
        for traced in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _read(traced.resource.attributes)
            for scope in traced.scope_spans:
                self.spans += [_read_span(each, resource) for each in scope.spans]

    def find(self, name: str) -> list[Received]:
        """Return the spans with this *name*, in the order in which they began."""
        found = [each for each in self.spans if each.name == name]
        return sorted(found, key=lambda each: each.began_ns)


def _read(attributes: Any) -> dict[str, Any]:
    return {
        each.key: getattr(each.value, each.value.WhichOneof("value"))
        for each in attributes
    }


def _read_span(span: Any, resource: dict[str, Any]) -> Received:
    return Received(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent=span.parent_span_id.hex(),
        links=tuple((each.trace_id.hex(), each.span_id.hex()) for each in span.links),
        facts={
            key.removeprefix("minutehand."): value
            for key, value in _read(span.attributes).items()
        },
        error=span.status.message,
        began_ns=span.start_time_unix_nano,
        ended_ns=span.end_time_unix_nano,
        resource=resource,
    )


@contextmanager
def collecting(*, hangs: bool = False) -> Iterator[Collector]:
    """Run a collector for the block."""
    collector = Collector(hangs=hangs)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            collector.headers.append(dict(self.headers))
            collector.asked.set()
            if collector.hangs:
                collector.closed.wait()
            else:
                collector.take(self.path, body)
                self.send_response(200)
            self.end_headers()

    with run_in_thread(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as place:
        collector.url = f"http://{place}"
        try:
            yield collector
        finally:
            collector.closed.set()
