"""A cron rule is due when its zone's clocks say so, once for each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from actions.when.cron import CronRule, get_cron_last_occurrence, make_cron_rule
from actions.when.searching import find_occurrences
from models.errors import RuleError
from models.fields.zone import get_zone_names, load_zone
from models.occurrence import LOOKBACK
from models.when import CronModel
from tests.time.oracles import PlainRule, run_cronsim
from tests.unit.models.expressions.cron_rules import cron_rules

PARIS = load_zone("Europe/Paris")
SEVEN_IN_PARIS = datetime(2026, 11, 23, 6, tzinfo=UTC)

#: Zones of every sort: no change, an hour, half an hour, at midnight, two hours,
#: twice a year for Ramadan, a skipped day, seconds in the offset until 1972.
ZONES = [
    "UTC",
    "Europe/Paris",
    "America/New_York",
    "Australia/Lord_Howe",
    "Africa/Cairo",
    "America/Santiago",
    "Antarctica/Troll",
    "Africa/Casablanca",
    "Asia/Kathmandu",
    "Europe/Dublin",
]

instants = st.datetimes(
    datetime(1970, 1, 5),  # noqa: DTZ001 - made UTC below
    datetime(2100, 1, 1),  # noqa: DTZ001
).map(lambda naive: naive.replace(tzinfo=UTC))


def make_rule(rule: str, zone: str) -> CronRule:
    """Return the rule of *rule*."""
    return make_cron_rule(CronModel(cron_rule=rule, timezone=zone))


@pytest.mark.parametrize(
    ("rule", "zone", "start", "expected"),
    [
        # March and October in Paris: gap 02:00 to 03:00, repeat 03:00 to 02:00.
        ("0 7 * * 1", "Europe/Paris", "2026-03-23", "03-23T06:00 03-30T05:00"),
        ("0 7 * * 1", "Europe/Paris", "2026-10-19", "10-19T05:00 10-26T06:00"),
        ("30 2 * * *", "Europe/Paris", "2026-03-28", "03-28T01:30 03-29T01:00"),
        ("30 2 * * *", "Europe/Paris", "2026-10-25", "10-25T00:30 10-26T01:30"),
        ("0,30 2 * * *", "Europe/Paris", "2026-03-29", "03-29T01:00 03-30T00:00"),
        ("30 2,3 * * *", "Europe/Paris", "2026-03-29", "03-29T01:00 03-29T01:30"),
        ("0 2,3 * * *", "Europe/Paris", "2026-03-29", "03-29T01:00 03-30T00:00"),
        ("30 * * * *", "Europe/Paris", "2026-03-29", "03-29T00:30 03-29T01:30"),
        ("*/30 2 * * *", "Europe/Paris", "2026-03-29", "03-30T00:00 03-30T00:30"),
        (
            "*/30 2 * * *",
            "Europe/Paris",
            "2026-10-25",
            "10-25T00:00 10-25T00:30 10-25T01:00 10-25T01:30 10-26T01:00",
        ),
        (
            "30 * * * *",
            "Europe/Paris",
            "2026-10-25",
            "10-25T00:30 10-25T01:30 10-25T02:30",
        ),
        ("30 0-23 * * *", "Europe/Paris", "2026-10-25", "10-25T00:30 10-25T02:30"),
        ("@hourly", "Europe/Paris", "2026-10-25", "10-25T00:00 10-25T01:00"),
        # Midnight gaps lose no day.
        ("@daily", "Africa/Cairo", "2026-04-23", "04-23T22:00 04-24T21:00"),
        ("30 0 24 4 *", "Africa/Cairo", "2026-04-01", "04-23T22:00"),
        ("@weekly", "Asia/Beirut", "2026-03-28", "03-28T22:00 04-04T21:00"),
        ("0 0 1 11 *", "America/Sao_Paulo", "1981-10-01", "11-01T03:00"),
        # Midnight that comes twice.
        ("0 0 * * *", "America/Havana", "2024-11-03", "11-03T04:00 11-04T05:00"),
        ("30 0 * * *", "America/Havana", "2024-11-03", "11-03T04:30 11-04T05:30"),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29", "10-29T20:30 10-30T21:30"),
        # Half an hour, both ways.
        ("15 2 * * *", "Australia/Lord_Howe", "2026-10-03", "10-03T15:30 10-04T15:15"),
        ("45 1 * * *", "Australia/Lord_Howe", "2026-04-04", "04-04T14:45 04-05T15:15"),
        (
            "*/15 1 * * *",
            "Australia/Lord_Howe",
            "2026-04-04T14:30",
            "04-04T14:30 04-04T14:45 04-04T15:00 04-04T15:15 04-05T14:30",
        ),
        # Two hours.
        ("30 1 * * *", "Antarctica/Troll", "2026-03-29", "03-29T01:00 03-29T23:30"),
        # A day that never came, and three hours: nothing is made up for.
        ("0 7 * * *", "Pacific/Apia", "2011-12-29", "12-29T17:00 12-30T17:00"),
        ("30 1 * * *", "Asia/Ust-Nera", "1981-03-30", "03-30T16:30 04-01T13:30"),
        # Three hours back is still a clock change: once.
        ("30 0 * * *", "Antarctica/Casey", "2010-03-04", "03-04T13:30 03-05T16:30"),
        # Seven hours back is a clock that was set: both.
        ("30 23 * * *", "Antarctica/Vostok", "1994-01-31", "01-31T16:30 01-31T23:30"),
    ],
)
def test_clock_changes(rule: str, zone: str, start: str, expected: str):
    """
    A fixed time happens once, a star wherever the clock shows it; see docs/time.md.
    """
    zoned = make_rule(rule, zone)
    since = datetime.fromisoformat(start).replace(tzinfo=UTC)
    until, count = since.replace(year=since.year + 1), len(expected.split())

    found = find_occurrences(zoned, since, until, limit=count)

    assert expected == " ".join(f"{due_at:%m-%dT%H:%M}" for due_at in found)
    assert not any(due_at.second for due_at in found)


def test_date_that_was_leapt_over_does_not_happen():
    """
    Samoa had no 30 December 2011, so a rule for that date waits for the next year.
    """
    zoned = make_rule("0 7 30 12 *", "Pacific/Apia")

    due_at = zoned.next_from(datetime(2011, 12, 29, tzinfo=UTC))

    assert datetime(2012, 12, 29, 17, tzinfo=UTC) == due_at


def test_minute_after_a_gap_is_the_first_whole_one():
    """Monrovia dropped 44 minutes 30 seconds, and seconds of offset, in 1972."""
    zoned = make_rule("0 0 * * *", "Africa/Monrovia")
    start = datetime(1972, 1, 6, tzinfo=UTC)

    expected = [
        datetime(1972, 1, 6, 0, 44, 30, tzinfo=UTC),
        datetime(1972, 1, 7, 0, 45, tzinfo=UTC),
        datetime(1972, 1, 8, tzinfo=UTC),
    ]

    assert expected == find_occurrences(zoned, start, start + timedelta(days=3))


def test_rarest_date_is_found():
    """A 29 February on a Sunday is found 40 years on: the year 2100 has none."""
    zoned = make_rule("0 0 29 2 */7", "UTC")

    due_at = zoned.next_from(datetime(2088, 3, 1, tzinfo=UTC))

    assert datetime(2128, 2, 29, tzinfo=UTC) == due_at


def test_nothing_is_due_after_the_last_year():
    """A rule whose next date lies beyond what a datetime holds is never due again."""
    zoned = make_rule("0 0 29 2 */7", "Europe/Paris")

    assert zoned.next_from(datetime(9990, 1, 1, tzinfo=UTC)) is None


def test_rules_with_the_same_meaning_are_one():
    """Equal rules in one zone are equal and hash alike, so that actions share them."""
    zoned = make_rule("0 7 * * MON", "Europe/Paris")

    assert zoned == make_rule("00 7  * * 1", "Europe/Paris")
    assert hash(zoned) == hash(make_rule("0 7 * * 1", "Europe/Paris"))
    assert PARIS is zoned.zone


@pytest.mark.parametrize(
    ("rule", "zone"), [("61 * * * *", "UTC"), ("0 7 * * 1", "Europe/Pairs")]
)
def test_wrong_rule_or_zone_is_refused(rule: str, zone: str):
    """Nothing unreadable becomes a zoned, even if it slipped in past the door."""
    unchecked = CronModel.model_construct(cron_rule=rule, timezone=zone)

    with pytest.raises(RuleError):
        make_cron_rule(unchecked)


def is_plain(rule: str) -> bool:
    """Whether the minute-by-minute oracle can read *rule*."""
    return not any(letter.isalpha() or letter == "#" for letter in rule)


@given(cron_rules(), st.sampled_from(ZONES), instants)
def test_cronsim_agrees_on_ordinary_days(rule: str, zone: str, start: datetime):
    """
    On days without clock changes our answer is that of cronsim, any rule, any zone.
    """
    zoned = make_rule(rule, zone)
    due_at = zoned.next_from(start)
    assert due_at is not None
    end = due_at + timedelta(hours=3)
    for edge in (start, due_at):
        # What happens around clock changes has oracles of its own.
        near = {
            (edge + timedelta(hours=hours)).astimezone(zoned.zone).utcoffset()
            for hours in (-30, 0, 30)
        }
        assume(len(near) == 1)
    found = find_occurrences(zoned, start, end)

    assert run_cronsim(rule, zoned.zone, start, end) == found


@given(cron_rules().filter(is_plain), st.sampled_from(ZONES), instants)
def test_scan_of_every_minute_finds_the_same(rule: str, zone: str, start: datetime):
    """
    Away from clock changes a rule is due in just those minutes that suit its fields.
    """
    zoned = make_rule(rule, zone)
    start = start.replace(second=0, microsecond=0)
    end = start + timedelta(hours=12)
    offsets = {
        (start + timedelta(hours=hours)).astimezone(zoned.zone).utcoffset()
        for hours in (-6, 0, 6, 12)
    }
    assume(len(offsets) == 1)
    plain = PlainRule.read(rule)
    minutes = [start + timedelta(minutes=minute) for minute in range(720)]
    expected = [
        minute
        for minute in minutes
        if plain.suits(minute.astimezone(zoned.zone).replace(tzinfo=None))
        and not minute.astimezone(zoned.zone).second
    ]

    assert expected == find_occurrences(zoned, start, end)


@given(
    cron_rules(),
    st.sampled_from(sorted(get_zone_names())),
    st.datetimes(
        datetime(1900, 1, 5),  # noqa: DTZ001
        datetime(9980, 1, 1),  # noqa: DTZ001
    ),
)
def test_occurrences_increase(rule: str, zone: str, naive: datetime):
    """
    Each answer is at or after the question, on a whole minute of local time, and
    the first: asking from anywhere before it gives the same.
    """
    zoned = make_rule(rule, zone)
    start = naive.replace(tzinfo=UTC)
    found = [start]
    for _ in range(5):
        due_at = zoned.next_from(found[-1] + timedelta.resolution)
        if due_at is None:
            break
        assert UTC is due_at.tzinfo
        assert 0 == due_at.astimezone(zoned.zone).second
        assert due_at == zoned.next_from(due_at)
        assert due_at == zoned.next_from(found[-1] + (due_at - found[-1]) / 2)
        found.append(due_at)

    assert all(one < other for one, other in pairwise(found))


@pytest.mark.parametrize(
    ("after", "is_found"),
    [
        (timedelta(microseconds=-1), False),
        (timedelta(0), True),
        (timedelta(minutes=4), True),
        (timedelta(minutes=5, microseconds=-1), True),
        (timedelta(minutes=5), False),
        (timedelta(minutes=6), False),
    ],
)
def test_window_is_open_at_its_start(after: timedelta, *, is_found: bool):
    """
    What is due is found from its minute until just before five minutes have passed.
    """
    now = SEVEN_IN_PARIS + after

    assert timedelta(minutes=5) == LOOKBACK
    assert (SEVEN_IN_PARIS if is_found else None) == get_cron_last_occurrence(
        "0 7 * * *", PARIS, now=now
    )


def test_zone_of_now_does_not_matter():
    """The same instant in another zone has the same answer, in UTC."""
    tokyo = ZoneInfo("Asia/Tokyo")
    now = SEVEN_IN_PARIS.astimezone(tokyo)

    due_at = get_cron_last_occurrence("0 7 * * *", PARIS, now=now)

    assert due_at is not None
    assert (SEVEN_IN_PARIS, UTC) == (due_at, due_at.tzinfo)


def test_naive_now_is_refused():
    """A time without offset would be read in the zone of the host."""
    naive = SEVEN_IN_PARIS.replace(tzinfo=None)

    with pytest.raises(ValueError, match="now has no UTC offset"):
        get_cron_last_occurrence("0 7 * * *", PARIS, now=naive)


@pytest.mark.parametrize(
    ("now", "expected"),
    [
        # March: 02:30 does not exist, and stands at 03:00 summer time.
        ("2026-03-29T01:00", "2026-03-29T01:00"),
        ("2026-03-29T01:04", "2026-03-29T01:00"),
        ("2026-03-29T00:32", None),
        # October: at its first pass only.
        ("2026-10-25T00:32", "2026-10-25T00:30"),
        ("2026-10-25T01:32", None),
    ],
)
def test_look_back_has_the_same_clock_changes(now: str, expected: str | None):
    """What looking ahead puts at the first pass, looking back does not find again."""
    due_at = get_cron_last_occurrence(
        "30 2 * * *", PARIS, now=datetime.fromisoformat(now).replace(tzinfo=UTC)
    )

    assert expected == (due_at and due_at.strftime("%Y-%m-%dT%H:%M"))


@given(
    cron_rules(),
    st.sampled_from(ZONES),
    instants,
    st.timedeltas(timedelta(0), timedelta(days=2)),
)
def test_look_back_finds_the_last_of_the_look_ahead(
    rule: str, zone: str, now: datetime, lookback: timedelta
):
    """Looking back finds exactly the last of what looking ahead lists."""
    zoned = make_rule(rule, zone)
    tick = timedelta.resolution
    ahead = find_occurrences(zoned, now - lookback + tick, now + tick)

    last = get_cron_last_occurrence(rule, zoned.zone, now=now, lookback=lookback)

    assert (ahead[-1] if ahead else None) == last
