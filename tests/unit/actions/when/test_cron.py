"""A cron rule is due when its zone's clocks say so, once for each time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from actions.when.cron import CronRule, get_cron_last_occurrence, make_cron_rule
from actions.when.searching import find_occurrences
from models.errors import RuleError
from models.fields.zone import get_zone_names, load_zone
from models.when import CronModel
from tests.time.oracles import run_cronsim
from tests.unit.models.expressions.cron_rules import cron_rules
from tests.unit.models.fields.moments import make_instants, zone_names

PARIS = load_zone("Europe/Paris")
MINUTE = timedelta(minutes=1)

instants = make_instants(1971, 2100)


def make_rule(rule: str, zone: str) -> CronRule:
    """Return the rule of *rule*."""
    return make_cron_rule(CronModel(cron_rule=rule, timezone=zone))


@pytest.mark.parametrize(
    ("rule", "zone", "start", "expected"),
    [
        # March and October in Paris: gap 02:00 to 03:00, repeat 03:00 to 02:00.
        ("0 7 * * 1", "Europe/Paris", "2026-03-23", "03-23T06:00 03-30T05:00"),
        ("0 7 * * 1", "Europe/Paris", "2026-10-19", "10-19T05:00 10-26T06:00"),
        ("0 2,3 * * *", "Europe/Paris", "2026-03-29", "03-29T01:00 03-30T00:00"),
        ("30 * * * *", "Europe/Paris", "2026-03-29", "03-29T00:30 03-29T01:30"),
        (
            "30 * * * *",
            "Europe/Paris",
            "2026-10-25",
            "10-25T00:30 10-25T01:30 10-25T02:30",
        ),
        ("30 0-23 * * *", "Europe/Paris", "2026-10-25", "10-25T00:30 10-25T02:30"),
        ("@hourly", "Europe/Paris", "2026-10-25", "10-25T00:00 10-25T01:00"),
        # Midnight gaps lose no day.
        ("@weekly", "Asia/Beirut", "2026-03-28", "03-28T22:00 04-04T21:00"),
        ("0 0 1 11 *", "America/Sao_Paulo", "1981-10-01", "11-01T03:00"),
        # Midnight that comes twice.
        ("30 0 * * *", "America/Havana", "2024-11-03", "11-03T04:30 11-04T05:30"),
        ("30 23 * * *", "Africa/Cairo", "2026-10-29", "10-29T20:30 10-30T21:30"),
        # Three hours that never came: nothing is made up for.
        ("30 1 * * *", "Asia/Ust-Nera", "1981-03-30", "03-30T16:30 04-01T13:30"),
    ],
)
def test_clock_changes(rule: str, zone: str, start: str, expected: str):
    """
    A fixed time happens once, a star wherever the clock shows it: what stands beside
    the rows of docs/time.md, which test_time_page.py holds.
    """
    zoned = make_rule(rule, zone)
    since = datetime.fromisoformat(start).replace(tzinfo=UTC)
    until, count = since.replace(year=since.year + 1), len(expected.split())

    found = find_occurrences(zoned, since, until, limit=count)

    assert expected == " ".join(f"{due_at:%m-%dT%H:%M}" for due_at in found)
    assert not any(due_at.second for due_at in found)


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


@given(cron_rules(), st.sampled_from(sorted(get_zone_names())), instants)
def test_cronsim_agrees_on_ordinary_days(rule: str, zone: str, start: datetime):
    """On days without clock changes we answer as cronsim: any rule, any zone."""
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


# what is exactly as old as the window has left it
@example("0 7 * * *", "UTC", datetime(2026, 11, 23, 7, 5, tzinfo=UTC), 5 * MINUTE)
@example("0 7 * * *", "UTC", datetime(2026, 11, 23, 7, tzinfo=UTC), 5 * MINUTE)
@given(
    cron_rules(), zone_names, instants, st.timedeltas(timedelta(0), timedelta(days=2))
)
def test_look_back_finds_the_last_of_the_look_ahead(
    rule: str, zone: str, now: datetime, lookback: timedelta
):
    """Looking back, in any zone, finds the last of what looking ahead lists."""
    zoned = make_rule(rule, zone)
    tick = timedelta.resolution
    ahead = find_occurrences(zoned, now - lookback + tick, now + tick)

    last = get_cron_last_occurrence(
        rule, zoned.zone, now=now.astimezone(PARIS), lookback=lookback
    )

    assert (ahead[-1] if ahead else None) == last


@pytest.mark.parametrize(
    ("after", "is_found"),
    [
        (timedelta(microseconds=-1), False),
        (timedelta(0), True),
        (timedelta(minutes=5, microseconds=-1), True),
        (timedelta(minutes=5), False),
    ],
)
def test_look_back_is_five_minutes_if_none_is_given(
    after: timedelta, *, is_found: bool
):
    """Open at its start: each minute is in one window of ticks that follow closely."""
    seven = datetime(2026, 11, 23, 6, tzinfo=UTC)

    found = get_cron_last_occurrence("0 7 * * *", PARIS, now=seven + after)

    assert (seven if is_found else None) == found


def test_naive_now_is_refused():
    """A time without offset would be read in the zone of the host."""
    naive = datetime(2026, 11, 23, 7)  # noqa: DTZ001 - on purpose

    with pytest.raises(ValueError, match="now has no UTC offset"):
        get_cron_last_occurrence("0 7 * * *", PARIS, now=naive)
