"""
The steps of an operation over time, with each attempt. Pure.

Time runs to the right, in proportion; but a long wait between two attempts is drawn
short and says so, or a retry days later would leave nothing of the runs to be seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from models.units import format_age
from web.operations.fetch_account import StepAttempt

#: Units of the drawing, which is 1,200 wide.
_LEFT, _RIGHT = 176.0, 1100.0
_ROW = 38

#: Above the lanes, for brackets of attempts; and without any.
_TOP, _TOP_WITHOUT = 48, 14

#: A wait is drawn at most as long as this part of all the rest.
_LONGEST_WAIT = 0.25

#: Ticks of the axis, at most, and the steps between them in seconds.
_TICKS = 9
_STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 43200),
    *(86400, 172800, 604800),
)


@dataclass(frozen=True, slots=True)
class Bar:
    """
    Something that took time.

    Args:
        kind: ok, bad, now, wait: see the template.
        label: How long it took.
    """

    x: float
    y: int
    width: float
    kind: str
    state: str
    label: str


@dataclass(frozen=True, slots=True)
class Lane:
    """One step, with the state that it is in now."""

    y: int
    name: str
    state: str
    note: str


@dataclass(frozen=True, slots=True)
class Tick:
    """An instant on the axis."""

    x: float
    at: datetime


@dataclass(frozen=True, slots=True)
class Bracket:
    """The attempt that a part of the drawing belongs to."""

    x: float
    width: float
    number: int


@dataclass(frozen=True, slots=True)
class DrawnWait:
    """A wait between two attempts; *is_short*: drawn shorter than it was."""

    x: float
    width: float
    label: str
    is_short: bool


@dataclass(frozen=True, slots=True)
class Gantt:
    """
    The geometry of the drawing, and what it says in words.

    Args:
        bars: Of all lanes.
        told: For whoever does not see it.
    """

    height: int
    lanes: tuple[Lane, ...]
    bars: tuple[Bar, ...]
    ticks: tuple[Tick, ...]
    brackets: tuple[Bracket, ...]
    pauses: tuple[DrawnWait, ...]
    told: str


def draw_gantt(
    stretches: Sequence[StepAttempt],
    *,
    due_at: datetime,
    started_at: datetime,
    now: datetime,
) -> Gantt:
    """
    Return how the steps of an operation are drawn.

    Args:
        stretches: Each attempt at each step, and what has not begun.
        due_at: Its occurrence, aware, as are all instants.
        started_at: When it was first started.
        now: Where what still runs ends.
    """
    begun = [each for each in stretches if each.began_at is not None]
    due_at = min(due_at, started_at)
    scale = _make_scale(begun, due_at, started_at, now)
    brackets = tuple(_draw_brackets(scale, begun, now))
    pauses = tuple(_draw_pauses(scale, begun, started_at))
    top = _TOP if brackets or pauses else _TOP_WITHOUT
    lanes = [Lane(top + 14, "until it started", "", "")]
    bars = [_draw_wait(scale, top, due_at, started_at)]
    places = {}
    for number, last in enumerate({e.lane: e for e in stretches}.values(), start=1):
        places[last.lane] = y = top + number * _ROW
        note = "" if last.began_at else _NOTES.get(last.state, "")
        lanes.append(Lane(y + 14, last.lane, last.state, note))
    bars += [_draw_stretch(scale, each, places[each.lane], now) for each in begun]
    return Gantt(
        height=top + len(lanes) * _ROW + 24,
        lanes=tuple(lanes),
        bars=tuple(bars),
        ticks=tuple(_draw_ticks(scale)),
        brackets=brackets,
        pauses=pauses,
        told=_tell(begun, due_at, started_at, now),
    )


_NOTES = {"skipped": "not begun", "pending": "to come", "failed": "not begun"}

_KINDS = {"succeeded": "ok", "failed": "bad", "running": "now"}


@dataclass(frozen=True, slots=True)
class _Span:
    """A part of the time: busy with a run, or a wait, of which *length* is drawn."""

    since: datetime
    end: datetime
    is_busy: bool
    length: float


class _Scale:
    """Where an instant is drawn."""

    def __init__(self, spans: Sequence[_Span]) -> None:
        self.spans = spans
        total = sum(span.length for span in spans) or 1.0
        self._unit = (_RIGHT - _LEFT) / total

    def place(self, at: datetime) -> float:
        x = _LEFT
        for span in self.spans:
            took = (span.end - span.since).total_seconds()
            if at < span.end and took > 0:
                part = max(0.0, (at - span.since).total_seconds() / took)
                return round(x + part * span.length * self._unit, 1)
            x += span.length * self._unit
        return round(x, 1)


def _make_scale(
    begun: Sequence[StepAttempt], due_at: datetime, started_at: datetime, now: datetime
) -> _Scale:
    busy: list[list[datetime]] = []
    for each in sorted(begun, key=lambda one: one.began_at or due_at):
        begin = each.began_at or due_at
        end = max(begin, each.ended_at or now)
        if busy and begin <= busy[-1][1] + timedelta(seconds=1):
            busy[-1][1] = max(busy[-1][1], end)
        else:
            busy.append([begin, end])
    ran = sum((end - begin).total_seconds() for begin, end in busy) or 1.0
    most = max(ran * _LONGEST_WAIT, 0.5)
    spans: list[_Span] = []
    former = due_at

    def wait(until: datetime) -> None:
        length = min((until - former).total_seconds(), most)
        spans.append(_Span(former, until, is_busy=False, length=length))

    if busy and due_at < started_at < busy[0][0]:
        wait(started_at)
        former = started_at
    for begin, end in busy or [[started_at, started_at]]:
        if begin > former:
            wait(begin)
        # Each run is seen, however short it is beside the others.
        length = max((end - begin).total_seconds(), ran * 0.02)
        spans.append(_Span(begin, end, is_busy=True, length=length))
        former = end
    return _Scale(spans)


def _draw_wait(scale: _Scale, y: int, due_at: datetime, started_at: datetime) -> Bar:
    x, end = scale.place(due_at), scale.place(started_at)
    label = f"{_tell_length(started_at - due_at)} after due"
    return Bar(x, y, round(max(4.0, end - x), 1), "wait", "", label)


def _draw_stretch(scale: _Scale, each: StepAttempt, y: int, now: datetime) -> Bar:
    begin = each.began_at or now
    end = each.ended_at or now
    x = scale.place(begin)
    width = round(max(4.0, scale.place(max(begin, end)) - x), 1)
    label = _tell_length(end - begin)
    return Bar(x, y, width, _KINDS.get(each.state, "wait"), each.state, label)


def _tell_length(length: timedelta) -> str:
    seconds = length.total_seconds()
    return f"{max(0.0, seconds):.1f} s" if seconds < 10 else format_age(length)


def _draw_ticks(scale: _Scale) -> Iterator[Tick]:
    """Yield instants on whole minutes or so, in what is drawn in proportion."""
    busy = [span for span in scale.spans if span.is_busy]
    if not busy:
        return
    length = sum((span.end - span.since).total_seconds() for span in busy)
    step = next((each for each in _STEPS if length / each <= _TICKS), _STEPS[-1])
    last = -100.0
    for span in busy:
        first = span.since.astimezone(UTC).timestamp()
        tick = -(-first // step) * step
        while tick <= span.end.timestamp():
            at = datetime.fromtimestamp(tick, UTC)
            x = scale.place(at)
            if x - last >= 64:
                yield Tick(x, at)
                last = x
            tick += step


def _draw_brackets(
    scale: _Scale, begun: Sequence[StepAttempt], now: datetime
) -> Iterator[Bracket]:
    numbers = list(dict.fromkeys(each.attempt for each in begun))
    if len(numbers) < 2:
        return
    for number in numbers:
        of = [each for each in begun if each.attempt == number]
        x = min(scale.place(each.began_at or now) for each in of)
        end = max(scale.place(each.ended_at or now) for each in of)
        yield Bracket(x, round(max(4.0, end - x), 1), number)


def _draw_pauses(
    scale: _Scale, begun: Sequence[StepAttempt], started_at: datetime
) -> Iterator[DrawnWait]:
    first = min(begun, key=lambda each: str(each.began_at), default=None)
    for span in scale.spans:
        if span.is_busy or span.end <= started_at:
            continue
        x, took = scale.place(span.since), span.end - span.since
        width = scale.place(span.end) - x
        if width < 40:
            continue
        is_short = span.length < took.total_seconds()
        label = f"waits {format_age(took)}"
        if first is not None and first.began_at == span.end:
            label = f"{format_age(took)} of attempts that are not known"
        yield DrawnWait(x, round(width, 1), label, is_short)


def _tell(
    begun: Sequence[StepAttempt], due_at: datetime, started_at: datetime, now: datetime
) -> str:
    parts = [f"Started {_tell_length(started_at - due_at)} after due."]
    for each in begun:
        took = _tell_length((each.ended_at or now) - (each.began_at or now))
        parts.append(f"{each.step}, attempt {each.attempt}: {each.state}, {took}.")
    return " ".join(parts[:24])
