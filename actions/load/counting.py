"""Count the occurrences of actions by minute, those of a rule together. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from actions.load.days import Days
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
        spreads: By minutes of room, how many are due how many minutes after it.
    """

    app: str
    queue: str
    timing: str
    count: int
    uids: Sequence[str] = ()
    spreads: dict[int, Counter[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Counted:
    """
    Groups that are due in the same minutes.

    Args:
        minutes: Those in which any of them is due, as bits: thousands of rules, each
            with thousands of minutes, would fill the memory otherwise.
        repeats: By minute, how often each action is due in it, unless once.
    """

    groups: Sequence[Group]
    minutes: int
    repeats: Mapping[int, int]


class Counting:
    """
    Counts occurrences by minute, and remembers which groups make them.

    Args:
        by_queue: Of each queue how many; minutes go by their number from the first one.
    """

    def __init__(self, since: datetime, until: datetime, *, named: int) -> None:
        """Count from *since*, a whole minute, to before *until*; name *named* uids."""
        self._since, self._until, self._named = since, until, named
        self._days = Days(since, until)
        self._count = -((since - until) // _MINUTE)
        self._by_minute: dict[str, list[int]] = {}
        self._counted: list[_Counted] = []
        self._late: dict[tuple[str, int], list[tuple[int, int]]] = {}
        self.by_queue: Counter[str] = Counter()
        self.by_app: Counter[str] = Counter()

    def add(self, groups: Sequence[Group], is_over: Callable[[], bool]) -> bool:
        """
        Count groups that have the same rule.

        Returns:
            False, and nothing is counted, if there is no time left.

        Raises:
            RuleError: The rule cannot be read.
        """
        timing = groups[0].timing
        plain = self._days.find_minutes(timing)
        if plain is not None:
            self._add_same(groups, plain, {})
            return True
        schedule = parse_timing(timing)
        found = self._find(schedule, self._since - schedule.jitter, is_over)
        if found is None:
            return False
        if schedule.jitter:
            self._add_spread(groups, schedule, found)
            return True
        each = Counter(map(self.number, found))
        repeats = {minute: count for minute, count in each.items() if count > 1}
        self._add_same(groups, list(each), repeats)
        return True

    def iterate_minutes(self) -> Iterator[tuple[int, dict[str, int]]]:
        """Yield each minute that has occurrences, in order, and how many by queue."""
        queues = sorted(self._by_minute)
        columns = [self._by_minute[queue] for queue in queues]
        for minute, counts in enumerate(zip(*columns, strict=True)):
            if any(counts):
                found = zip(queues, counts, strict=True)
                yield minute, {queue: count for queue, count in found if count}

    def _add_same(
        self,
        groups: Sequence[Group],
        minutes: Sequence[int],
        repeats: Mapping[int, int],
    ) -> None:
        """Count actions that are all due in the same minutes."""
        each_has = len(minutes) + sum(repeats.values()) - len(repeats)
        if not each_has:
            return
        in_queue: Counter[str] = Counter()
        for group in groups:
            in_queue[group.queue] += group.count
            self.by_app[group.app] += group.count * each_has
        for queue, count in in_queue.items():
            self.by_queue[queue] += count * each_has
            of_minutes = self._get_minutes(queue)
            for minute in minutes:
                of_minutes[minute] += count
            for minute, times in repeats.items():
                of_minutes[minute] += count * (times - 1)
        self._counted.append(_Counted(groups, _as_bits(minutes), repeats))

    def _add_spread(
        self, groups: Sequence[Group], schedule: Schedule, found: Sequence[datetime]
    ) -> None:
        """Count actions of which jitter gives each its own minute."""
        firsts = [(self.number(each), schedule.find_room(each)) for each in found]
        for group in groups:
            counts: Counter[int] = Counter()
            for first, room in firsts:
                for minutes, count in _spread(group, room).items():
                    if 0 <= first + minutes < self._count:
                        counts[first + minutes] += count
            total = sum(counts.values())
            if total:
                self.by_queue[group.queue] += total
                self.by_app[group.app] += total
                of_minutes = self._get_minutes(group.queue)
                for minute, count in counts.items():
                    of_minutes[minute] += count
                self._counted.append(_Counted([group], _as_bits(list(counts)), {}))

    def _get_minutes(self, queue: str) -> list[int]:
        found = self._by_minute.get(queue)
        if found is None:
            found = self._by_minute[queue] = [0] * self._count
        return found

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

    def number(self, instant: datetime) -> int:
        """Return the number of the minute of *instant*, aware; the first is 0."""
        return (instant - self._since) // _MINUTE

    def find_shares(self, numbers: Collection[int]) -> dict[int, list[Share]]:
        """Return who has a share of the occurrences of each of some minutes."""
        asked = _as_bits(list(numbers))
        near = [each for each in self._counted if each.minutes & asked]
        return {
            number: [
                self._share(group, each, number)
                for each in near
                if each.minutes >> number & 1
                for group in each.groups
            ]
            for number in numbers
        }

    def _share(self, group: Group, counted: _Counted, number: int) -> Share:
        if not group.uids:
            return Share(group, group.count * counted.repeats.get(number, 1))
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
                (number - self.number(each), schedule.find_room(each))
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


def _as_bits(numbers: Sequence[int]) -> int:
    bits = bytearray(max(numbers, default=0) // 8 + 1)
    for number in numbers:
        bits[number // 8] |= 1 << number % 8
    return int.from_bytes(bits, "little")
