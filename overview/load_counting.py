"""Count the occurrences of actions by minute, those of a rule together. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from actions.occurrences import Schedule, parse_timing, share_minutes
from actions.when.searching import find_each

_MINUTE = timedelta(minutes=1)
_SECOND = timedelta(seconds=1)


@dataclass(slots=True, eq=False)
class Group:
    """
    Actions of one small app and queue with the same rule.

    Args:
        count: How many they are.

        uids: All of them, if jitter gives each its own minute.

        minutes: Those in which any of them is due, as bits: thousands of groups, each
            with thousands of minutes, would fill the memory otherwise.

        repeats: By minute, how often each of them is due in it, unless once.

        spreads: By minutes of room, how many are due how many minutes after it.
    """

    app: str
    queue: str
    timing: str
    count: int
    uids: Sequence[str] = ()
    minutes: int = 0
    repeats: Mapping[int, int] = field(default_factory=dict)
    spreads: dict[int, Counter[int]] = field(default_factory=dict)


class Counting:
    """
    Counts occurrences by minute, and remembers which groups make them.

    ``by_minute`` has them by queue, with minutes as their number from the first one.
    """

    def __init__(self, since: datetime, until: datetime, *, named: int) -> None:
        """Count from *since*, a whole minute, to before *until*; name *named* uids."""
        self._since, self._until, self._named = since, until, named
        self.by_minute: dict[int, Counter[str]] = defaultdict(Counter)
        # of the rule that was asked last: its minutes, and those of jitter with room
        self._latest: tuple[str, Counter[int]] | None = None
        self._latest_spread: tuple[str, list[tuple[int, int]]] | None = None
        self._late: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.by_queue: Counter[str] = Counter()
        self.by_app: Counter[str] = Counter()
        self.groups: list[Group] = []

    def add(
        self, group: Group, schedule: Schedule, is_over: Callable[[], bool]
    ) -> bool:
        """Count a group; return False, and count nothing, if there is no time left."""
        counts = (
            self._count_spread(group, schedule, is_over)
            if schedule.jitter
            else self._count_same(group, schedule, is_over)
        )
        if counts is None:
            return False
        total = sum(counts.values())
        self.by_queue[group.queue] += total
        self.by_app[group.app] += total
        for minute, count in counts.items():
            self.by_minute[minute][group.queue] += count
        group.minutes = _as_bits(counts)
        self.groups.append(group)
        return True

    def _count_same(
        self, group: Group, schedule: Schedule, is_over: Callable[[], bool]
    ) -> Mapping[int, int] | None:
        """Count actions that are due at the very same instants."""
        if self._latest is None or self._latest[0] != group.timing:
            found = self._find(schedule, self._since, is_over)
            if found is None:
                return None
            self._latest = group.timing, Counter(map(self._number, found))
        _timing, each = self._latest
        group.repeats = {minute: n for minute, n in each.items() if n > 1}
        return {minute: n * group.count for minute, n in each.items()}

    def _count_spread(
        self, group: Group, schedule: Schedule, is_over: Callable[[], bool]
    ) -> Mapping[int, int] | None:
        """Count actions of which jitter gives each its own minute."""
        if self._latest_spread is None or self._latest_spread[0] != group.timing:
            found = self._find(schedule, self._since - schedule.jitter, is_over)
            if found is None:
                return None
            rooms = [(self._number(each), schedule.find_room(each)) for each in found]
            self._latest_spread = group.timing, rooms
        _timing, firsts = self._latest_spread
        counts: Counter[int] = Counter()
        last = self._number(self._until - _SECOND)
        for first, room in firsts:
            for minutes, count in _spread(group, room).items():
                if 0 <= first + minutes <= last:
                    counts[first + minutes] += count
        return counts

    def _find(
        self, schedule: Schedule, since: datetime, is_over: Callable[[], bool]
    ) -> Sequence[datetime] | None:
        found = []
        occurrence = schedule.next_from(since)
        while occurrence is not None and occurrence < self._until:
            found.append(occurrence)
            if not len(found) % _LOOK_EVERY and is_over():
                return None
            occurrence = schedule.next_from(occurrence + _SECOND)
        return found

    def _number(self, instant: datetime) -> int:
        return (instant - self._since) // _MINUTE

    def find_shares(self, number: int) -> list[Share]:
        """Return who has a share of the occurrences of minute *number*."""
        return [
            self._share(group, number)
            for group in self.groups
            if group.minutes >> number & 1
        ]

    def _share(self, group: Group, number: int) -> Share:
        if not group.uids:
            return Share(group, group.count * group.repeats.get(number, 1))
        count, uids = 0, []
        for late, room in self._find_late(group.timing, number):
            count += _spread(group, room)[late]
            uids += [uid for uid in group.uids if share_minutes(room, uid) == late]
        return Share(group, count, tuple(sorted(uids)[: self._named]))

    def _find_late(self, timing: str, number: int) -> list[tuple[int, int]]:
        """Return how late, and with how much room, occurrences come in a minute."""
        found = self._late.get((timing, number))
        if found is None:
            schedule = parse_timing(timing)
            at = self._since + number * _MINUTE
            found = [
                (number - self._number(each), schedule.find_room(each))
                for each in find_each(schedule, at - schedule.jitter, at + _MINUTE)
            ]
            self._late[timing, number] = found
        return found


@dataclass(frozen=True, slots=True)
class Share:
    """How many a group has in a minute; *uids* are some of them if jitter chose."""

    group: Group
    count: int
    uids: tuple[str, ...] = ()


def _spread(group: Group, room: int) -> Counter[int]:
    """Return how many of a group are due how late, if jitter has *room* minutes."""
    spread = group.spreads.get(room)
    if spread is None:
        spread = Counter(share_minutes(room, uid) for uid in group.uids)
        group.spreads[room] = spread
    return spread


#: Occurrences between two looks at the clock.
_LOOK_EVERY = 500


def _as_bits(numbers: Mapping[int, int]) -> int:
    bits = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        bits[number // 8] |= 1 << number % 8
    return int.from_bytes(bits, "little")
