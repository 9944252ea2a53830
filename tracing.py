"""
Traces, by OpenTelemetry; docs/telemetry.md says what they show.

They cost nothing unless the extra ``otel`` is installed and a collector is named. Then
the first span of a process starts a thread that sends spans, out of a queue with a
bound: nobody waits for a collector that hangs or is away, and what is too much for the
queue is dropped.

An operation has a trace of its own, whose id is made of the operation's: scheduler,
worker and logs name the same one, and nothing is stored. Other spans link to it.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import random
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from types import TracebackType
from typing import Any, Literal, NamedTuple, Self, TypeVar
from uuid import UUID

#: Seconds that the end of a process waits for its last spans to be sent.
FLUSH_S = 2.0

#: Operations of one batch that its span links to; so many of the users' own tasks that
#: are sent in a batch are traced. A span takes a tenth of a millisecond.
MOST = 100

#: The only form that we speak.
PROTOCOL = "http/protobuf"

#: Names the span that a message comes from (W3C Trace Context).
HEADER = "traceparent"

#: Letters of an error in a span.
_LONGEST_ERROR = 300

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_LOW = (1 << 64) - 1

Kind = Literal["INTERNAL", "SERVER", "PRODUCER", "CONSUMER"]

_Made = TypeVar("_Made")


class TracePlace(NamedTuple):
    """
    A span, of whatever process.

    Args:
        span_id: 0: its trace alone is known.
        is_sampled: Whether anybody sends it to a collector.
    """

    trace_id: int
    span_id: int
    is_sampled: bool = True

    def write(self) -> str:
        """Return it as it stands in HEADER."""
        return f"00-{self.trace_id:032x}-{self.span_id:016x}-{self.is_sampled:02x}"


def read_traceparent(text: object) -> TracePlace | None:
    """
    Return the span that a header names; anything may stand in it.

    >>> read_traceparent("00-" + "0" * 31 + "a-000000000000000b-01")
    TracePlace(trace_id=10, span_id=11, is_sampled=True)
    """
    found = _TRACEPARENT.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    trace_id, span_id, flags = (int(each, 16) for each in found.groups())
    return (
        TracePlace(trace_id, span_id, bool(flags & 1)) if trace_id and span_id else None
    )


def find_operation(operation_id: UUID, sending: TracePlace | None = None) -> TracePlace:
    """
    Return the span of a run of an operation.

    The trace id is the operation's id with its halves changed over: what begins an id
    is random, and so must be what ends a trace id, by which samplers decide.

    Args:
        sending: The span of the batch in which it was sent; a later run has another.
            None: unknown, and so is the span.

    >>> find_operation(UUID("01234567-89ab-5def-8123-456789abcdef")).write()
    '00-8123456789abcdef0123456789ab5def-0000000000000000-01'
    """
    number = operation_id.int
    trace_id = (number & _LOW) << 64 | number >> 64
    return TracePlace(
        trace_id, 0 if sending is None else sending.span_id ^ (number & _LOW)
    )


def find_post(action_uid: str, revision: int) -> TracePlace:
    """Return the span of the post that made this *revision*."""
    digest = hashlib.sha256(f"{action_uid} | {revision}".encode()).digest()
    return TracePlace(int.from_bytes(digest[:16]), int.from_bytes(digest[16:24]))


class TraceSpan:
    """What is done, from its beginning to its end. This one is not traced."""

    #: None: it is not traced.
    place: TracePlace | None = None
    #: How many others it points to, of those that were added.
    links = 0

    def note(self, **facts: str | float) -> None:
        """Add *facts*."""

    def link(self, place: TracePlace) -> None:
        """Point to another span."""

    def end(self, error: object = None) -> None:
        """End it; *error* is why that which it is about failed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None


_UNTRACED = TraceSpan()


