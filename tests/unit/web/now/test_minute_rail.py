"""The minute rail and the spark line: where things are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from overview.installation.leaders import Reign
from web.now.fetch_minutes import Minutes
from web.now.minute_rail import draw_rail

NOW = datetime(2026, 10, 20, 2, 2, 37, tzinfo=UTC)
THIS = NOW.replace(second=0)
MINUTE = timedelta(minutes=1)
LONDON = ZoneInfo("Europe/London")


def unled(since: datetime, until: datetime | None) -> Reign:
    return Reign(None, since, until, None, "")


def make_minutes(counts: dict[int, dict[str, int]], *unled: Reign) -> Minutes:
    """Return minutes with *counts* by their distance from now, in minutes."""
    since = THIS - 120 * MINUTE
    return Minutes(
        now=NOW,
        since=since,
        until=THIS + 61 * MINUTE,
        counted_since=since,
        counts={THIS + n * MINUTE: each for n, each in counts.items()},
        unled=unled,
    )


def test_each_kind_has_its_path():
    """Success begins above the line, trouble below it."""
    rail = draw_rail(
        make_minutes({-9: {"succeeded": 3, "failed": 1}, 5: {"planned": 2}}),
        LONDON,
        stuck={},
    )

    assert {"succeeded", "failed", "planned"} == set(rail.paths)
    assert "62v-" in rail.paths["succeeded"]
    assert "66v" in rail.paths["failed"]


def test_heights_stay_within_their_room():
    """However many there are in a minute."""
    rail = draw_rail(make_minutes({-1: {"succeeded": 10**6}}), LONDON, stuck={})
    low = float(rail.paths["succeeded"].partition("v-")[2])

    assert 0 < low <= 44


def test_small_counts_stay_small_where_all_are():
    """One run a minute does not fill the picture."""
    rail = draw_rail(make_minutes({-1: {"succeeded": 1}}), LONDON, stuck={})

    assert float(rail.paths["succeeded"].partition("v-")[2]) < 22


def test_ruler_tells_the_time_of_the_zone():
    """Full hours are marked; an offset of half an hour moves them."""
    london = draw_rail(make_minutes({}), LONDON, stuck={})
    kolkata = draw_rail(make_minutes({}), ZoneInfo("Asia/Kolkata"), stuck={})

    assert ["02:00", "03:00", "04:00"] == [
        each.text for each in london.marks if each.is_hour
    ]
    assert ["06:00", "07:00", "08:00"] == [
        each.text for each in kolkata.marks if each.is_hour
    ]


def test_stretches_are_shaded_with_their_cause():
    """Nobody led; a queue has no worker, until now."""
    rail = draw_rail(
        make_minutes({}, unled(THIS - 111 * MINUTE, THIS - 89 * MINUTE)),
        LONDON,
        stuck={"quick": NOW - 4 * MINUTE},
    )

    lost, bad = rail.shades
    assert ("lost", "nobody led, 22 min") == (lost.kind, lost.text)
    assert ("bad", "quick has no worker") == (bad.kind, bad.text)
    assert round(bad.x + bad.width) == round(rail.now_x)


def test_what_began_before_the_rail_begins_with_it():
    """Nothing is drawn outside."""
    rail = draw_rail(
        make_minutes({}, unled(THIS - 999 * MINUTE, None)), LONDON, stuck={}
    )

    (shade,) = rail.shades
    assert 20 == shade.x
    assert round(shade.x + shade.width) == round(rail.now_x)


def test_table_has_the_same_figures():
    """Summed by a quarter of an hour."""
    rail = draw_rail(
        make_minutes(
            {
                -9: {"succeeded": 3, "skipped": 1},
                -8: {"succeeded": 2, "canceled": 1, "running": 4},
                5: {"planned": 2},
            }
        ),
        LONDON,
        stuck={},
    )

    totals = {
        name: sum(row.counts[name] for row in rail.rows) for name in rail.rows[0].counts
    }
    assert {
        "succeeded": 5,
        "failed": 0,
        "missed": 0,
        "skipped": 2,
        "live": 4,
        "planned": 2,
    } == totals
