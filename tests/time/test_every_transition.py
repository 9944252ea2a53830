"""Every clock change of every zone from 1970 to 2037."""

from __future__ import annotations

from datetime import timedelta

import pytest

from actions.when.cron import CronRule, get_cron_last_occurrence
from actions.when.local_time import get_stretch
from actions.when.searching import find_occurrences
from models.expressions.cron import CronExpression
from models.fields.zone import get_zone_names, load_zone
from tests.time.comparison import (
    FIRST_INSTANT,
    LAST_INSTANT,
    SHAPES,
    aim_at,
    compare,
    find_all_transitions,
    find_own_transitions,
)
from tests.time.oracles import (
    get_distinct_zones,
    read_listed_transitions,
    read_zone_bytes,
)

ZONES = get_distinct_zones()

_HOUR = timedelta(hours=1)


def test_no_zone_is_left_out():
    """Each name of the database is one of the zones below, or the same bytes."""
    contents = {read_zone_bytes(name) for name in ZONES}

    assert set() == {
        name for name in get_zone_names() if read_zone_bytes(name) not in contents
    }


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ZONES)
def test_due_as_the_daemon_runs_it(name: str):
    """Around every change we agree with the daemon, and where it holds with cronsim."""
    assert [] == [
        difference
        for change in find_own_transitions()[name]
        for difference in compare(name, change)
    ]


@pytest.mark.parametrize("name", ZONES)
def test_every_listed_change_is_found(name: str):
    """Neither the oracle nor the product, which look once or twice a day, misses it."""
    zone = load_zone(name)
    found = find_all_transitions(name)
    listed = [
        change
        for change in read_listed_transitions(name)
        if FIRST_INSTANT < change.at <= LAST_INSTANT
    ]
    last = listed[-1].at if listed else FIRST_INSTANT

    assert listed == [change for change in found if change.at <= last]
    for change in found:
        stretch = get_stretch(zone, change.at)

        assert change.at == stretch.starts_at
        assert change.shift == stretch.first - stretch.left


@pytest.mark.parametrize("name", ZONES)
def test_look_back_is_look_ahead(name: str):
    """Around the last ten changes, looking back by minutes finds what was promised."""
    zone = load_zone(name)
    lookback = timedelta(minutes=5)
    for change in find_all_transitions(name)[-10:]:
        for rule in (*SHAPES[:6], *aim_at(change)):
            zoned = CronRule(CronExpression.parse(rule), zone)
            start = change.at - abs(change.shift) - _HOUR
            ahead = find_occurrences(zoned, start - lookback, change.at + 2 * _HOUR)
            for minute in range(0, 180, 7):
                now = start + timedelta(minutes=minute, seconds=minute)
                expected = [due for due in ahead if now - lookback < due <= now]
                last = get_cron_last_occurrence(rule, zone, now=now, lookback=lookback)

                assert (expected[-1] if expected else None) == last