class _Traced(TraceSpan):
    """
    A span of OpenTelemetry; within its block it is that of all that is logged.

    Args:
        span: OpenTelemetry's own.
        calm: Exceptions that are no errors.
    """

    def __init__(self, span: Any, calm: tuple[type[BaseException], ...]) -> None:
        context = span.get_span_context()
        sampled = bool(context.trace_flags & 1)
        self.place = TracePlace(context.trace_id, context.span_id, sampled)
        self._span = span
        self._calm = calm
        self._left: list[Any] = []

    def note(self, **facts: str | float) -> None:
        self._span.set_attributes(_name(facts))

    def link(self, place: TracePlace) -> None:
        self.links += 1
        self._span.add_link(_own.make_context(place))

    def end(self, error: object = None) -> None:
        if error is not None:
            code = _own.api.StatusCode.ERROR
            self._span.set_status(_own.api.Status(code, _describe(error)))
        self._span.end()

    def __enter__(self) -> Self:
        place = self.place
        assert place is not None  # set above
        entered = _own.context.attach(_own.api.set_span_in_context(self._span))
        bound = _own.log_context.bind_contextvars(
            trace_id=f"{place.trace_id:032x}", span_id=f"{place.span_id:016x}"
        )
        self._left = [entered, bound]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entered, bound = self._left
        _own.context.detach(entered)
        _own.log_context.reset_contextvars(**bound)
        self.end(None if error is None or isinstance(error, self._calm) else error)


class _Ids(threading.local):
    """Gives the first span of a trace the ids that it is to have, or random ones."""

    wanted: TracePlace | None = None

    def generate_trace_id(self) -> int:
        """Return the id of a trace."""
        if self.wanted is not None:
            return self.wanted.trace_id
        return random.getrandbits(128) or 1

    def generate_span_id(self) -> int:
        """Return the id of a span."""
        wanted = 0 if self.wanted is None else self.wanted.span_id
        return wanted or random.getrandbits(64) or 1

    def is_trace_id_random(self) -> bool:
        """Tell whether the end of the id of a trace is random, in each of its bits."""
        return False


class _Own:
    """What this process has of OpenTelemetry; a fork has to get its own."""

    def __init__(self) -> None:
        self.protocol: str | None = None
        self.ids: Any = _Ids()
        self.api: Any = None
        self.context: Any = None
        self.log_context: Any = None
        self._tracer: Any = None
        self._pid = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._stopped = threading.Event()

    def get_tracer(self) -> Any:
        """Return what makes spans; None: nobody wants any."""
        if self.protocol is None or self._pid == os.getpid():
            return self._tracer
        with self._lock:
            if self._pid != os.getpid():
                self._begin()
                self._pid = os.getpid()
        return self._tracer

    def _begin(self) -> None:
        self._stopping, self._stopped = threading.Event(), threading.Event()
        provider = try_otlp(self.protocol, self._make_provider)
        if provider is None:
            return
        self._tracer = provider.get_tracer("minutehand")
        # Not at the end: no thread can be started by then.
        ending = (provider, self._stopping, self._stopped)
        threading.Thread(
            target=_shut_down, args=ending, name="traces-end", daemon=True
        ).start()
        atexit.register(self.stop)

    def _make_provider(self) -> Any:
        from opentelemetry import context, trace  # noqa: PLC0415 - of an extra
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
        from structlog import contextvars  # noqa: PLC0415 - commands post without a log

        self.api, self.context, self.log_context = trace, context, contextvars
        provider = TracerProvider(
            resource=make_resource(), shutdown_on_exit=False, id_generator=self.ids
        )
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        return provider

    def make_context(self, place: TracePlace) -> Any:
        """Return *place* as OpenTelemetry has it."""
        flags = self.api.TraceFlags(place.is_sampled)
        return self.api.SpanContext(*place[:2], is_remote=True, trace_flags=flags)

    def stop(self) -> None:
        """Send what is left, and wait a moment for it; trace nothing from now on."""
        if self._pid != os.getpid():
            return
        tracer, self._tracer = self._tracer, None
        self.protocol, self._pid = None, 0
        if tracer is not None:
            self._stopping.set()
            self._stopped.wait(FLUSH_S)


_own = _Own()


def configure(protocol: str | None) -> None:
    """
    Trace from now on, or not.

    Args:
        protocol: As ``settings.find_collector`` returns it. None: there is none.
    """
    _own.protocol = protocol


def prepare() -> None:
    """Begin now, for it takes a moment: a tick should not."""
    _own.get_tracer()


