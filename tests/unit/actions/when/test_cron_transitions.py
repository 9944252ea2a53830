"""Where clocks change a cron rule is due when Debian's daemon would run it (sample)."""

from __future__ import annotations

import random

import pytest

from tests.time.comparison import compare, find_all_transitions

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


@pytest.mark.slow
@pytest.mark.parametrize("name", EVERY_SORT)
def test_sample_of_transitions(name: str):
    """Two changes of each zone, all rule shapes; `make test-time` takes every one."""
    transitions = find_all_transitions(name)
    picked = random.Random(name).sample(transitions, min(2, len(transitions)))

    differences = [each for change in picked for each in compare(name, change)]

    assert [] == differences
