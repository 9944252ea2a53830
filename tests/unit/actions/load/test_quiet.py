"""When the database may be away, and what it costs at any other time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from actions.load.counting import Counting, RuleGroup
from actions.load.forecast import Away, Outage, Outlook, QuietWindow, read_away
from actions.occurrences import find_due, parse_timing
from models.errors import UsageError
from models.timing import make_timing, timing_text
from tests.unit.actions.rules import make_action

#: The hour that the clocks of Paris repeat is within what follows.
NIGHT = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def make_outlook(*groups: RuleGroup, minutes: int) -> Outlook:
    counting = Counting(NIGHT, NIGHT + minutes * MINUTE)
    for group in groups:
        assert counting.add([group], lambda: False)
    return Outlook(counting.list_minutes(), counting.since, counting.until)


def make_group(when: object, *uids: str, **fields: object) -> RuleGroup:
    action = make_action(when, **fields)
    timing = make_timing(action, holidays={}, created_at=NIGHT)
    assert timing is not None
    spread = uids if "jitter" in fields else ()
    return RuleGroup("app", "quick", timing_text(timing), len(uids), spread)


def at(minute: int) -> datetime:
    return NIGHT + minute * MINUTE


def make_any(random: Random) -> RuleGroup:
    """Return a few actions with a rule that is due from twice an hour to hardly."""
    step = random.choice([7, 11, 20, 30, 45])
    zone = random.choice(["UTC", "Europe/Paris"])
    minute, second = random.randrange(60), random.randrange(60)
    when = random.choice(
        [
            {"cron_rule": f"{minute} * * * *", "timezone": zone},
            {"cron_rule": f"*/{step} {random.randrange(4)} * * *", "timezone": zone},
            {"cron_rule": f"{minute} 1-3 * * *", "timezone": zone},
            {"every": f"PT{step}M"},
            {"calendar": f"*-*-* *:{minute:02}:{second:02}"},
        ]
    )
    uids = [f"u{random.randrange(999)}" for _ in range(random.randint(1, 3))]
    fields = {"jitter": "PT9M"} if random.random() < 0.3 else {}
    return make_group(when, *uids, **fields)


def find_all_due(groups: Sequence[RuleGroup], until: datetime) -> list[datetime]:
    """Return when each action is due, as ticks find them one by one."""
    found = []
    for group in groups:
        for uid in group.uids or ["whoever"] * group.count:
            schedule = parse_timing(group.timing)
            due = find_due(schedule, uid, start=NIGHT, now=until - SECOND)
            found += [each.due_at for each in due]
    return found


def scan(due: Sequence[datetime], begin: datetime, away: Away) -> tuple[int, int]:
    """Return how many are missed and late if it is away from *begin* on."""
    back = begin + away.length
    during = [each for each in due if begin <= each < back]
    # Ticks come a moment after the minute begins, so its whole minute counts.
    missed = [e for e in during if e.replace(second=0) <= back - away.lookback]
    return len(missed), len(during) - len(missed)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 10))]
)
def test_answers_are_those_of_a_scan_of_each_minute(seed: int):
    """A hundred sets of rules each, with jitter, seconds and a night of 25 hours."""
    random = Random(seed)
    for _ in range(100):
        groups = [make_any(random) for _ in range(random.randint(0, 5))]
        size = random.randint(40, 150)
        length = random.randint(1, 39)
        away = Away(length * MINUTE, random.choice([1, 5, 30]) * MINUTE)
        due = find_all_due(groups, at(size))
        outlook = make_outlook(*groups, minutes=size)

        costs = [scan(due, at(each), away) for each in range(size - length + 1)]

        quiet = [each for each, cost in enumerate(costs) if cost == (0, 0)]
        for each, (missed, late) in enumerate(costs):
            priced = outlook.price(Away(away.length, away.lookback, at(each)))
            assert priced == Outage(at(each), at(each + length), late, missed)
        windows = list(outlook.find_windows(away))
        assert quiet == [
            each
            for window in windows
            for each in range(size)
            if window.from_ <= at(each) <= window.until - away.length
        ]
        busy = {each.replace(second=0) for each in due}
        for window in windows:  # as long as they are
            assert window.from_ - MINUTE in busy | {NIGHT - MINUTE}
            assert window.until in busy | {at(size)}
        cheapest = outlook.find_cheapest(away)
        assert min(costs) == (cheapest.missed, cheapest.late)
        assert at(costs.index(min(costs))) == cheapest.from_


def test_what_the_lookback_reaches_is_late_and_the_rest_missed():
    """Of what is due each minute, a tick after ten minutes finds five."""
    outlook = make_outlook(make_group({"cron_rule": "* * * * *"}, "a"), minutes=30)

    priced = outlook.price(Away(10 * MINUTE, at=at(3) + 30 * SECOND))

    assert Outage(at(3), at(13), late=4, missed=6) == priced
    assert Outage(at(0), at(4), late=4, missed=0) == outlook.price(Away(4 * MINUTE))


def test_a_part_of_a_minute_is_a_minute():
    """The database is not back before its end."""
    outlook = make_outlook(make_group({"cron_rule": "2 * * * *"}, "a"), minutes=40)

    windows = list(outlook.find_windows(Away(7 * MINUTE + SECOND)))

    assert [QuietWindow(at(0), at(32))] == windows


@pytest.mark.parametrize("length", [timedelta(), 41 * MINUTE])
def test_a_length_that_does_not_fit_is_refused(length: timedelta):
    """With what would."""
    with pytest.raises(UsageError, match="from PT1M to that of the period, 40 min"):
        list(make_outlook(minutes=40).find_windows(Away(length)))


@pytest.mark.parametrize("minute", [-1, 21])
def test_a_time_outside_of_the_period_is_refused(minute: int):
    """Nobody counted what is due then."""
    with pytest.raises(UsageError, match="are not within"):
        make_outlook(minutes=40).price(Away(20 * MINUTE, at=at(minute)))


@pytest.mark.parametrize(
    ("quiet", "moment", "told"),
    [("20m", None, "PT20M"), ("P1M", None, "months"), (None, NIGHT, "needs --quiet")],
)
def test_a_question_that_cannot_be_read_is_refused(
    quiet: str | None, moment: datetime | None, told: str
):
    """With what to write instead."""
    with pytest.raises(UsageError, match=told):
        read_away(quiet, moment, MINUTE)