def stop() -> None:
    """Send what is left, and wait a moment for it; trace nothing from now on."""
    _own.stop()


def begin(
    name: str,
    *,
    at: TracePlace | None = None,
    links: Iterable[TracePlace | None] = (),
    kind: Kind = "INTERNAL",
    since_ns: int | None = None,
    calm: tuple[type[BaseException], ...] = (),
    **facts: str | float,
) -> TraceSpan:
    """
    Begin a span: to be used as a block, or ended by hand.

    Args:
        name: Of few kinds; what tells one from another is a fact.
        at: Its place, as the first span of its trace. None: it is a part of the span of
            the block around, or of a trace of its own.
        links: Other spans that it comes from; None: unknown.
        since_ns: When it began, in nanoseconds since 1970. None: now.
        calm: Exceptions that may end its block, and are no errors.
        facts: Attributes, named as in the log, behind ``minutehand.``.
    """
    tracer = _own.get_tracer()
    if tracer is None:
        return _UNTRACED
    api = _own.api
    _own.ids.wanted = at
    try:
        span = tracer.start_span(
            name,
            context=None if at is None else _own.context.Context(),
            kind=api.SpanKind[kind],
            attributes=_name(facts),
            links=[api.Link(_own.make_context(link)) for link in links if link],
            start_time=since_ns,
        )
    finally:
        _own.ids.wanted = None
    return _Traced(span, calm)


@contextmanager
def answering(name: str, header: object, **told: Any) -> Iterator[TraceSpan]:
    """Do as ``begin``, as a part of the span that *header* names, if it names one."""
    with _going_on(header), begin(name, kind="SERVER", **told) as span:
        yield span


@contextmanager
def _going_on(header: object) -> Iterator[None]:
    """Let what begins in the block be a part of the span that *header* names."""
    place = read_traceparent(header)
    if place is None or _own.get_tracer() is None:
        yield
        return
    theirs = _own.api.NonRecordingSpan(_own.make_context(place))
    entered = _own.context.attach(_own.api.set_span_in_context(theirs))
    try:
        yield
    finally:
        _own.context.detach(entered)


def find_current() -> TracePlace | None:
    """Return the span of the block that this is in; None: it is in none."""
    if _own.get_tracer() is None:
        return None
    context = _own.api.get_current_span().get_span_context()
    sampled = bool(context.trace_flags & 1)
    place = TracePlace(context.trace_id, context.span_id, sampled)
    return place if context.is_valid else None


def try_otlp(protocol: str | None, make: Callable[[], _Made]) -> _Made | None:
    """
    Return what *make* makes of the extra; log why, if that cannot be.

    Args:
        protocol: As for ``configure``. None: nothing is to be made.
    """
    if protocol is None:
        return None
    if protocol not in ("", PROTOCOL):
        problem = f"OTEL_EXPORTER_OTLP_PROTOCOL: {protocol!r} is not {PROTOCOL}"
    else:
        try:
            return make()
        except ImportError:
            problem = "the extra is not installed: pip install 'minutehand[otel]'"
        except ValueError as error:
            problem = str(error)
    import structlog  # noqa: PLC0415 - commands post without a log

    from telemetry import Event  # noqa: PLC0415 - as above

    log = structlog.get_logger()
    log.warning(Event.OTLP_OFF, error=problem)
    return None


def make_resource() -> Any:
    """Return what is said of this process, with each span and each metric."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource  # noqa: PLC0415 - of an extra

    ours = {"service.name": "minutehand", "service.version": version("minutehand")}
    # OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES count more.
    return (
        Resource.create().merge(Resource(ours)).merge(OTELResourceDetector().detect())
    )


def _shut_down(
    provider: Any, stopping: threading.Event, stopped: threading.Event
) -> None:
    stopping.wait()
    provider.shutdown()
    stopped.set()


def _name(facts: dict[str, str | float]) -> dict[str, str | float]:
    return {f"minutehand.{key}": value for key, value in facts.items()}


def _describe(error: object) -> str:
    text = str(error)
    if isinstance(error, BaseException):
        text = f"{type(error).__name__}: {text}"
    return text[:_LONGEST_ERROR]
