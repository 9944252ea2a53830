"""Count the occurrences of actions by minute, those of a rule together. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from actions.occurrences import Schedule, parse_timing, share_minutes
from actions.when.searching import find_each

_MINUTE = timedelta(minutes=1)

#: Occurrences between two looks at the clock.
_LOOK_EVERY = 500


@dataclass(frozen=True, slots=True)
class LoadedMinute:
    """The occurrences of one minute, in all and by the queue they are sent to."""

    at: datetime
    total: int
    by_queue: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NamedAction:
    """An action, as people know it."""

    uid: str
    app: str
    name: str


@dataclass(slots=True, eq=False)
class RuleGroup:
    """
    Actions of one small app and queue with the same rule.

    Args:
        count: How many they are.
        uids: All of them, if jitter gives each its own minute.
    """

    app: str
    queue: str
    timing: str
    count: int
    uids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Share:
    """How many a group has in a minute; *uids* are some of them if jitter chose."""

    group: RuleGroup
    count: int
    uids: tuple[str, ...] = ()


class Counting:
    """
    Counts occurrences by minute, and remembers which groups make them.

    Args:
        by_queue: Of each queue how many; minutes go by their number from the first one.
    """

    def __init__(self, since: datetime, until: datetime, *, named: int = 0) -> None:
        """Count from *since*, a whole minute, to before *until*; name *named* uids."""
        self.since, self.until, self._named = since, until, named
        size = -((since - until) // _MINUTE)
        self._by_minute: dict[str, list[int]] = defaultdict(lambda: [0] * size)
        #: Groups, and the minutes in which they are due, as bits: thousands of rules,
        #: each with thousands of minutes, would fill the memory otherwise.
        self._counted: list[tuple[Sequence[RuleGroup], int]] = []
        self._late: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.by_queue: Counter[str] = Counter()
        self.by_app: Counter[str] = Counter()

    def add(self, groups: Sequence[RuleGroup], is_over: Callable[[], bool]) -> bool:
        """
        Count groups that have the same rule.

        Returns:
            False, and nothing is counted, if there is no time left.

        Raises:
            RuleError: The rule cannot be read.
        """
        schedule = parse_timing(groups[0].timing)
        found = self._find(schedule, is_over)
        if found is None:
            return False
        if not schedule.jitter:
            self._add(groups, Counter(map(self.number, found)), of_each=True)
            return True
        firsts = [(self.number(each), schedule.find_room(each)) for each in found]
        size = self.number(self.until - timedelta.resolution)
        for group in groups:
            counts: Counter[int] = Counter()
            late_by = {
                room: Counter(share_minutes(room, uid) for uid in group.uids)
                for room in {room for _first, room in firsts}
            }
            for first, room in firsts:
                for late, count in late_by[room].items():
                    if 0 <= first + late <= size:
                        counts[first + late] += count
            self._add([group], counts, of_each=False)
        return True

    def _find(
        self, schedule: Schedule, is_over: Callable[[], bool]
    ) -> Sequence[datetime] | None:
        """Return what is due in the period, or may be late enough to be."""
        found = []
        for each in find_each(schedule, self.since - schedule.jitter, self.until):
            found.append(each)
            if not len(found) % _LOOK_EVERY and is_over():
                return None
        return found

    def _add(
        self, groups: Sequence[RuleGroup], minutes: Counter[int], *, of_each: bool
    ) -> None:
        """Count *minutes*, which are those of each action, or of all of a group."""
        total = minutes.total()
        if not total:
            return
        in_queue: Counter[str] = Counter()
        for group in groups:
            times = group.count if of_each else 1
            in_queue[group.queue] += times
            self.by_app[group.app] += times * total
        for queue, times in in_queue.items():
            self.by_queue[queue] += times * total
            of_queue = self._by_minute[queue]
            for minute, count in minutes.items():
                of_queue[minute] += times * count
        self._counted.append((groups, _as_bits(minutes)))

    def number(self, instant: datetime) -> int:
        """Return the number of the minute of *instant*, aware; the first is 0."""
        return (instant - self.since) // _MINUTE

    def list_minutes(self) -> list[LoadedMinute]:
        """Return each minute that has occurrences, in order."""
        queues = sorted(self._by_minute)
        columns = [self._by_minute[queue] for queue in queues]
        return [
            LoadedMinute(
                self.since + number * _MINUTE,
                sum(counts),
                {queue: n for queue, n in zip(queues, counts, strict=True) if n},
            )
            for number, counts in enumerate(zip(*columns, strict=True))
            if any(counts)
        ]

    def find_shares(self, numbers: Collection[int]) -> dict[int, list[Share]]:
        """Return who has a share of the occurrences of each of some minutes."""
        asked = _as_bits(numbers)
        near = [each for each in self._counted if each[1] & asked]
        return {
            number: [
                self._share(group, number)
                for groups, minutes in near
                if minutes >> number & 1
                for group in groups
            ]
            for number in numbers
        }

    def _share(self, group: RuleGroup, number: int) -> Share:
        late = self._find_late(group.timing, number)
        if not group.uids:
            return Share(group, group.count * len(late))
        uids = sorted(
            uid
            for minutes, room in late
            for uid in group.uids
            if share_minutes(room, uid) == minutes
        )
        return Share(group, len(uids), tuple(uids[: self._named]))

    def _find_late(self, timing: str, number: int) -> list[tuple[int, int]]:
        """Return how late, and with how much room, occurrences come in a minute."""
        found = self._late.get((timing, number))
        if found is None:
            schedule = parse_timing(timing)
            at = self.since + number * _MINUTE
            found = self._late[timing, number] = [
                (number - self.number(each), schedule.find_room(each))
                for each in find_each(schedule, at - schedule.jitter, at + _MINUTE)
            ]
        return found


def _as_bits(numbers: Iterable[int]) -> int:
    listed = list(numbers)
    bits = bytearray(max(listed, default=0) // 8 + 1)
    for number in listed:
        bits[number // 8] |= 1 << number % 8
    return int.from_bytes(bits, "little")
