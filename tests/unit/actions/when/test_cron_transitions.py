"""Where clocks change a cron rule is due when Debian's daemon would run it (sample)."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from actions.when.local_time import get_stretch
from models.fields.zone import load_zone
from tests.time.comparison import FIRST_INSTANT, compare, find_all_transitions
from tests.time.oracles import (
    Transition,
    get_distinct_zones,
    read_listed_transitions,
    run_daemon,
)

#: All sorts of changes: an hour at 1, 2 and 3 o'clock, at midnight and before it,
#: half an hour, twenty minutes, two hours, three and seven, a whole day, seconds.
EVERY_SORT = [
    "Europe/Paris",
    "Africa/Cairo",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Antarctica/Troll",
    "Antarctica/Casey",
    "Antarctica/Vostok",
    "Pacific/Apia",
    "Pacific/Enderbury",
    "Africa/Monrovia",
    "America/Caracas",
    "Asia/Pyongyang",
    "Europe/Dublin",
]

_OTHERS = [name for name in get_distinct_zones() if name not in EVERY_SORT]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EVERY_SORT, *random.Random(1).sample(_OTHERS, 10)])
def test_sample_of_transitions(name: str):
    """Three changes of each zone, all rule shapes; `make test-time` takes every one."""
    transitions = find_all_transitions(name)
    picked = random.Random(name).sample(transitions, min(3, len(transitions)))

    differences = [each for change in picked for each in compare(name, change)]

    assert [] == differences


@pytest.mark.parametrize(
    ("rule", "start", "ran"),
    [
        ("30 2 * * *", "2026-03-28T23:00", ["01:00"]),
        ("30 2,3 * * *", "2026-03-28T23:00", ["01:00", "01:30"]),
        ("*/30 2 * * *", "2026-03-28T23:00", []),
        ("30 2 * * *", "2026-10-24T23:00", ["00:30"]),
        ("*/30 2 * * *", "2026-10-24T23:00", ["00:00", "00:30", "01:00", "01:30"]),
        ("30 */2 * * *", "2026-10-24T23:00", ["00:30", "01:30", "03:30"]),
    ],
)
def test_daemon_of_the_oracle_does_as_its_manual_says(
    rule: str, start: str, ran: list[str]
):
    """
    In Paris it makes up for fixed times, repeats none, and lets stars follow the clock.
    """
    changes = find_all_transitions("Europe/Paris")
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    end = begin + timedelta(hours=5)

    found = run_daemon(rule, changes, begin, end)

    assert ran == [f"{instant:%H:%M}" for instant in found]


def test_stretches_are_what_the_database_lists():
    """The clock changes found by looking each day are those of the zone's file."""
    zone = load_zone("Europe/Paris")
    listed = [
        change
        for change in read_listed_transitions("Europe/Paris")
        if FIRST_INSTANT < change.at
    ]
    stretches = [get_stretch(zone, change.at) for change in listed]

    assert len(listed) > 40
    assert listed == [
        Transition(
            stretch.starts_at,
            stretch.offset - (stretch.first - stretch.left),
            stretch.offset,
        )
        for stretch in stretches
    ]
