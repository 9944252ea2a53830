"""
Small pictures: numbers and SVG paths, without a style. Pure.

Templates draw them: colours and dashes are classes of the style sheet. Each state has a
shape of its own, so that none is told by its colour alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from models.operation_state import LIVE_STATES, OperationState

WIDTH, HEIGHT = 96, 20

#: Of what waits in a queue.
DEPTH = (150, 32)

#: Room for the line and the dot at its end.
_MARGIN = 3.0


@dataclass(frozen=True, slots=True)
class Spark:
    """
    A line of values over time.

    Args:
        path: Of the line; one point if there is one value.
        x: Of the last value.
        y: The same.
        least: The least value.
        most: The largest one.
    """

    path: str
    x: float
    y: float
    least: float
    most: float


def draw_spark(
    values: Sequence[float],
    size: tuple[int, int] = (WIDTH, HEIGHT),
    *,
    places: Sequence[float] = (),
) -> Spark | None:
    """
    Return the line of *values*, the latest last; None: of none.

    Args:
        places: Where each is, between the left (0) and the right (1). Empty: they are
            evenly spaced, the latest at the right.

    >>> draw_spark([0, 2, 1], DEPTH).path
    'M3 29L75 3L147 16'
    >>> draw_spark([0, 2, 1], DEPTH, places=[0.5, 0.75, 0.875]).path
    'M75 29L111 3L129 16'
    """
    if not values:
        return None
    most = max(values)
    last = max(len(values) - 1, 1)
    places = places or [number / last for number in range(len(values))]
    width, height = (each - 2 * _MARGIN for each in size)
    placed = [
        (
            round(_MARGIN + place * width, 1),
            round(_MARGIN + height - value / (most or 1.0) * height, 1),
        )
        for place, value in zip(places, values, strict=True)
    ]
    path = "M" + "L".join(f"{x:g} {y:g}" for x, y in placed)
    return Spark(path, *placed[-1], min(values), most)


#: Units for each run, and how many have room.
STEP = 8
ROOM = 20


class Look(NamedTuple):
    """
    What a state, or a mark, looks like in charts.

    Args:
        classes: In a strip.
        width: Of its stroke there; 0: as the style says.
        form: Its path there, around the middle of the run.
        lane: Its class in a lane of the timeline; marks are not in lanes.
        place: Its upper edge and its height there.
    """

    classes: str
    width: float
    form: str
    lane: str = ""
    place: tuple[int, int] = (0, 0)


_UPPER, _MIDDLE, _LOWER = (3, 9), (9, 8), (14, 9)

#: What each state looks like, in the order in which they are told and drawn.
LOOKS = {
    "succeeded": Look("k-ok", 0, "M{0} 1v9", "f-ok", _UPPER),
    "failed": Look("k-bad", 0, "M{0} 12v9", "f-bad", _LOWER),
    "missed": Look("k-lost none", 0, "M{1} 12.5h4v8h-4zM{1} 18l4-4", "k-lost", _LOWER),
    "skipped": Look("k-calm none", 2, "M{2} 11h5", "k-calm none", _MIDDLE),
    "canceled": Look("k-calm none", 1.5, "M{2} 14l5-6", "k-calm none", _MIDDLE),
    "uncertain": Look("f-warn", 0, "M{0} 5l3.5 6-3.5 6-3.5-6z"),
    "retrying": Look("f-warn", 0, "M{0} 12l3 4-3 4-3-4z"),
    "running": Look("k-now none", 1.5, "M{1} 10V1.5h4V10", "f-now", _UPPER),
    "queued": Look("k-calm none", 0, "M{1} 6.5h4v3h-4z", "k-calm none", _UPPER),
    "pending": Look("k-calm none", 0, "M{1} 6.5h4v3h-4z", "k-calm none", _UPPER),
}


class Outcome(StrEnum):
    """What became of an hour or a day: the worst, in the words of the legend."""

    SUCCEEDED = "succeeded"
    MIXED = "mixed"  # some succeeded, others failed or were missed
    FAILED = "failed"  # and none succeeded
    MISSED = "missed"  # and none succeeded or failed
    LEFT_OUT = "skipped or canceled"
    LIVE = "not over"  # and nothing went wrong so far
    PLANNED = "planned"  # nothing is decided yet
    NONE = "no run"


def judge(counts: Mapping[str, int] | Mapping[OperationState, int]) -> Outcome:
    """
    Return what became of so many operations in each state.

    >>> judge({"succeeded": 3, "missed": 1}).value
    'mixed'
    """
    has = {OperationState(state) for state, count in counts.items() if count}
    bad = has & {OperationState.FAILED, OperationState.MISSED}
    if bad and OperationState.SUCCEEDED in has:
        return Outcome.MIXED
    if bad:
        return Outcome.FAILED if OperationState.FAILED in bad else Outcome.MISSED
    if has & LIVE_STATES:
        return Outcome.LIVE
    if OperationState.SUCCEEDED in has:
        return Outcome.SUCCEEDED
    return Outcome.LEFT_OUT if has else Outcome.NONE


@dataclass(frozen=True, slots=True)
class Shape:
    """Everything of a strip that is drawn alike; *width* 0: as the style says."""

    classes: str
    width: float
    path: str


@dataclass(frozen=True, slots=True)
class Strip:
    """
    A strip.

    Args:
        label: What it shows, in words.
    """

    width: int
    shapes: tuple[Shape, ...]
    label: str


def draw_strip(states: Sequence[str]) -> Strip:
    """
    Return the strip of some runs, which ends at the right.

    Args:
        states: In the order of time; the last ROOM of them are drawn.

    >>> strip = draw_strip(["succeeded", "failed"])
    >>> strip.label
    '1 succeeded, 1 failed; the latest failed'
    >>> [shape.path for shape in strip.shapes]
    ['M147.5 1v9', 'M155.5 12v9']
    """
    shown = list(states)[-ROOM:]
    paths: dict[str, str] = {}
    for number, state in enumerate(shown, ROOM - len(shown)):
        middle = number * STEP + STEP / 2 - 0.5
        given = (f"{middle - each:g}" for each in (0, 2, 2.5))
        paths[state] = paths.get(state, "") + LOOKS[state].form.format(*given)
    shapes = tuple(
        Shape(look.classes, look.width, paths[state])
        for state, look in LOOKS.items()
        if state in paths
    )
    return Strip(ROOM * STEP, shapes, tell_states(shown))


def tell_states(states: Sequence[str]) -> str:
    """Return how many there are of each state, and which is the latest."""
    if not states:
        return "no run yet"
    counts = Counter(states)
    told = ", ".join(f"{counts[each]} {each}" for each in LOOKS if each in counts)
    return f"{told}; the latest {states[-1]}"


#: A strip of one run of each state, with the words of the legend.
LEGEND = (
    (draw_strip(["succeeded"]), "succeeded, above the line"),
    (draw_strip(["failed"]), "failed, below"),
    (draw_strip(["missed"]), "missed, hollow below"),
    (draw_strip(["skipped"]), "skipped, a dash"),
    (draw_strip(["canceled"]), "canceled, a slash"),
    (draw_strip(["uncertain"]), "uncertain, a diamond"),
    (draw_strip(["running"]), "running, open"),
    (draw_strip(["queued"]), "waiting, a bar"),
)
