"""How one text differs from another, line by line, in time that nobody can stretch."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

#: Lines that stay the same around one that differs.
_AROUND = 3

#: Lines that are shown.
MOST_SHOWN = 600

#: What is compared, old times new lines: a worst case of a tenth of a second. Larger
#: changes are shown as all of the old and all of the new.
_MOST_COMPARED = 1_000_000


class TextLine(NamedTuple):
    """A line: ``keep``, ``ins``, ``del``, or ``gap`` for those that are left out."""

    kind: str
    text: str


def compare_texts(before: Sequence[str], after: Sequence[str]) -> list[TextLine]:
    """
    Return how the lines *after* differ from those *before*; all of them if they do not.

    >>> compare_texts(["{", "a", "}"], ["{", "b", "}"])[1:3]
    [TextLine(kind='del', text='a'), TextLine(kind='ins', text='b')]
    """
    if before == after:
        return _cut([TextLine("keep", line) for line in after])
    begin = _count_same(before, after)
    most = min(len(before), len(after)) - begin
    end = _count_same(before[: -most - 1 : -1], after[: -most - 1 : -1]) if most else 0
    old, new = before[begin : len(before) - end], after[begin : len(after) - end]
    middle = (
        _compare(old, new)
        if len(old) * len(new) <= _MOST_COMPARED
        else _replace(old, new)
    )
    last = len(before) - end
    lines = [TextLine("keep", line) for line in before[max(begin - _AROUND, 0) : begin]]
    lines += middle
    lines += [TextLine("keep", line) for line in before[last : last + _AROUND]]
    return _cut(_leave_out(lines))


def _count_same(before: Sequence[str], after: Sequence[str]) -> int:
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _compare(old: Sequence[str], new: Sequence[str]) -> list[TextLine]:
    lines: list[TextLine] = []
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for tag, begin, end, other_begin, other_end in matcher.get_opcodes():
        if tag == "equal":
            lines += [TextLine("keep", line) for line in old[begin:end]]
        else:
            lines += _replace(old[begin:end], new[other_begin:other_end])
    return lines


def _replace(old: Sequence[str], new: Sequence[str]) -> list[TextLine]:
    return [TextLine("del", line) for line in old] + [
        TextLine("ins", line) for line in new
    ]


def _leave_out(lines: Sequence[TextLine]) -> list[TextLine]:
    """Return *lines* with a gap for those that are far from any that differs."""
    near: set[int] = set()
    for place, line in enumerate(lines):
        if line.kind != "keep":
            near.update(range(place - _AROUND, place + _AROUND + 1))
    left: list[TextLine] = []
    for place, line in enumerate(lines):
        if place in near:
            left.append(line)
        elif left and left[-1].kind != "gap":
            left.append(TextLine("gap", "…"))
    if left and left[-1].kind == "gap":
        left.pop()
    return left


def _cut(lines: list[TextLine]) -> list[TextLine]:
    more = len(lines) - MOST_SHOWN
    if more <= 0:
        return lines
    return [*lines[:MOST_SHOWN], TextLine("gap", f"… and {more:,} lines more")]
